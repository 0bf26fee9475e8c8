"""Devices that die, fall silent, come back; gateways that do. Every task ends exactly once."""

from __future__ import annotations

import random

import pytest

from tests.workers.cluster.net import Net, Seat, Wire, reached
from tests.workers.models import Diary, Job, Step, Timed, teach
from workers.backend import Done
from workers.cluster.contact import SILENCE
from workers.cluster.remote import PATIENCE, RemoteDevice
from workers.cluster.station import SILENCE as GONE
from workers.errors import BackendDead
from workers.fairness import NOBODY
from workers.pool import Pool
from workers.task import Lane, Task


class Two:
    """A gateway with devices on as many hosts."""

    def __init__(self, count: int = 2, *, a: float = 0.1, items: int = 32) -> None:
        self.net = Net()
        self.seats = [Seat(self.net, Timed(a=a, items=items), name=f"d{n}", ahead=100.0 * n) for n in range(count)]
        for seat in self.seats:
            teach(seat.device, seat.model)
        reach = [reached(self.net, seat) for seat in self.seats]
        self.remotes: list[RemoteDevice] = [remote for remote, _ in reach]
        self.wires: list[Wire] = [wire for _, wire in reach]
        self.pool, self.diary = Pool("timed", self.remotes), Diary()

    def submit(self, job: Job, at: int | None = None) -> Task:
        deadline = self.net.clock() + 9
        lease = None if at is None else _Lease(self.remotes[at])
        return self.pool.submit_task(job, lane=Lane.FINAL, deadline=deadline, sink=self.diary, lease=lease)

    def ended(self, tasks: list[Task], seconds: float = 120.0) -> None:
        self.net.run(seconds, lambda: all(self.diary.end_of(task) for task in tasks))
        assert all(self.diary.end_of(task) for task in tasks)


class _Lease:
    def __init__(self, device: RemoteDevice) -> None:
        self.device = device


def test_tasks_of_a_device_that_dies_run_elsewhere_and_end_once() -> None:
    two = Two()
    tasks = [two.submit(Job(n, costs=(1, 1, 1)), at=0) for n in range(20)]
    two.net.run(0.15)  # every one has handed out its first output
    assert all(two.diary.outputs_of(task) == [f"{task.payload.name}.0"] for task in tasks)
    two.seats[0].kill()
    assert two.remotes[0].ready
    two.net.run(0.01, lambda: not two.remotes[0].ready)
    assert not two.remotes[0].ready, "readiness falls at once"
    two.ended(tasks)
    for task in tasks:
        assert two.diary.outputs_of(task) == [f"{task.payload.name}.{n}" for n in range(3)], "nothing twice"
    assert two.seats[1].model.batches[0] != [0], "nobody is under suspicion: they share their steps"
    assert len(two.seats[1].model.batches) <= 3 + 5


def test_it_comes_back_and_is_used() -> None:
    two = Two()
    two.seats[0].kill()
    two.net.run(5.0)
    assert [remote.ready for remote in two.remotes] == [False, True]
    assert two.remotes[0].failure
    two.seats[0].model.batches.clear()
    two.seats[0].start()
    two.net.run(2.0, lambda: two.remotes[0].ready)
    assert two.remotes[0].ready and two.remotes[0].losses == 1
    task = two.submit(Job("again"), at=0)
    two.ended([task])
    assert two.seats[0].model.batches == [["again"]]


def test_alone_it_keeps_its_tasks_until_it_is_back() -> None:
    one = Two(1)
    tasks = [one.submit(Job(n, costs=(1, 1))) for n in range(3)]
    one.net.run(0.15)
    one.seats[0].kill()
    one.net.run(3.0)
    tasks.append(one.submit(Job("while it is away")))
    assert not any(one.diary.end_of(task) for task in tasks)
    one.seats[0].start()
    one.ended(tasks, 5.0)
    assert all(isinstance(one.diary.end_of(task), Done) for task in tasks)
    assert one.diary.outputs_of(tasks[0]) == ["0.0", "0.1"]


def test_what_waits_in_vain_is_told_so() -> None:
    one = Two(1)
    task = one.submit(Job("a", costs=(1,) * 9))
    one.net.run(0.15)
    one.seats[0].kill()
    one.ended([task], PATIENCE + 2)
    assert isinstance(one.diary.end_of(task), BackendDead)
    assert one.net.clock() > PATIENCE
    with pytest.raises(BackendDead):
        one.submit(Job("b"))


def test_what_waits_for_a_device_goes_to_another_that_comes() -> None:
    two = Two()
    for seat in two.seats:
        seat.kill()
    two.net.run(1.0)
    tasks = [two.submit(Job(n)) for n in range(4)]
    two.seats[1].start()
    two.ended(tasks, 3.0)
    assert sorted(name for batch in two.seats[1].model.batches for name in batch) == [0, 1, 2, 3]


def test_a_task_that_kills_its_device_takes_nobody_along_for_long() -> None:
    two = Two(4)

    def kills(seat: Seat) -> None:
        def before(states: list[Step]) -> None:
            if any(state.job.name == "poison" for state in states):
                seat.kill()
                seat.net.at(20.0, seat.start)
                raise RuntimeError("the process is gone in the middle of a step")

        seat.model.before_step = before  # type: ignore[assignment]

    for seat in two.seats:
        kills(seat)
    poison = two.submit(Job("poison"), at=0)
    others = [two.submit(Job(n), at=0) for n in range(8)]
    two.ended([poison, *others])
    end = two.diary.end_of(poison)
    assert isinstance(end, BackendDead)
    assert all(isinstance(two.diary.end_of(task), Done) for task in others)
    assert sum(remote.losses for remote in two.remotes) == 3, "alone on the third, and not tried again"


def test_a_silent_device_is_lost_and_what_it_says_later_counts_for_nothing() -> None:
    two = Two()
    tasks = [two.submit(Job(n, costs=(1, 1)), at=0) for n in range(4)]
    two.net.run(0.05)
    two.wires[0].cut = True
    began = two.net.clock()
    two.net.run(3.0)
    assert not two.remotes[0].ready, "nothing new goes to a device that may be gone"
    assert not any(two.diary.end_of(task) for task in tasks), "but it may be there yet"
    two.ended(tasks)
    assert SILENCE < two.net.clock() - began < SILENCE + 2
    two.wires[0].cut = False
    two.net.run(5.0, lambda: two.remotes[0].ready)
    assert two.remotes[0].ready, "it is reached again"
    for task in tasks:
        assert two.diary.outputs_of(task) == [f"{task.payload.name}.0", f"{task.payload.name}.1"]
    assert not two.seats[0].device.loop.open


def test_a_gateway_that_dies_leaves_nothing_behind() -> None:
    one = Two(1, a=0.5, items=1)
    for n in range(5):
        one.submit(Job(n, costs=(1,) * 9))
    assert one.remotes[0].seat(NOBODY, 0.3, force=True)
    one.net.run(1.0)
    station = one.seats[0].station
    assert station.status(fresh=True).held == pytest.approx(0.3)
    assert one.seats[0].device.loop.open == 5 and one.seats[0].device.loop.live
    other, _ = reached(one.net, one.seats[0], gateway="other", courier=one.net.gateway())
    one.wires[0].cut = True
    one.net.run(GONE - 1.0)
    assert station.gateways == 2
    one.net.run(3.0)
    assert station.gateways == 1 and other.ready
    assert not one.seats[0].device.loop.open and not one.seats[0].device.loop.live
    assert station.status(fresh=True).held == 0.0
    one.net.run(2.0)
    assert [state.freed for state in one.seats[0].model.states] == [1] * 5


def test_a_device_that_forgot_the_gateway_is_reached_again() -> None:
    one = Two(1)
    task = one.submit(Job("a", costs=(1,) * 5))
    one.net.run(0.25)
    one.seats[0].start()  # a new process where the old one was, between two calls
    one.ended([task], 5.0)
    assert one.diary.outputs_of(task) == [f"a.{n}" for n in range(5)]


@pytest.mark.parametrize("seed", range(4))
def test_exactly_once_whatever_dies(seed: int) -> None:
    dice = random.Random(seed)
    many = Two(3, a=0.02, items=4)
    for number, wire in enumerate(many.wires):
        wire.lose, wire.twice, wire.spread = 0.05, 0.1, 0.01
        wire._dice = random.Random(seed * 10 + number)
    tasks = []
    for n in range(150):
        tasks.append(many.submit(Job(n, costs=(1,) * dice.randint(1, 4)), at=dice.choice((None, 0, 1, 2))))
        many.net.run(0.02)
        if n % 50 == 25:
            seat = many.seats[dice.randrange(3)]
            if seat.alive and sum(one.alive for one in many.seats) > 1:
                seat.kill()
                many.net.at(2.0, seat.start)
    many.ended(tasks)
    for task in tasks:
        outputs = many.diary.outputs_of(task)
        assert outputs == [f"{task.payload.name}.{step}" for step in range(len(task.payload.costs))]
