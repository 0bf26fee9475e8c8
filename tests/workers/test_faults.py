"""Failing items, failing memory, failing devices."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from tests.workers.models import Diary, Job, Step, Timed, teach, until, virtual
from workers.backend import Done
from workers.device import Device
from workers.errors import BackendDead, BackendFailed, InputInvalid
from workers.pool import Pool
from workers.task import Lane, Result, Task
from workers.watchdog import Health

Make = Callable[..., tuple[list[Device], list[Timed], Pool]]


@pytest.mark.parametrize("fault", ["raise", "result"])
@pytest.mark.parametrize("place", [0, 13, 31])
def test_a_poisoned_item_fails_alone_among_32(fault: str, place: int) -> None:
    model, diary = Timed(a=0.001), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)
    jobs = [Job(n, costs=(1, 1), fault=fault if n == place else "", at_step=1) for n in range(32)]
    tasks = [pool.submit_task(job, lane=Lane.FINAL, deadline=9, sink=diary) for job in jobs]
    while device.loop.turn():
        pass
    assert len(model.batches[0]) == 32
    for number, task in enumerate(tasks):
        end = diary.end_of(task)
        if number == place:
            assert isinstance(end, BackendFailed) and "poison" in end.message
            assert isinstance(end.__cause__, ValueError)
        else:
            assert diary.outputs_of(task) == [f"{number}.0", f"{number}.1"]
    assert len(model.batches) <= 2 + 2 * 5  # halves of halves, not one by one


def test_halves_that_ran_well_mix_again() -> None:
    model, heard = Timed(a=0.001), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)

    def later(task: Task, result: Result) -> None:
        heard(task, result)
        task.move(20.0)

    for n in range(8):
        job = Job(n, costs=(1, 1), fault="raise" if n == 7 else "")
        pool.submit_task(job, lane=Lane.FINAL, deadline=9, sink=later)
    device.loop.turn()
    pool.submit_task(Job("new"), lane=Lane.FINAL, deadline=8, sink=heard)
    while device.loop.turn():
        pass
    assert len(heard.ends()) == 9
    assert model.batches[1] == ["new"], "a party under suspicion takes nobody in"
    assert model.batches[-1] == [0, 1, 2, 3, 4, 5, 6]


def test_a_typed_error_stays_itself_and_a_bad_payload_is_refused_at_once() -> None:
    model, diary = Timed(), Diary()
    _, device, (pool,) = virtual(model)
    with pytest.raises(InputInvalid):
        pool.submit_task(Job(1, fault="open"), lane=Lane.FINAL, deadline=9, sink=diary)
    with pytest.raises(BackendFailed, match="AttributeError"):
        pool.submit_task("not a job", lane=Lane.FINAL, deadline=9, sink=diary)
    assert device.stats().open == 0
    wrong = InputInvalid("too quiet", param="audio")
    model.step = lambda states: [wrong]  # type: ignore[method-assign]
    task = pool.submit_task(Job(2), lane=Lane.FINAL, deadline=9, sink=diary)
    device.loop.turn()
    assert diary.end_of(task) is wrong


def test_a_model_that_miscounts_its_results_is_told_so() -> None:
    model, diary = Timed(), Diary()
    _, device, (pool,) = virtual(model)
    model.step = lambda states: []  # type: ignore[method-assign]
    task = pool.submit_task(Job(1), lane=Lane.FINAL, deadline=9, sink=diary)
    device.loop.turn()
    end = diary.end_of(task)
    assert isinstance(end, BackendFailed) and "0 results for 1 states" in end.message


def test_a_sink_that_raises_ends_its_own_task_only(caplog: pytest.LogCaptureFixture) -> None:
    model, diary = Timed(), Diary()
    _, device, (pool,) = virtual(model)
    teach(device, model)

    def broken(*_: object) -> None:
        raise RuntimeError("sink")

    bad = pool.submit_task(Job(1, costs=(1, 1)), lane=Lane.FINAL, deadline=9, sink=broken)
    good = pool.submit_task(Job(2, costs=(1, 1)), lane=Lane.FINAL, deadline=9, sink=diary)
    while device.loop.turn():
        pass
    assert bad.ended and diary.end_of(good) == Done("2.1")
    assert "the sink of task" in caplog.text
    assert [state.freed for state in model.states] == [1, 1]


class OutOfMemoryError(RuntimeError):
    """By the name of torch's own, which is recognised without importing torch."""


@pytest.mark.parametrize(
    "error", [MemoryError(), RuntimeError("CUDA error: out of memory"), OutOfMemoryError("tried to allocate 2 GiB")]
)
def test_out_of_memory_halves_the_batch_and_lowers_the_cap_for_a_while(error: Exception) -> None:
    model, diary = Timed(a=0.001), Diary()
    clock, device, (pool,) = virtual(model)
    teach(device, model)

    def short_of_memory(states: list[Step]) -> None:
        if len(states) > 8:
            raise error

    model.before_step = short_of_memory

    def run() -> None:
        model.batches.clear()
        for n in range(32):
            pool.submit_task(Job(n), lane=Lane.FINAL, deadline=clock.now + 9, sink=diary)
        while device.loop.turn():
            pass

    run()
    assert len(diary.ends()) == 32 and all(isinstance(result, Done) for _, result in diary.all)
    assert [len(batch) for batch in model.batches] == [32, 16, 8, 8, 8, 8]
    run()
    assert [len(batch) for batch in model.batches] == [8, 8, 8, 8]
    clock.sleep(60.0)
    model.before_step = lambda states: None
    run()
    assert [len(batch) for batch in model.batches] == [32]


def test_torchs_own_error_is_recognised() -> None:
    torch = pytest.importorskip("torch")
    from workers.home import out_of_memory

    assert out_of_memory(torch.OutOfMemoryError("CUDA"))
    assert not out_of_memory(RuntimeError("shape mismatch"))


@pytest.fixture
def make() -> Iterator[Make]:
    """Starts devices with real threads, each with a model of its own."""
    devices: list[Device] = []
    release = threading.Event()

    def start(count: int, *, hang_limit: float = 0.3, **options: float) -> tuple[list[Device], list[Timed], Pool]:
        models = [Timed(**options) for _ in range(count)]  # type: ignore[arg-type]
        for number, model in enumerate(models):
            model.hang = release.wait  # type: ignore[attr-defined]
            devices.append(Device(f"d{number}", hang_limit=hang_limit))
            devices[-1].add(model)
            devices[-1].start()
        return devices, models, Pool("timed", devices)

    yield start
    release.set()
    for device in devices:
        device.close()


def hang_on(model: Timed, name: str) -> None:
    def stuck(states: list[Step]) -> None:
        if any(state.job.name == name for state in states):
            model.hang()  # type: ignore[attr-defined]

    model.before_step = stuck


def test_a_hung_step_is_retried_on_the_other_replica_and_its_late_result_discarded(make: Make) -> None:
    (first, second), (one, two), pool = make(2)
    diary = Diary()
    release = threading.Event()
    one.before_step = lambda states: release.wait()
    task = pool.submit_task(Job("a"), lane=Lane.FINAL, deadline=9, sink=diary, lease=None)
    assert task.host is first
    until(lambda: diary.end_of(task))
    assert diary.outputs_of(task) == ["a.0"]
    assert two.batches == [["a"]]
    until(lambda: first.ready)
    assert (one.loads, first.restarts, second.restarts) == (2, 1, 0)
    one.before_step = lambda states: None
    release.set()  # the abandoned thread comes back with its result
    until(lambda: one.states[0].freed)
    again = pool.submit_task(Job("b"), lane=Lane.FINAL, deadline=9, sink=diary)
    until(lambda: diary.end_of(again))
    assert diary.outputs_of(task) == ["a.0"], "nothing twice"
    assert one.states[0].freed == 1


def test_without_another_replica_the_restarted_device_runs_the_retry(make: Make) -> None:
    _, (model,), pool = make(1)
    diary, hung = Diary(), threading.Event()

    def once(states: list[Step]) -> None:
        if not hung.is_set():
            hung.set()
            model.hang()  # type: ignore[attr-defined]

    model.before_step = once
    tasks = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=9 + n, sink=diary) for n in range(4)]
    until(lambda: len(diary.ends()) == 4)
    assert all(isinstance(diary.end_of(task), Done) for task in tasks)
    assert model.loads == 2


def test_what_hangs_every_time_ends_with_backend_dead_and_takes_nobody_along(make: Make) -> None:
    (device,), (model,), pool = make(1)
    diary, submitted = Diary(), threading.Event()

    def stuck(states: list[Step]) -> None:
        names = [state.job.name for state in states]
        if "first" in names:
            submitted.wait(5)
        elif "poison" in names:
            model.hang()  # type: ignore[attr-defined]

    model.before_step = stuck
    device.hang_limit = 5.0
    names = ["first", "a", "poison", "b", "c"]
    tasks = {name: pool.submit_task(Job(name), lane=Lane.FINAL, deadline=9, sink=diary) for name in names}
    device.hang_limit = 0.3
    submitted.set()
    until(lambda: len(diary.ends()) == 5)
    assert ["a", "poison", "b", "c"] in model.batches
    assert isinstance(diary.end_of(tasks.pop("poison")), BackendDead)
    for name, task in tasks.items():
        assert diary.outputs_of(task) == [f"{name}.0"]
    assert device.restarts == 2


def test_a_stream_that_was_speaking_goes_on_where_it_was_cut(make: Make) -> None:
    _, (one, _), pool = make(2)
    diary = Diary()

    def third_step(states: list[Step]) -> None:
        if states[0].at == 2:
            one.hang()  # type: ignore[attr-defined]

    one.before_step = third_step
    task = pool.submit_task(Job("v", costs=(1.0,) * 5), lane=Lane.INTERACTIVE, deadline=9, sink=diary)
    until(lambda: diary.end_of(task))
    assert diary.outputs_of(task) == [f"v.{step}" for step in range(5)]


@pytest.mark.parametrize("how", ["thread", "gone", "idle"])
def test_a_crash_restarts_the_device_and_loses_nothing(
    make: Make, how: str, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("workers.loop.CHECK_EVERY", 0.05)
    (device,), (model,), pool = make(1, hang_limit=2.0)
    diary, crashed = Diary(), threading.Event()
    load = model.load

    def mended(where: str) -> None:
        model.gone = False
        load(where)

    model.load = mended  # type: ignore[method-assign]

    def crash(states: list[Step]) -> None:
        if not crashed.is_set():
            crashed.set()
            if how == "thread":
                raise SystemExit
            model.gone = True
            raise RuntimeError("CUDA error: unspecified launch failure")

    if how == "idle":
        model.gone = True
        until(lambda: device.restarts == 1)
    else:
        model.before_step = crash
    tasks = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=9, sink=diary) for n in range(8)]
    until(lambda: len(diary.ends()) == 8)
    assert all(isinstance(diary.end_of(task), Done) for task in tasks)
    until(lambda: device.ready)
    assert (device.restarts, model.loads) == (1, 2)
    assert "to save" in caplog.text
    until(lambda: all(state.freed == 1 for state in model.states))


def test_a_device_that_cannot_be_loaded_again_gives_its_tasks_up_and_keeps_trying(
    make: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.watchdog.FIRST_PAUSE", 0.05)
    (device,), (model,), pool = make(1)
    device._watchdog._pause = 0.05
    diary, load, broken = Diary(), model.load, threading.Event()

    def refuse(where: str) -> None:
        broken.set()
        raise OSError("no such device")

    model.load = refuse  # type: ignore[method-assign]
    hang_on(model, "a")
    tasks = [pool.submit_task(Job(name), lane=Lane.FINAL, deadline=9, sink=diary) for name in "ab"]
    until(lambda: device.health is Health.DEAD)
    until(lambda: len(diary.ends()) == 2)
    assert all(isinstance(diary.end_of(task), BackendDead) for task in tasks)
    with pytest.raises(BackendDead):
        pool.submit_task(Job("c"), lane=Lane.FINAL, deadline=9, sink=diary)
    model.load = load  # type: ignore[method-assign]
    until(lambda: device.ready)
    task = pool.submit_task(Job("d"), lane=Lane.FINAL, deadline=9, sink=diary)
    until(lambda: diary.end_of(task))


def test_a_failing_first_load_is_the_callers_to_see() -> None:
    model, device = Timed(), Device("d")
    device.add(model)
    model.load = lambda where: 1 / 0  # type: ignore[method-assign,assignment,return-value]
    with pytest.raises(ZeroDivisionError):
        device.start()
    assert not device.ready
    device.close()


def test_a_cancel_while_the_step_hangs_is_final(make: Make) -> None:
    _, (one, two), pool = make(2)
    diary = Diary()
    hang_on(one, "a")
    task = pool.submit_task(Job("a"), lane=Lane.FINAL, deadline=9, sink=diary)
    until(lambda: one.batches)
    assert task.cancel()
    time.sleep(0.6)
    assert len(diary.of(task)) == 1 and not two.batches
