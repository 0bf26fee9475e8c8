"""Devices with their real threads, and the asyncio side of tasks."""

from __future__ import annotations

import asyncio
import gc
import random
import threading
import time
import weakref
from collections.abc import Iterator, Sequence

import pytest

from tests.workers.models import Diary, Job, Step, Timed, until
from workers.backend import Done, Limits, More, Spec
from workers.device import Device
from workers.errors import BackendDead, BackendFailed, Cancelled, Draining, Overloaded
from workers.onestep import OneStep
from workers.pool import Pool
from workers.task import Lane, Phase, Result, Task


@pytest.fixture
def model() -> Timed:
    return Timed()


@pytest.fixture
def device(model: Timed) -> Iterator[Device]:
    device = Device("cpu:of-the-test", queue_limit=400)
    device.add(model)
    device.start()
    yield device
    device.close()


@pytest.fixture
def pool(device: Device) -> Pool:
    return Pool("timed", [device])


class Gate:
    """Holds the device in a step until it is opened."""

    def __init__(self, model: Timed) -> None:
        self.entered, self._open = threading.Event(), threading.Event()
        self._model = model
        model.before_step = self._wait

    def _wait(self, states: list[Step]) -> None:
        self.entered.set()
        self._open.wait(10)

    def open(self) -> None:
        self._model.before_step = lambda states: None
        self._open.set()


async def test_200_handles_get_their_own_results(pool: Pool) -> None:
    handles = [
        pool.submit(Job(n, costs=(1.0,) * (1 + n % 3)), lane=list(Lane)[n % 4], deadline=time.monotonic() + 1, stream=n)
        for n in range(200)
    ]
    results = await asyncio.gather(*(handle.result() for handle in handles))
    assert results == [f"{n}.{n % 3}" for n in range(200)]
    for n, handle in enumerate(handles):
        timing = handle.timing
        assert handle.done and handle.phase is Phase.ENDED
        assert timing.queued_at <= timing.started_at <= timing.ended_at
        assert timing.steps == 1 + n % 3 and timing.step_seconds >= 0


async def test_one_call_into_the_event_loop_for_a_step(
    model: Timed, pool: Pool, monkeypatch: pytest.MonkeyPatch
) -> None:
    await pool.submit(Job("warm"), lane=Lane.FINAL, deadline=0).result()
    loop, gate = asyncio.get_running_loop(), Gate(model)
    first = pool.submit(Job("first"), lane=Lane.FINAL, deadline=0)
    gate.entered.wait(5)
    handles = [pool.submit(Job(n), lane=Lane.PARTIAL, deadline=0) for n in range(32)]
    calls, call = [], loop.call_soon_threadsafe

    def counted(*args: object) -> object:
        calls.append(threading.get_ident())
        return call(*args)  # type: ignore[arg-type]

    monkeypatch.setattr(loop, "call_soon_threadsafe", counted)
    gate.open()
    await asyncio.gather(first.result(), *(handle.result() for handle in handles))
    # Two steps after the first, or a few more where a busy machine has made the first look long.
    assert len(calls) <= len(model.batches) - 1 <= 5


async def test_an_event_loop_that_is_busy_is_called_once(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    loop, calls = asyncio.get_running_loop(), []
    call = loop.call_soon_threadsafe
    monkeypatch.setattr(loop, "call_soon_threadsafe", lambda *args: (calls.append(1), call(*args))[1])
    handle = pool.submit(Job("s", costs=(1.0,) * 50), lane=Lane.FINAL, deadline=0)
    until(lambda: handle.task.ended)
    until(lambda: calls)
    assert len([output async for output in handle]) == 50
    assert len(calls) == 1


def test_results_of_a_run_that_no_longer_counts_are_dropped() -> None:
    diary = Diary()
    task = Task(Job("a"), lane=Lane.FINAL, deadline=0, sink=diary)
    old, new = object(), object()
    task.run = new
    assert not task.deliver(Done("late"), old) and not task.ended
    task.deliver(Done("right"), new)
    assert diary.outputs_of(task) == ["right"]


async def test_iteration_hands_out_everything_in_order(pool: Pool) -> None:
    handle = pool.submit(Job("s", costs=(1.0,) * 20), lane=Lane.INTERACTIVE, deadline=0)
    assert [output async for output in handle] == [f"s.{step}" for step in range(20)]
    assert await handle.result() == "s.19"


async def test_errors_arrive_typed(pool: Pool) -> None:
    handle = pool.submit(Job("s", costs=(1, 1), fault="raise", at_step=1), lane=Lane.FINAL, deadline=0)
    heard = []
    with pytest.raises(BackendFailed, match="poison"):
        async for output in handle:
            heard.append(output)
    assert heard == ["s.0"]
    for _ in range(2):
        with pytest.raises(BackendFailed):
            await handle.result()


async def test_cancelling_a_handle_ends_it_at_once_and_within_a_step(model: Timed, pool: Pool) -> None:
    gate = Gate(model)
    handle = pool.submit(Job("a", costs=(1.0,) * 5), lane=Lane.FINAL, deadline=0)
    waiting = pool.submit(Job("b"), lane=Lane.FINAL, deadline=0)
    gate.entered.wait(5)
    reader = asyncio.create_task(handle.result())
    await asyncio.sleep(0)
    assert handle.cancel() and waiting.cancel() and not handle.cancel()
    with pytest.raises(Cancelled):
        await asyncio.wait_for(reader, 1)  # while the step still runs
    with pytest.raises(Cancelled):
        await anext(handle)
    gate.open()
    await pool.submit(Job("c"), lane=Lane.FINAL, deadline=0).result()
    assert model.batches == [["a"], ["c"]]
    until(lambda: all(state.freed == 1 for state in model.states))


async def test_an_end_that_is_on_its_way_is_not_heard_after_cancel(pool: Pool) -> None:
    handle = pool.submit(Job("a"), lane=Lane.FINAL, deadline=0)
    until(lambda: handle.task.ended)  # this blocks the loop: the result is in the mailbox, unread
    handle.cancel()
    await asyncio.sleep(0.01)
    with pytest.raises(Cancelled):
        await handle.result()


async def test_cancelling_the_waiting_coroutine_cancels_the_task(model: Timed, pool: Pool) -> None:
    gate = Gate(model)
    handle = pool.submit(Job("a"), lane=Lane.FINAL, deadline=0)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(handle.result(), 0.02)
    assert handle.task.ended
    gate.open()


async def test_cancel_from_another_thread_wakes_the_reader(model: Timed, pool: Pool) -> None:
    gate = Gate(model)
    handle = pool.submit(Job("a"), lane=Lane.FINAL, deadline=0)
    threading.Timer(0.02, handle.cancel).start()
    with pytest.raises(Cancelled):
        await asyncio.wait_for(handle.result(), 5)
    gate.open()


async def test_a_newer_partial_replaces_a_waiting_one_and_deadlines_move(model: Timed, pool: Pool) -> None:
    gate, now = Gate(model), time.monotonic()
    pool.submit(Job("busy"), lane=Lane.FINAL, deadline=now)
    gate.entered.wait(5)
    old = pool.submit(Job("old"), lane=Lane.PARTIAL, deadline=now, stream="s", coalesce="partial")
    new = pool.submit(Job("new"), lane=Lane.PARTIAL, deadline=now + 1, stream="s", coalesce="partial")
    with pytest.raises(Cancelled, match="newer"):
        await asyncio.wait_for(old.result(), 1)
    first = pool.submit(Job("first", bucket=1), lane=Lane.PARTIAL, deadline=now + 2, stream="t")
    second = pool.submit(Job("second", bucket=2), lane=Lane.PARTIAL, deadline=now + 3, stream="u")
    second.move(now + 0.5)
    first.move(now + 0.9)
    new.move(now + 5)
    gate.open()
    await asyncio.gather(*(handle.result() for handle in (new, first, second)))
    assert model.batches == [["busy"], ["second"], ["first"], ["new"]]


def test_nothing_is_emitted_after_cancel_returns_whatever_the_race(pool: Pool) -> None:
    dice = random.Random(5)
    for round_ in range(300):
        heard: list[Result] = []

        def sink(task: Task, result: Result, heard: list[Result] = heard) -> None:
            heard.append(result)

        task = pool.submit_task(Job(round_, costs=(1.0,) * 30), lane=Lane.FINAL, deadline=0, sink=sink)
        for _ in range(dice.randrange(200)):
            pass
        ours = task.cancel()
        said = len(heard)
        assert isinstance(heard[-1], Cancelled if ours else Done)
        if round_ % 10 == 0:
            time.sleep(0.002)
        assert len(heard) == said
    until(lambda: not pool.replicas[0].stats().open)  # type: ignore[attr-defined]


def test_cancels_from_many_threads_end_a_task_once(pool: Pool, model: Timed) -> None:
    diary = Diary()
    tasks = [pool.submit_task(Job(n, costs=(1.0,) * 5), lane=Lane.FINAL, deadline=0, sink=diary) for n in range(300)]
    wins: list[Task] = []
    threads = [threading.Thread(target=lambda: wins.extend(task for task in tasks if task.cancel())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(wins) == len(set(wins))
    assert all(diary.end_of(task) is not None for task in tasks)
    until(lambda: all(state.freed == 1 for state in model.states))


def test_a_sink_may_submit_cancel_and_move(pool: Pool) -> None:
    ended, chain = threading.Event(), []

    def sink(task: Task, result: Result) -> None:
        chain.append((task.payload.name, type(result)))
        if isinstance(result, More):
            task.move(1.0)
            if task.payload.name < 5:
                pool.submit_task(Job(task.payload.name + 1, costs=(1, 1)), lane=Lane.FINAL, deadline=0, sink=sink)
            task.cancel()
        elif task.payload.name == 5:
            ended.set()

    pool.submit_task(Job(0, costs=(1, 1)), lane=Lane.FINAL, deadline=0, sink=sink)
    assert ended.wait(5)
    assert sorted(chain, key=lambda entry: entry[0])[::2] == [(n, More) for n in range(6)]


def test_the_queue_is_bounded_and_keeps_room_for_live_work(model: Timed, device: Device, pool: Pool) -> None:
    gate = Gate(model)
    pool.submit_task(Job("first"), lane=Lane.BULK, deadline=0, sink=Diary())
    gate.entered.wait(5)
    with pytest.raises(Overloaded) as refused:
        for n in range(1000):
            pool.submit_task(Job(n), lane=Lane.BULK, deadline=0, sink=Diary())
    assert refused.value.retry_after >= 0.1
    assert device.stats().open == 200
    with pytest.raises(Overloaded):
        for n in range(1000):
            pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=Diary())
    stats = device.stats()
    assert (stats.open, stats.queue[Lane.FINAL]) == (400, 200)
    assert stats.queue[Lane.BULK] + stats.running == 200
    gate.open()
    assert device.drain(10)
    until(lambda: sum(state.freed for state in model.states) == len(model.states))


def test_bytes_are_bounded() -> None:
    device = Device("cpu:0", memory=100)
    big = Timed(model="big", task_bytes=30)
    big.limits = Limits(resident_bytes=200)
    with pytest.raises(ValueError, match="does not fit"):
        device.add(big)
    big.limits = Limits(resident_bytes=20, task_bytes=30)
    device.add(big)
    device.start()
    gate, pool = Gate(big), Pool("big", [device])
    for n in range(2):
        pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=Diary())
    with pytest.raises(Overloaded):
        pool.submit_task(Job(2), lane=Lane.FINAL, deadline=0, sink=Diary())
    assert device.stats().resident_bytes == 80
    gate.open()
    until(lambda: device.stats().resident_bytes == 20)
    device.close()
    assert big.closed


def test_drain_lets_open_work_finish_and_takes_no_more(model: Timed, device: Device, pool: Pool) -> None:
    gate, diary = Gate(model), Diary()
    tasks = [pool.submit_task(Job(n, costs=(1, 1, 1)), lane=Lane.BULK, deadline=0, sink=diary) for n in range(40)]
    done: list[bool] = []
    drainer = threading.Thread(target=lambda: done.append(device.drain(10)))
    drainer.start()
    until(lambda: device.draining)
    with pytest.raises(Draining):
        pool.submit_task(Job("late"), lane=Lane.FINAL, deadline=0, sink=diary)
    gate.open()
    drainer.join(10)
    assert done == [True]
    assert all(isinstance(diary.end_of(task), Done) for task in tasks)
    assert device.drain(0.0)


def test_what_a_drain_cannot_wait_for_ends_with_draining(model: Timed, device: Device, pool: Pool) -> None:
    gate, diary = Gate(model), Diary()
    tasks = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=diary) for n in range(3)]
    gate.entered.wait(5)
    assert not device.drain(0.05)
    assert all(isinstance(diary.end_of(task), Draining) for task in tasks)
    gate.open()
    until(lambda: not device.stats().open)


def test_close_ends_everything_and_frees_the_model(model: Timed, device: Device, pool: Pool) -> None:
    gate, diary = Gate(model), Diary()
    tasks = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=diary) for n in range(3)]
    gate.entered.wait(5)
    threading.Timer(0.05, gate.open).start()
    device.close()
    device.close()
    assert all(isinstance(diary.end_of(task), Draining) for task in tasks)
    assert model.closed and all(state.freed == 1 for state in model.states)
    with pytest.raises((Draining, BackendDead)):
        pool.submit_task(Job("late"), lane=Lane.FINAL, deadline=0, sink=diary)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("cpu:of-the-test")]


def test_misuse_is_told() -> None:
    device = Device("d")
    device.add(Timed())
    with pytest.raises(ValueError, match="already has"):
        device.add(Timed())
    with pytest.raises(ValueError, match="no device has the model"):
        Pool("other", [device])
    with pytest.raises(BackendDead):
        Pool("timed", [device]).submit_task(Job(1), lane=Lane.FINAL, deadline=0, sink=Diary())
    device.start()
    with pytest.raises(RuntimeError, match="started already"):
        device.start()
    device.close()
    with pytest.raises(RuntimeError, match="closed and takes no"):
        device.add(Timed(model="more"))


async def test_a_model_comes_while_others_are_at_work(device: Device, pool: Pool, model: Timed) -> None:
    gate = Gate(model)
    first = pool.submit(Job(1), lane=Lane.FINAL, deadline=time.monotonic())
    await asyncio.to_thread(gate.entered.wait, 10)
    more = Timed(model="more")
    device.add(more)
    second = Pool("more", [device]).submit(Job(2), lane=Lane.BULK, deadline=time.monotonic())
    gate.open()
    assert [await handle.result() for handle in (first, second)] == ["1.0", "2.0"]
    with pytest.raises(ValueError, match="already has"):
        device.add(Timed(model="more"))
    device.close()
    assert more.closed


def test_a_model_that_does_not_fit_or_load_leaves_the_device_as_it_was() -> None:
    class Broken(Timed):
        def load(self, device: str) -> None:
            raise OSError("the weights are gone")

    device = Device("d", memory=100.0)
    device.add(Timed())
    device.start()
    large = Timed(model="large", resident_bytes=101)
    with pytest.raises(ValueError, match="does not fit"):
        device.add(large)
    for _ in range(3):
        with pytest.raises(OSError, match="gone"):
            device.add(Broken(model="broken", resident_bytes=60))
    assert not device.serves("broken")
    assert device.stats().resident_bytes == 0
    device.close()


class Squares(OneStep):
    """A one-step model, as short as they come."""

    spec = Spec(task="test", model="squares")

    def run(self, payloads: list[int]) -> list[int | Exception]:  # type: ignore[override]
        return [ValueError("odd") if number % 2 else number * number for number in payloads]


async def test_a_one_step_model_only_writes_run() -> None:
    device = Device("d")
    device.add(Squares())
    device.start()
    pool = Pool("squares", [device])
    handles = [pool.submit(n, lane=Lane.BULK, deadline=0) for n in range(20)]
    results = await asyncio.gather(*(handle.result() for handle in handles), return_exceptions=True)
    assert results[::2] == [n * n for n in range(0, 20, 2)]
    assert all(isinstance(result, BackendFailed) for result in results[1::2])
    device.close()


def test_a_pool_keeps_streams_together_and_spreads_the_rest() -> None:
    devices, models = [Device(f"d{n}") for n in range(2)], [Timed(items=1) for _ in range(2)]
    gates = [Gate(model) for model in models]
    for device, model in zip(devices, models, strict=True):
        device.add(model)
        device.start()
        for _ in range(10):
            device.loop.latency.observe(device.loop.homes["timed"].name, None, 1.0, 0.1, time.monotonic())
    pool = Pool("timed", devices)
    first = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=Diary(), stream=n) for n in range(6)]
    hosts = [task.host for task in first]
    assert {hosts.count(device) for device in devices} == {3}
    again = [pool.submit_task(Job(n), lane=Lane.FINAL, deadline=0, sink=Diary(), stream=n) for n in range(6)]
    assert [task.host for task in again] == hosts
    for gate in gates:
        gate.open()
    for device in devices:
        assert device.drain(5)
        device.close()


async def test_what_has_ended_leaves_at_once_without_the_garbage_collector() -> None:
    """Payloads are large, and the collector comes by rarely."""

    class Sound:
        pass

    class Heard(OneStep):
        spec = Spec(task="test", model="heard")

        def run(self, payloads: Sequence[Sound]) -> Sequence[object]:
            return ["heard" for _ in payloads]

    device = Device("d")
    device.add(Heard())
    device.start()
    pool, gone = Pool("heard", [device]), []
    gc.collect()
    gc.disable()
    try:
        for n in range(6):
            sound = Sound()
            gone.append(weakref.ref(sound))
            handle = pool.submit(sound, lane=Lane.BULK, deadline=0.0)
            if n % 2:
                handle.cancel()
            else:
                await handle.result()
        del sound, handle
        await asyncio.to_thread(until, lambda: all(sound() is None for sound in gone))
    finally:
        gc.enable()
        device.close()
