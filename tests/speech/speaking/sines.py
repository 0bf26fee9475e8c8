"""A voice of sines: a real backend on the step loop whose samples depend on nothing but the text, the seed and where
they lie, so that a sample lost, doubled or swapped between streams shows.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from speech.text.spoken import Spoken
from speech.tts import (
    Phonemes,
    Planned,
    PlanRequest,
    Rendered,
    RenderRequest,
    SegmentText,
    Sound,
    TimedToken,
    VoiceInfo,
)
from workers.backend import Demand, Done, Limits, More, Spec, StepResult

RATE = 1000
WORD = 0.3
"""Seconds of a word."""
WINDOW, FIRST_WINDOW = 500, 250


def voiced(tokens: Sequence[Spoken]) -> list[int]:
    return [i for i, token in enumerate(tokens) if token.rule != "punctuation"]


def length(segment: SegmentText) -> int:
    return round(len(voiced(segment.tokens)) * WORD * RATE / segment.speed)


def windows(segment: SegmentText) -> tuple[int, ...]:
    sizes, left = [], length(segment)
    while left > 0:
        size = min(left, FIRST_WINDOW if segment.first and not sizes else WINDOW)
        sizes.append(size)
        left -= size
    return tuple(sizes)


def sound(segment: SegmentText) -> Sound:
    """All samples of a segment."""
    at = np.arange(length(segment))
    per_word = WORD * RATE / segment.speed
    which = np.minimum(at // per_word, len(voiced(segment.tokens)) - 1).astype(int)
    names = [segment.tokens[i].text for i in voiced(segment.tokens)]
    pitch = np.array([sum(map(ord, name)) % 97 + 3 for name in names])
    return np.sin(at * pitch[which] / RATE + segment.seed + 0.1 * segment.index).astype(np.float32)


class State:
    def __init__(self, request: PlanRequest | RenderRequest) -> None:
        self.request = request
        self.rendered = False


class SineBackend:
    """Planning is one step, a window two. A step takes a + k * rows seconds, which `sleep` spends."""

    def __init__(self, model: str, a: float, k: float, items: int, sleep: Callable[[float], None]) -> None:
        self.spec = Spec("tts", model)
        self.limits = Limits(items=items)
        self.a, self.k, self.sleep = a, k, sleep
        self.steps = 0
        self.batches: list[int] = []
        self.asked: list[tuple[Any, int]] = []
        self.before_step: Callable[[Sequence[State]], None] = lambda states: None
        self.open_states = 0
        self.gone = False

    def load(self, device: str) -> None: ...

    def check(self) -> None:
        """Lost once: it comes back."""
        gone, self.gone = self.gone, False
        if gone:
            raise RuntimeError("device lost")

    def open(self, payload: PlanRequest | RenderRequest) -> State:
        self.open_states += 1
        return State(payload)

    def demand(self, state: State) -> Demand:
        if isinstance(state.request, PlanRequest):
            return Demand(("plan", 64), 1.0)
        return Demand(("wave" if state.rendered else "render", 94), 1.0)

    def step(self, states: Sequence[State]) -> list[StepResult]:
        self.before_step(states)
        self.steps += 1
        self.batches.append(len(states))
        self.sleep(self.a + self.k * len(states))
        return [self._advance(state) for state in states]

    def _advance(self, state: State) -> StepResult:
        request, segment = state.request, state.request.voicing.segment
        if any(token.text.lower() == "poison" for token in segment.tokens):
            return ValueError("this word breaks the model")
        if isinstance(request, PlanRequest):
            per_word = WORD / segment.speed
            times = [TimedToken(i, n * per_word, (n + 1) * per_word) for n, i in enumerate(voiced(segment.tokens))]
            return Done(Planned(windows(segment), tuple(times)))
        if not state.rendered:
            state.rendered = True
            return More()
        sizes = windows(segment)
        self.asked.append((request.voicing, request.window))
        start = sum(sizes[: request.window])
        last = request.window == len(sizes) - 1
        return Done(Rendered(sound(segment)[start : start + sizes[request.window]], last))

    def discard(self, state: State) -> None:
        self.open_states -= 1

    def close(self) -> None: ...


class Sines:
    """The voice. `made` is its newest backend."""

    apart = False

    def __init__(
        self,
        *,
        a: float = 0.0,
        k: float = 0.0,
        items: int = 64,
        sleep: Callable[[float], None] = time.sleep,
        name: str = "sine",
    ) -> None:
        self.info = VoiceInfo(name, f"{name}-model", ("en",), RATE)
        self._how = (a, k, items, sleep)
        self.made: SineBackend

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        heard = voiced(tokens)
        return Phonemes(tuple(heard), tuple(heard), tuple(token.text for token in tokens))

    def backend(self) -> SineBackend:
        self.made = SineBackend(self.info.model, *self._how)
        return self.made
