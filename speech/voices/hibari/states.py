"""What the backend keeps: for a segment between its windows, and for a task between its steps."""

from __future__ import annotations

from collections.abc import Generator
from dataclasses import dataclass, field

import numpy as np
from torch import Tensor

from speech.tts import Planned, PlanRequest, RenderRequest, Sound, Voicing
from speech.voices.hibari.decoder import DecoderCarry
from speech.voices.hibari.plan import SegmentPlan
from speech.voices.hibari.wave import RATE
from speech.voices.hibari.windows import LONGEST_SILENCE, Carry, head_silence, samples_between, token_times
from workers.errors import Cancelled, InputInvalid


@dataclass(frozen=True, slots=True)
class Track:
    """A planned segment and how far it is, as `Voicing.cache` holds it; replaced by a new one after each window.

    `carries` by window: the one into the next window and the one into the window just made, which may be asked for
    again. `head`, until the second window is made: the samples of the first one, whose silence could only be trimmed
    by making it with the plan; it spans the first `merged` windows between `bounds`.
    """

    plan: SegmentPlan
    bounds: tuple[int, ...]
    carries: dict[int, Carry] = field(repr=False)
    head: Sound | None = field(default=None, repr=False)
    merged: int = 1

    def inner(self, asked: int) -> int:
        """The window between `bounds` that is the `asked`th for the listener."""
        return 0 if asked == 0 else asked + self.merged - 1

    @property
    def windows(self) -> int:
        return len(self.bounds) - self.merged


class Job:
    """One task. Its steps: those of the plan, then render and wave in turn until what was asked for is there."""

    __slots__ = ("request", "voicing", "planning", "track", "number", "carry", "spectra", "moved", "made", "found")

    def __init__(self, request: PlanRequest | RenderRequest) -> None:
        self.request = request
        self.voicing: Voicing = request.voicing
        self.planning: Generator[float, None, SegmentPlan] | None = None
        self.track: Track | None = None
        self.number = 0  # window between the bounds
        self.carry: Carry | None = None
        self.spectra: Tensor | None = None  # rendered, not yet a wave
        self.moved: DecoderCarry | None = None
        self.made: list[Sound] = []
        self.found = request.voicing.cache
        if isinstance(request, RenderRequest):
            self._open_window(request.window)

    def _open_window(self, asked: int) -> None:
        track = self.found
        if self.voicing.released:
            raise Cancelled("the segment has been released")
        if not isinstance(track, Track):
            raise InputInvalid("a segment is planned before its windows are rendered", param="window")
        if not 0 <= asked < track.windows:
            raise InputInvalid(f"the segment has windows 0 to {track.windows - 1}", param="window")
        self.track, self.number = track, track.inner(asked)
        self.carry = track.carries.get(self.number)
        if self.carry is None and not self.ready:
            raise InputInvalid(f"window {asked} is not the next one; windows are asked for in order", param="window")

    @property
    def ready(self) -> bool:
        """Whether the window was made with the plan."""
        return (
            isinstance(self.request, RenderRequest)
            and self.request.window == 0
            and self.track is not None
            and self.track.head is not None
        )

    def take_wave(self, samples: Sound, carry: Carry) -> None:
        """A window is made; the next one is ready to begin."""
        assert self.track is not None
        self.made.append(np.clip(samples, -1.0, 1.0))
        self.spectra, self.moved = None, None
        before = self.carry
        assert before is not None
        self.carry = carry
        self.number += 1
        self.track = Track(
            self.track.plan,
            self.track.bounds,
            {self.number - 1: before, self.number: carry},
            self.track.head if self.number == self.track.merged else None,
            self.track.merged,
        )

    def planned(self) -> Planned | None:
        """The answer to a plan; None when the first sound is not found yet, so that another window must be made."""
        track, segment = self.track, self.voicing.segment
        assert track is not None
        samples, trimmed = samples_between(track.bounds), 0
        if segment.first:
            if not self.made:
                return None
            head = np.concatenate(self.made)
            silence = head_silence(head)
            if silence is None and len(head) < LONGEST_SILENCE * RATE and self.number < len(samples):
                return None
            trimmed = silence or 0
            head = head[trimmed:]
            carries = {self.number: self.carry} if self.carry is not None else {}
            self.track = Track(track.plan, track.bounds, carries, head, merged=self.number)
            samples = [len(head), *samples[self.number :]]
        self.keep()
        return Planned(tuple(samples), token_times(segment, track.plan, trimmed))

    def keep(self) -> None:
        """Leave the track to the tasks that follow; the first to be through a window does.

        Not when the segment was released, nor when another device took this task over and is past it.
        """
        if not self.voicing.released and self.voicing.cache is self.found:
            self.voicing.cache = self.track
