"""The voice on the step loop: plan, render and wave of many listeners' segments.

Payloads are PlanRequest and RenderRequest; the answers Planned and Rendered (speech/tts.py). A window is two steps: its
spectra, then its samples. Samples are bitwise the same whoever else is served: in int8 (decoder_int8.py) what is
computed for a row is exact or the row's own; in float32 on a CPU, where sums depend on the shape of a batch and a batch
is not faster, each row is computed by itself.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch

from speech.tts import Phonemes, Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Voicing
from speech.voices.hibari.checks import check_plan
from speech.voices.hibari.decoder import BINS, PARTS, Decoder
from speech.voices.hibari.decoder_int8 import Int8Decoder
from speech.voices.hibari.plan import Planner, plan_cost
from speech.voices.hibari.states import Job, Track
from speech.voices.hibari.wave import OPENING, Wave, WaveRow
from speech.voices.hibari.weights import Weights
from speech.voices.hibari.windows import Carry, boundaries, nominal, window
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed

PLAN_STEP = 1500.0
"""Millions of multiplications of planning in one step: 30 ms of a slow core, a segment of 25 s."""
_BATCH = 64
_WAVE_COST = 1.5
"""Of one frame's samples, in millions of multiplications that take as long."""


class HibariBackend:
    """One replica of the voice. `precision` on a CPU is that of its large matrices (speech/dense.py).

    `batched`: rows of a step are computed together; None: unless in float32 on a CPU.
    """

    def __init__(
        self, weights: Weights, revision: str = "", precision: str = "float32", batched: bool | None = None
    ) -> None:
        self.spec = Spec("tts", "hibari", revision=revision, precision=precision)
        self.limits = Limits(
            items=_BATCH,
            resident_bytes=sum(weight.numel() * weight.element_size() for weight in weights.values()),
            task_bytes=3 * 70 * BINS * PARTS * 4,
        )
        self._weights, self._batched = weights, batched

    def load(self, device: str) -> None:
        """Build the three stages on `device` and say a first word."""
        precision = self.spec.precision if device == "cpu" else "float32"
        self._planner = Planner(self._weights, device, precision)
        exact = precision == "int8"
        self._decoder = Int8Decoder(self._weights) if exact else Decoder(self._weights, device, precision)
        self._wave = Wave(device)
        self._together = (exact or not device.startswith("cpu")) if self._batched is None else self._batched
        # A device that keeps a program for each shape is given few: the last window of a segment as long as any.
        self._padded = self._together and not exact
        self._warm()

    def check(self) -> None:
        """Raises when the device can't compute any more."""
        if not math.isfinite(float(torch.ones(8, device=self._planner.device).sum())):
            raise BackendFailed("the device gives values that are not numbers")

    def open(self, payload: PlanRequest | RenderRequest) -> Job:
        """Check the request. Raises InputInvalid, InputTooLarge, Cancelled when the segment was released."""
        if isinstance(payload, PlanRequest):
            check_plan(payload.voicing.segment)
        return Job(payload)

    def demand(self, job: Job) -> Demand:
        """Cost in millions of multiplications."""
        if job.track is None:
            symbols = len(job.voicing.segment.phonemes.ids)
            bucket = max(32, 1 << (symbols - 1).bit_length()) if symbols else 0
            return Demand(("plan", bucket), max(1.0, min(PLAN_STEP, plan_cost(symbols))))
        if job.ready:
            return Demand(("ready",), 1.0)
        frames = self._frames(job.track, job.number)
        if job.spectra is None:
            return Demand(("render", frames), self._decoder.frames_cost(frames))
        return Demand(("wave", frames), _WAVE_COST * frames)

    def step(self, jobs: Sequence[Job]) -> list[StepResult]:
        """One step of all: jobs of a batch are all at the same stage."""
        with torch.inference_mode():
            if jobs[0].track is None:
                return _alone(self._plan, jobs)
            if jobs[0].ready:
                return [self._answer(job) for job in jobs]
            stage = self._render if jobs[0].spectra is None else self._make_wave
            return stage(jobs) if self._together else _alone(lambda job: stage([job])[0], jobs)

    def discard(self, job: Job) -> None:
        """Let go of what the job made; what a segment needs to go on lives as long as the segment."""
        job.planning = job.track = job.carry = job.spectra = job.moved = job.found = None
        job.made.clear()
        if job.voicing.released:
            job.voicing.release()

    def close(self) -> None:
        """Free the weights on the device."""
        del self._planner, self._decoder, self._wave

    # -- the stages

    def _plan(self, job: Job) -> StepResult:
        segment = job.voicing.segment
        if not any(source >= 0 for source in segment.phonemes.sources):
            return Done(Planned(()))
        if job.planning is None:
            job.planning = self._planner.steps(segment.phonemes.ids, segment.speed)
        spent = 0.0
        try:
            while spent < PLAN_STEP:
                spent += next(job.planning)
        except StopIteration as end:
            plan = end.value
        else:
            return More()
        carry = Carry(self._decoder.opening(), OPENING)
        job.planning, job.carry = None, carry
        job.track = Track(plan, boundaries(plan, segment.first), {0: carry})
        planned = job.planned()
        return Done(planned) if planned is not None else More()

    def _render(self, jobs: Sequence[Job]) -> list[StepResult]:
        plans, carries, firsts, counts = [], [], [], []
        for job in jobs:
            assert job.track is not None and job.carry is not None
            cut = window(job.track.bounds, job.number)
            plans.append(job.track.plan)
            carries.append(job.carry.decoder)
            firsts.append(cut.entering)
            counts.append(self._frames(job.track, job.number))
        spectra, moved = self._decoder.run(plans, carries, firsts, counts[0])
        for job, row, carry in zip(jobs, spectra, moved, strict=True):
            job.spectra, job.moved = row, carry
        return [More() for _ in jobs]

    def _frames(self, track: Track, number: int) -> int:
        """Frames that go into the decoder for a window; all rows of a step have as many."""
        return nominal(track.bounds, number) if self._padded else window(track.bounds, number).count

    def _make_wave(self, jobs: Sequence[Job]) -> list[StepResult]:
        rows, carries, spectra = [], [], []
        for job in jobs:
            assert job.track is not None and job.carry is not None and job.spectra is not None
            cut, segment = window(job.track.bounds, job.number), job.voicing.segment
            rows.append(WaveRow(job.track.plan.pitch, cut.first, cut.last, segment.seed, segment.index))
            carries.append(job.carry.wave)
            spectra.append(job.spectra)
        out: list[StepResult] = []
        made = self._wave.run(rows, carries, torch.stack(spectra))
        for job, (samples, carry) in zip(jobs, made, strict=True):
            assert job.moved is not None
            if not bool(torch.isfinite(torch.from_numpy(samples)).all()):
                out.append(BackendFailed("the voice made samples that are not numbers"))
                continue
            job.take_wave(samples, Carry(job.moved, carry))
            out.append(self._answer(job))
        return out

    def _answer(self, job: Job) -> StepResult:
        request, track = job.request, job.track
        assert track is not None
        if isinstance(request, PlanRequest):
            planned = job.planned()
            return Done(planned) if planned is not None else More()
        last = request.window == track.windows - 1
        if job.ready:
            assert track.head is not None
            return Done(Rendered(track.head, last))
        job.keep()
        return Done(Rendered(job.made[0], last))

    def _warm(self) -> None:
        """Say a word, so that the first listener does not pay for first-use costs."""
        ids = (0, 50, 83, 54, 156, 31, 4, 0)
        phonemes = Phonemes(ids, (-1, *[0] * (len(ids) - 2), -1), ("",))
        voicing = Voicing(SegmentText((), phonemes, first=True))
        planned = self._run(PlanRequest(voicing))
        assert isinstance(planned, Planned) and planned.windows is not None
        for number in range(len(planned.windows)):
            self._run(RenderRequest(voicing, number))

    def _run(self, request: PlanRequest | RenderRequest) -> object:
        job = self.open(request)
        while isinstance(result := self.step([job])[0], More):
            pass
        self.discard(job)
        if isinstance(result, Exception):
            raise result
        return result.output


def _alone(stage: Callable[[Job], StepResult], jobs: Sequence[Job]) -> list[StepResult]:
    """Each job on its own: whatever one of them meets is its own affair."""
    out: list[StepResult] = []
    for job in jobs:
        try:
            out.append(stage(job))
        except Exception as error:
            out.append(error)
    return out
