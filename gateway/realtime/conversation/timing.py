"""The parts of the time from the end of a question to the first sound of its answer."""

from __future__ import annotations

from dataclasses import dataclass, field

from workers.clock import Clock, monotonic


@dataclass(slots=True)
class Timing:
    """One answer to something spoken. All in seconds; the parts add up to the whole.

    `vad` is the silence that was waited for until the turn counted as ended, `final` from the arrival of its last
    audio to its transcript, `language_model` from there to the first words, `speech` from those to the first sound
    on its way.
    """

    vad: float
    final: float
    clock: Clock = monotonic
    _asked: float = field(init=False)
    _answered: float | None = field(init=False, default=None)
    _sounded: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        self._asked = self.clock()

    def answered(self) -> None:
        """The language model says something; the first time counts."""
        if self._answered is None:
            self._answered = self.clock()

    def sounded(self) -> bool:
        """Sound is on its way; True the first time."""
        first = self._sounded is None
        if first:
            self._sounded = self.clock()
        return first

    def parts(self) -> dict[str, float]:
        """Everything, once there is sound."""
        assert self._answered is not None and self._sounded is not None
        parts = {
            "vad": self.vad,
            "final": self.final,
            "language_model": self._answered - self._asked,
            "speech": self._sounded - self._answered,
        }
        return {**parts, "total": sum(parts.values())}
