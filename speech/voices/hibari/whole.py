"""The voice by the package's own graph, a whole segment at a time: for weights whose parts are not known here.

Slower to the first sound. Its int8 rounding makes samples depend on all of the segment's text, though not on other
listeners. Token times are estimates: the graph does not tell its durations.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from hibari import Hibari

from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Sound, TimedToken
from speech.voices.hibari.checks import check_plan
from speech.voices.hibari.wave import HOP, RATE
from speech.voices.hibari.windows import FRAMES, head_silence
from workers.backend import Demand, Done, Limits, Spec, StepResult
from workers.errors import BackendFailed, InputInvalid

_PIECE = FRAMES * HOP


class WholeBackend:
    """One replica on the CPU: the plan makes all samples of a segment, its windows hand them out."""

    def __init__(self, graph: Path, revision: str = "") -> None:
        self.spec = Spec("tts", "hibari", revision=revision, precision="int8")
        self.limits = Limits(items=1, resident_bytes=2 * graph.stat().st_size, task_bytes=64 << 20)
        self._graph = graph

    def load(self, device: str) -> None:
        """Open the graph, on the CPU whatever the device, and run it once."""
        self._voice = Hibari(model=str(self._graph), threads=1, g2p=False)
        self._voice.from_ids([0, 50, 43, 102, 4, 0])

    def check(self) -> None:
        """Nothing can be gone."""

    def open(self, payload: PlanRequest | RenderRequest) -> PlanRequest | RenderRequest:
        """Check the request. Raises InputInvalid, InputTooLarge."""
        if isinstance(payload, PlanRequest):
            check_plan(payload.voicing.segment)
        elif payload.voicing.cache is None or not 0 <= payload.window < len(_cuts(payload.voicing.cache)):
            raise InputInvalid("a segment is planned before its windows are rendered", param="window")
        return payload

    def demand(self, request: PlanRequest | RenderRequest) -> Demand:
        """Cost in phonemes for a plan."""
        if isinstance(request, PlanRequest):
            return Demand(("plan",), 1.0 + len(request.voicing.segment.phonemes.ids))
        return Demand(("ready",), 1.0)

    def step(self, requests: Sequence[PlanRequest | RenderRequest]) -> list[StepResult]:
        """Each on its own."""
        return [self._plan(r) if isinstance(r, PlanRequest) else _piece(r) for r in requests]

    def discard(self, request: PlanRequest | RenderRequest) -> None:
        """A released segment lets its samples go."""
        if request.voicing.released:
            request.voicing.release()

    def close(self) -> None:
        """Free the model."""
        del self._voice

    def _plan(self, request: PlanRequest) -> StepResult:
        voicing, segment = request.voicing, request.voicing.segment
        if not any(source >= 0 for source in segment.phonemes.sources):
            return Done(Planned(()))
        noise = np.random.default_rng([segment.seed % (1 << 64), segment.index])
        samples: Sound = self._voice.from_ids(segment.phonemes.ids, segment.speed, noise)
        if not np.isfinite(samples).all():
            return BackendFailed("the voice made samples that are not numbers")
        trimmed = (head_silence(samples) or 0) if segment.first else 0
        times = _estimated_times(segment, len(samples), trimmed)
        if not voicing.released:
            voicing.cache = np.clip(samples[trimmed:], -1.0, 1.0)
        return Done(Planned(tuple(_cuts(samples[trimmed:])), times))


def _cuts(samples: Sound) -> list[int]:
    return [min(_PIECE, len(samples) - start) for start in range(0, len(samples), _PIECE)]


def _piece(request: RenderRequest) -> StepResult:
    start = request.window * _PIECE
    samples: Sound = request.voicing.cache
    return Done(Rendered(samples[start : start + _PIECE].copy(), start + _PIECE >= len(samples)))


def _estimated_times(segment: SegmentText, samples: int, trimmed: int) -> tuple[TimedToken, ...]:
    """Every symbol taken to be as long as any other."""
    sources = segment.phonemes.sources
    each = samples / RATE / len(sources)
    spans: dict[int, tuple[int, int]] = {}
    for n, token in enumerate(sources):
        if token >= 0:
            spans[token] = spans[token][0] if token in spans else n, n + 1
    offset = trimmed / RATE
    return tuple(
        TimedToken(token, max(0.0, start * each - offset), max(0.0, stop * each - offset))
        for token, (start, stop) in sorted(spans.items())
    )
