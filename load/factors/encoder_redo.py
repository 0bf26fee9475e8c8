"""How much of an utterance a partial encodes again. Finals are one pass over everything: only drafts hang on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager

from load.factors.encoder_engines import Within, served
from load.factors.factor import Base, Factor
from load.factors.live import Engine
from speech.whisper import states
from speech.whisper.states import Cache

_STEP = 25
"""Frames (0.5 s)."""
_LAST = 2
"""Tokens at the end of a hypothesis that may change without a word further back having done so."""


def _redo(first_row: Callable[[Cache | None], int]) -> Callable[[], AbstractContextManager[None]]:
    @contextmanager
    def within() -> Iterator[None]:
        before = states.first_row
        states.first_row = first_row  # type: ignore[assignment]
        try:
            yield
        finally:
            states.first_row = before

    return within


def _fixed(frames: int) -> Callable[[Base], Engine]:
    def first_row(cache: Cache | None) -> int:
        return max(0, cache.encoded - frames) if cache is not None else 0

    return lambda base: Within(served(base), _redo(first_row))


class _Growing:
    """Half a second, and a second and a half after a partial that took words back."""

    def __init__(self) -> None:
        self._before: tuple[int, tuple[int, ...]] = (0, ())
        self._frames = 3 * _STEP

    def __call__(self, cache: Cache | None) -> int:
        if cache is None:
            return 0
        at, before = self._before
        if cache.encoded != at:
            kept = before[: max(0, len(before) - _LAST)]
            grown = cache.encoded > at and cache.hypothesis[: len(kept)] == kept
            self._frames = _STEP if grown else 3 * _STEP
            self._before = cache.encoded, cache.hypothesis
        return max(0, cache.encoded - self._frames)


FACTORS = (
    Factor("redo 1.0 s", "encoder", "partials encode the last second again", _fixed(2 * _STEP)),
    Factor("redo 0.75 s", "encoder", "three quarters of a second", _fixed(37)),
    Factor("redo 0.5 s", "encoder", "half a second", _fixed(_STEP)),
    Factor(
        "redo as words change", "encoder", "half a second, and 1.5 s after a partial that took words back",
        lambda base: Within(served(base), _redo(_Growing())),
    ),
)  # fmt: skip
