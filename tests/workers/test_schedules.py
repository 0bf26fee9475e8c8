"""Ten thousand random lives of a pool: whatever comes in whatever order, the promises hold."""

from __future__ import annotations

import logging
import random
from collections import defaultdict
from collections.abc import Hashable, Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.workers.models import Diary, Job, Step, Timed, VirtualClock
from workers.backend import Done, More
from workers.device import Device
from workers.errors import BackendDead, BackendFailed, Cancelled, Expired, Overloaded
from workers.loop import DeviceLost
from workers.pool import Pool
from workers.task import Lane, Result, Task
from workers.watchdog import save


class Life:
    """One schedule on two replicas, from its seed."""

    def __init__(self, seed: int, length: int) -> None:
        self.dice = random.Random(seed)
        self.clock = VirtualClock()
        self.diary = Diary()
        self.tasks: list[Task] = []
        self.said_at_cancel: dict[Task, int] = {}
        self.deaths = 0
        self.devices = [Device(f"d{n}", clock=self.clock, queue_limit=12) for n in range(2)]
        self.models = [Timed(self.clock.sleep, a=0.004, k=0.003, items=5, cost=9.0, task_bytes=7) for _ in range(2)]
        for device, model in zip(self.devices, self.models, strict=True):
            model.before_step = self.mishap
            device.add(model)
            device.load()
        self.pool = Pool("timed", self.devices)
        acts = (self.submit, self.submit, self.submit, self.turn, self.turn, self.cancel, self.move, self.wait)
        for _ in range(length):
            self.dice.choice(acts)()
        while any(map(self.turn_device, range(2))):
            pass

    def submit(self) -> None:
        dice = self.dice
        steps = dice.choice((1, 1, 2, 3))
        job = Job(
            len(self.tasks),
            costs=tuple(dice.choice((0.0, 1.0, 4.0, 12.0)) for _ in range(steps)),
            bucket=[dice.choice("xy") for _ in range(steps)],
            fault=dice.choice(("", "", "", "", "raise", "result")),
            at_step=dice.randrange(steps),
        )
        lane = dice.choice(list(Lane))
        try:
            task = self.pool.submit_task(
                job,
                lane=lane,
                deadline=self.clock.now + dice.uniform(-0.01, 0.05),
                stream=dice.choice((None, "a", "b", "c")),
                coalesce=dice.choice((None, None, "k")),
                hard=lane != Lane.FINAL and dice.random() < 0.2,
                sink=self.sink,
            )
        except Overloaded as refused:
            assert refused.retry_after > 0
        else:
            self.tasks.append(task)

    def sink(self, task: Task, result: Result) -> None:
        assert task not in self.said_at_cancel, "spoke after it was cancelled"
        self.diary(task, result)
        if isinstance(result, More) and self.dice.random() < 0.1:  # a listener that has heard enough
            task.cancel()
            self.said_at_cancel[task] = len(self.diary.of(task))
        elif self.dice.random() < 0.1:
            self.cancel()

    def turn(self) -> None:
        self.turn_device(self.dice.randrange(2))

    def turn_device(self, number: int) -> bool:
        device, model = self.devices[number], self.models[number]
        try:
            return device.loop.turn()
        except DeviceLost:
            model.gone = False
            self.deaths += 1
            with device.loop.lock:
                tasks = device.loop.evacuate(thread_is_gone=True)
            for task in tasks:
                save(task, device, "lost")
            return True

    def mishap(self, states: list[Step]) -> None:
        """While a step runs, owners cancel and move; now and then memory runs out or the device falls off."""
        chance = self.dice.random()
        if chance < 0.1:
            self.cancel()
        elif chance < 0.2:
            self.move()
        elif chance < 0.3:
            self.submit()
        elif chance < 0.35 and len(states) > 1:
            raise RuntimeError("CUDA out of memory")
        elif chance < 0.38:
            self.models[0].gone = self.models[1].gone = False
            next(model for model in self.models if states[0] in model.states).gone = True
            raise RuntimeError("device lost")

    def cancel(self) -> None:
        if self.tasks:
            task = self.dice.choice(self.tasks)
            if task.cancel():
                self.said_at_cancel[task] = len(self.diary.of(task))

    def move(self) -> None:
        if self.tasks:
            lane = self.dice.choice([None, *Lane])
            self.dice.choice(self.tasks).move(self.clock.now + self.dice.uniform(-0.01, 0.2), lane)

    def wait(self) -> None:
        self.clock.sleep(self.dice.choice((0.001, 0.02, 1.5)))


@pytest.fixture(autouse=True, scope="module")
def _no_log() -> Iterator[None]:
    """Thousands of deaths need no log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@settings(max_examples=10_000, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**64 - 1), length=st.integers(1, 30))
def test_every_schedule_keeps_the_promises(seed: int, length: int) -> None:
    life = Life(seed, length)
    heard: dict[Task, list[Result]] = defaultdict(list)
    spoken: dict[Hashable, list[int]] = defaultdict(list)
    for task, result in life.diary.all:
        heard[task].append(result)
        if not isinstance(result, Exception) and task.stream is not None:
            spoken[task.stream].append(task.number)

    for task in life.tasks:
        job, results = task.payload, heard[task]
        ends = [result for result in results if not isinstance(result, More)]
        assert len(ends) == 1 and results[-1] is ends[0], "each task ends exactly once, and last"
        made = [f"{job.name}.{step}" for step in range(len(job.costs))]
        outputs = life.diary.outputs_of(task)
        match ends[0]:
            case Done():
                assert outputs == made and not job.fault, "nothing lost, nothing twice"
            case BackendFailed():
                assert job.fault and outputs == made[: job.at_step], "only the poisoned fail"
            case Expired():
                assert task.hard and not outputs
            case BackendDead():
                assert life.deaths >= 2
            case end:
                assert isinstance(end, Cancelled)
        if task in life.said_at_cancel:
            assert len(results) == life.said_at_cancel[task], "a cancelled task is silent once cancel has returned"
    for stream, order in spoken.items():
        assert order == sorted(order), f"outputs of stream {stream} out of order"
    for device, model in zip(life.devices, life.models, strict=True):
        stats = device.stats()
        assert (stats.open, stats.resident_bytes, sum(stats.queue.values())) == (0, 0, 0)
        assert not device.loop.scheduler.ready and not device.loop.scheduler._streams
        assert all(state.freed == 1 for state in model.states), "every state is freed once"
