"""What a second of a voice's sound takes of its device, measured by having it speak before anybody listens.

It speaks a sentence alone and then several at once. What both took, and how many steps and rows that was, gives what
a step costs whatever is in it and what each row adds; the rest is arithmetic.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from speech.speaking.pacing import BEAT
from speech.text.lexicon import Lexicon
from speech.text.normaliser import normalise
from speech.text.options import TextOptions
from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Voice, Voicing
from workers.backend import Done, More
from workers.device import Device
from workers.pool import Pool
from workers.task import Lane, Result, Task

log = logging.getLogger(__name__)

SENTENCE = "One moment please, I am looking for that."
TOGETHER = 4
"""Streams that speak at once in the second part."""
_WAIT = 120.0
_NEAR = 10.0


@dataclass(frozen=True, slots=True)
class Cost:
    """`step` seconds for a step, `row` more for each row in it; a second of sound takes `rows` rows.

    A window takes `steps` steps, a stream's first sound `first` seconds when the device has nothing else to do and
    `first_rows` rows. `most` rows fit into a step.
    """

    step: float
    row: float
    rows: float
    steps: float
    first: float
    first_rows: float
    most: int

    def share(self, limit: float) -> float:
        """Seconds of step time per second that a stream takes of a device that is filled up to `limit`.

        Windows come together on the beat of the pacing: what its steps cost whatever is in them is spread over all the
        streams that fit, and never over more than a batch holds.
        """
        row = max(self.row, 1e-9)
        fixed = min(self.step * self.steps / BEAT, limit / 2)
        spread = limit * row * self.rows / (limit - fixed)
        full = (self.step / self.most + row) * self.rows
        return min(max(spread, full), (self.step + row) * self.rows)

    def first_sound(self, others: int, used: float) -> float:
        """Seconds to a stream's first sound when so many others begin with it, on a device of which those who speak
        already, and these as soon as they do, use so much.
        """
        alone = self.first + others * self.first_rows * (self.step / self.most + self.row)
        return alone / max(1.0 - used, 0.01)


@dataclass(slots=True)
class _Spent:
    """What a device did for a while."""

    seconds: float
    steps: int
    rows: int
    sound: float = 0.0
    windows: int = 0
    first: float = 0.0
    first_rows: int = 0


def rehearse(voice: Voice, pool: Pool, device: Device) -> Cost:
    """The cost of `voice` on `device`, which has started and has nothing else to do. Blocks; raises ServingError."""
    # The faster of two is the machine's own speed, not its neighbours' load.
    alone = min((_speak(voice, pool, device, 1) for _ in range(2)), key=lambda spent: spent.seconds)
    together = _speak(voice, pool, device, TOGETHER)
    cost = _solve(alone, together, device.loop.homes[pool.model].backend.limits.items)
    log.info("%s on %s: %.1f ms for a step and %.1f ms for each row, first sound in %.0f ms", voice.info.name,
             device.name, 1e3 * cost.step, 1e3 * cost.row, 1e3 * cost.first)  # fmt: skip
    return cost


def _solve(alone: _Spent, together: _Spent, most: int) -> Cost:
    """seconds = step * steps + row * rows, twice."""
    determinant = alone.steps * together.rows - together.steps * alone.rows
    step = (alone.seconds * together.rows - together.seconds * alone.rows) / determinant if determinant else 0.0
    step = min(max(step, 0.0), alone.seconds / alone.steps)
    return Cost(
        step=step,
        row=max(alone.seconds - step * alone.steps, 0.0) / alone.rows,
        rows=alone.rows / alone.sound,
        steps=alone.rows / alone.windows,
        first=alone.first,
        first_rows=alone.first_rows,
        most=most,
    )


def _speak(voice: Voice, pool: Pool, device: Device, streams: int) -> _Spent:
    tokens = tuple(normalise(SENTENCE, TextOptions(), Lexicon()))
    phonemes = voice.phonemes(tokens)
    voicings = [Voicing(SegmentText(tokens, phonemes, seed=seed, first=True)) for seed in range(streams)]
    spent = _Spent(0.0, 0, 0)
    try:
        plans: list[Planned] = _ask(pool, device, [PlanRequest(voicing) for voicing in voicings], spent)
        window, last = 0, False
        while not last:
            requests = [RenderRequest(voicing, window) for voicing in voicings]
            answers: list[Rendered] = _ask(pool, device, requests, spent)
            window += 1
            last = answers[0].last if plans[0].windows is None else window >= len(plans[0].windows)
            sound = sum(len(answer.samples) for answer in answers)
            if sound and not spent.sound:
                spent.first, spent.first_rows = spent.seconds, spent.rows
            spent.sound += sound / voice.info.rate
            spent.windows += streams
    finally:
        for voicing in voicings:
            voicing.release()
    return spent


class _Place:
    def __init__(self, device: Device) -> None:
        self.device = device


def _ask(pool: Pool, device: Device, requests: Sequence[PlanRequest | RenderRequest], spent: _Spent) -> list[Any]:
    """The answers of requests made at once, and what the device did for them. Raises ServingError."""
    before = device.stats()
    answers: dict[Task, Result] = {}
    everything = threading.Event()

    def sink(task: Task, result: Result) -> None:
        if not isinstance(result, More):
            answers[task] = result
            if len(answers) == len(requests):
                everything.set()

    deadline = device.clock() + _NEAR
    tasks = [
        pool.submit_task(request, lane=Lane.INTERACTIVE, deadline=deadline, sink=sink, lease=_Place(device))
        for request in requests
    ]
    if not everything.wait(_WAIT):
        raise TimeoutError(f"{pool.model} took more than {_WAIT:g} s for a few words")
    made = []
    for task in tasks:
        answer = answers[task]
        if not isinstance(answer, Done):
            assert isinstance(answer, Exception)
            raise answer
        made.append(answer.output)
    after = device.stats()
    spent.seconds += after.step_seconds - before.step_seconds
    spent.steps += after.steps - before.steps
    spent.rows += after.items - before.items
    return made
