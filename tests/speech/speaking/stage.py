"""Virtual time for streams of speech: an event loop and devices that share a clock which moves when all wait."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from speech.speaking.events import SoundMade, SpeechDone, SpeechEvent, SpeechFailed, SpokenWord, WordsTimed
from speech.speaking.speaker import Speaker
from speech.tts import Sound
from tests.speech.speaking.sines import Sines
from tests.workers.models import VirtualClock
from workers.device import Device
from workers.loop import DeviceLost
from workers.pool import Pool
from workers.watchdog import save


class _Selector(selectors.SelectSelector):
    """Nobody has anything to do: a device takes a step, else time passes until the next timer."""

    def __init__(self, clock: VirtualClock, devices: Sequence[Device]) -> None:
        super().__init__()
        self._clock, self._devices = clock, devices

    def select(self, timeout: float | None = None) -> list[Any]:
        ready = super().select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if sum(map(_turn, self._devices)):
            return super().select(0)
        if timeout is None:
            raise RuntimeError("everybody waits, and nothing will happen any more")
        self._clock.now += timeout
        return []


def _turn(device: Device) -> bool:
    """A step; a device that is lost comes back at once, and its tasks run again."""
    try:
        return device.loop.turn()
    except DeviceLost:
        with device.loop.lock:
            tasks = device.loop.evacuate(thread_is_gone=True)
        for task in tasks:
            save(task, device, "lost")
        return True


class _Inline(ThreadPoolExecutor):
    """Work for other threads, done at once: it takes no virtual time."""

    def submit(self, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(work(*args, **kwargs))
        except Exception as error:
            future.set_exception(error)
        return future


class _Loop(asyncio.SelectorEventLoop):
    def __init__(self, clock: VirtualClock, devices: Sequence[Device]) -> None:
        super().__init__(_Selector(clock, devices))
        self._virtual = clock
        self.set_default_executor(_Inline())

    def time(self) -> float:
        return self._virtual.now


@dataclass
class Stage:
    """A voice on a device on virtual time."""

    voice: Sines
    clock: VirtualClock
    device: Device
    pool: Pool

    def run(self, play: Coroutine[Any, Any, Any]) -> Any:
        """Play until the coroutine has ended."""
        loop = _Loop(self.clock, [self.device])
        try:
            return loop.run_until_complete(asyncio.wait_for(play, 100_000))
        finally:
            for task in asyncio.all_tasks(loop):
                task.cancel()
            loop.run_until_complete(asyncio.sleep(0))
            loop.close()

    @property
    def quiet(self) -> bool:
        """Whether the device holds nothing."""
        while self.device.loop.turn():
            pass
        return self.device.loop.open == 0 and self.voice.made.open_states == 0


def stage(*, a: float = 0.0, k: float = 0.0, items: int = 64, **how: Any) -> Stage:
    clock = VirtualClock()
    voice = Sines(a=a, k=k, items=items, sleep=clock.sleep)
    device = Device("sim", clock=clock, **how)
    device.add(voice.backend())
    device.load()
    home = device.loop.homes[voice.info.model]
    for bucket in (("plan", 64), ("render", 94), ("wave", 94)):
        for rows in (1, 2, items):
            device.loop.latency.observe(home.name, bucket, rows, a + k * rows, 0.0)
    return Stage(voice, clock, device, Pool(voice.info.model, [device]))


@dataclass
class Listener:
    """Reads a speaker's events and plays the sound as it comes. `delay` is how long the way to the listener takes."""

    speaker: Speaker
    clock: Callable[[], float]
    reports: float = 0.0
    events: list[SpeechEvent] = field(default_factory=list)
    arrivals: list[tuple[float, int]] = field(default_factory=list)

    async def listen(self) -> Listener:
        reporter = asyncio.create_task(self._report()) if self.reports else None
        async for event in self.speaker.events():
            self.events.append(event)
            if isinstance(event, SoundMade):
                self.arrivals.append((self.clock(), len(event.samples)))
        if reporter is not None:
            reporter.cancel()
        return self

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(self.reports)
            self.speaker.played(self.playhead(self.clock()))

    def playhead(self, now: float) -> float:
        """Seconds heard at `now`, playing without a pause as far as the sound is there."""
        heard, at = 0.0, 0.0
        for arrived, samples in self.arrivals:
            at = max(at, arrived) + samples / self.speaker.rate
            heard += samples / self.speaker.rate
        return max(0.0, heard - max(0.0, at - now))

    @property
    def gaps(self) -> list[float]:
        """Seconds of each silence over 10 ms in the middle of the sound."""
        gaps, ends = [], None
        for arrived, samples in self.arrivals:
            if ends is not None and arrived > ends + 0.010:
                gaps.append(arrived - ends)
            ends = max(arrived, ends or 0.0) + samples / self.speaker.rate
        return gaps

    @property
    def sound(self) -> Sound:
        pieces = [event.samples for event in self.events if isinstance(event, SoundMade)]
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    @property
    def words(self) -> list[SpokenWord]:
        return [word for event in self.events if isinstance(event, WordsTimed) for word in event.words]

    @property
    def end(self) -> SpeechEvent | None:
        ends = [event for event in self.events if isinstance(event, SpeechDone | SpeechFailed)]
        assert len(ends) <= 1 and (not ends or self.events[-1] is ends[0]), "one end, and nothing after it"
        return ends[0] if ends else None
