"""A task under way: the plan of a segment, or one window of it."""

from __future__ import annotations

from dataclasses import dataclass

from speech.tts import PlanRequest, RenderRequest, SegmentText, Voicing
from speech.voices.codec import randoms
from speech.voices.codec.slots import Row
from speech.voices.codec.windows import frames_of, most_frames
from speech.voices.pace import characters


@dataclass(slots=True)
class Job:
    """A state of the step loop: `row` is the voicing's, None once the task is over; the window is `begin` to `end`."""

    request: PlanRequest | RenderRequest
    row: Row | None
    begin: int = 0
    end: int = 0

    @property
    def voicing(self) -> Voicing:
        return self.request.voicing

    @property
    def segment(self) -> SegmentText:
        return self.request.voicing.segment


def open_job(request: PlanRequest | RenderRequest, frame_seconds: float) -> Job:
    """A job on the voicing's row, which is made if there is none yet."""
    voicing = request.voicing
    segment = voicing.segment
    row = voicing.cache
    if not isinstance(row, Row):
        most = most_frames(characters(segment.tokens), frame_seconds)
        row = voicing.cache = Row(segment.phonemes.ids, randoms.key(segment.seed, segment.index), most)
    if isinstance(request, PlanRequest):
        return Job(request, row)
    begin, end = frames_of(request.window, first=segment.first)
    return Job(request, row, begin, end)
