"""The backend of a codec language model: a prefill, then a token a step for all rows that want one, then the codec.

Plan and windows as in speech/tts.py. A row advances only in steps of its own tasks: one that starves for text, rests
because its next window was not asked for, or is free, is neither moved nor changed. On a CPU every row is computed
apart, so its samples are bit by bit the same alone or among others; on a GPU all places are computed in one shape under
a mask.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from speech.tts import Phonemes, Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Sound, Voicing
from speech.voices.codec.layout import FRAME, levels
from speech.voices.codec.llama import Llama
from speech.voices.codec.model import CodecModel
from speech.voices.codec.randoms import uniform
from speech.voices.codec.sampling import draw
from speech.voices.codec.slots import Row, Slots
from speech.voices.codec.snac import SnacDecoder
from speech.voices.codec.states import Job, open_job
from speech.voices.codec.windows import WINDOW
from speech.voices.head import trim_head
from speech.voices.pace import CHARACTERS_PER_SECOND, characters, estimate
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge, Overloaded

log = logging.getLogger(__name__)

PREFILL = 256
"""Tokens of a prompt that one step may take."""
_SLACK = 1.5
"""A segment must fit when it is spoken this much slower than usual."""
_NOTHING = np.zeros(0, np.float32)

_Work = tuple[int, Job, Row]
"""A job of a step with its number there and its row."""


@dataclass(frozen=True, slots=True)
class _Loaded:
    """What one `load` made. A thread that was given up keeps the old one and writes in nothing of the new."""

    llama: Llama
    snac: SnacDecoder
    slots: Slots
    device: str


class CodecBackend:
    """One model on one device. `capacity` is in tokens; at most `voicings` segments may be under way.

    `apart`: every row by itself; None: on a CPU only.
    """

    def __init__(
        self, model: CodecModel, *, slots: int, capacity: int, voicings: int, apart: bool | None = None
    ) -> None:
        config = model.llama
        self._context = model.snac.context
        self.spec = Spec("tts", model.name, revision=model.revision)
        self.limits = Limits(
            items=slots,
            cost=slots * (WINDOW + 2 * self._context),
            resident_bytes=model.weight_bytes + slots * model.row_bytes(capacity),
        )
        self._model, self._voicings, self._apart_by_order = model, voicings, apart
        self._places, self._capacity = slots, min(capacity, config.positions)
        self._loaded: _Loaded | None = None

    @property
    def free_slots(self) -> int:
        """Places that no segment holds."""
        return self._loaded.slots.free if self._loaded is not None else self._places

    def load(self, device: str) -> None:
        """Read the weights, make the places, and run every shape once. Again after a restart: all rows are lost."""
        llama, snac = self._model.on(device, self._capacity)
        self._apart = self._apart_by_order if self._apart_by_order is not None else device == "cpu"
        slots = Slots(llama, self._model.layout, self._places, self._capacity, self._voicings, device)
        self._loaded = _Loaded(llama, snac, slots, device)
        with torch.inference_mode():
            self._warm(self._loaded)

    def check(self) -> None:
        """Raises when the device can't compute any more."""
        if self._loaded is None or float(torch.ones(8, device=self._loaded.device).sum()) != 8:
            raise BackendFailed("the device gives wrong values")

    def open(self, payload: PlanRequest | RenderRequest) -> Job:
        """Check the request. Raises InputInvalid, InputTooLarge, and Cancelled for a voicing that was released."""
        if not isinstance(payload, PlanRequest | RenderRequest):
            raise InputInvalid("a voice takes a PlanRequest or a RenderRequest", param="payload")
        if payload.voicing.released:
            raise Cancelled("nobody wants this segment any more")
        segment = payload.voicing.segment
        if segment.speed != 1.0:
            raise InputInvalid(f"{self.spec.model} speaks at its own pace: leave speed at 1", param="speed")
        if any(not 0 <= i < self._model.llama.vocabulary for i in segment.phonemes.ids):
            raise InputInvalid(f"{self.spec.model} has no such symbols", param="phonemes")
        seconds = characters(segment.tokens) / CHARACTERS_PER_SECOND * _SLACK
        if len(segment.phonemes.ids) + FRAME * (1 + seconds / self._model.frame_seconds) > self._capacity:
            raise InputTooLarge(
                "the segment is too long to be spoken in one piece; cut it at a sentence", param="input"
            )
        return open_job(payload, self._model.frame_seconds)

    def demand(self, job: Job) -> Demand:
        """A prefill goes alone (two would pass the cost limit); tokens of all rows share a step, equal windows too."""
        row = job.row
        assert row is not None
        stage = self._stage(job, row)
        if stage == self._sound:
            begin, end = self._span(job, row)
            return Demand(("sound", end - begin), max(1, end - begin))
        if stage == self._prefill:
            return Demand("prefill", self.limits.cost / 2 + min(row.length - row.fed, PREFILL), opening=True)
        return Demand("token", 1)

    def step(self, jobs: Sequence[Job]) -> list[StepResult]:
        """One step of all, which have the same demand."""
        on = self._loaded
        assert on is not None
        out: list[StepResult] = [More() for _ in jobs]
        ready: list[tuple[int, Job, Row]] = []
        for n, job in enumerate(jobs):
            if job.voicing.released:
                job.row = None
                out[n] = Cancelled("nobody wants this segment any more")
                continue
            row = job.row
            assert row is not None
            if not row.prompt:
                out[n] = Done(Planned(()) if isinstance(job.request, PlanRequest) else Rendered(_NOTHING, last=True))
            elif row.home is not None and row.home is not on.slots:
                job.row = job.voicing.cache = row.again()  # its demand is another one now
            else:
                ready.append((n, job, row))
        with torch.inference_mode():
            for stage in (self._prefill, self._tokens, self._sound):
                if batch := [work for work in ready if self._stage(*work[1:]) == stage]:
                    stage(on, batch, out)
                    break
        return out

    def discard(self, job: Job) -> None:
        """Let go of the row: it lives as long as its voicing, or ends now with its place if that was released."""
        job.row = None
        if job.voicing.released:
            job.voicing.release()

    def close(self) -> None:
        """Free weights and places."""
        self._loaded = None

    # -- the three stages

    def _stage(self, job: Job, row: Row) -> Callable[[_Loaded, list[_Work], list[StepResult]], None]:
        """What the job's next step is."""
        if isinstance(job.request, RenderRequest) and (row.ended or row.frames >= job.end + self._context):
            return self._sound
        if isinstance(job.request, PlanRequest) or row.fed < row.length - 1:
            return self._prefill
        return self._tokens

    def _prefill(self, on: _Loaded, batch: list[_Work], out: list[StepResult]) -> None:
        """Keys and values of all tokens but the last, which the first token step takes."""
        for n, job, row in batch:
            if row.home is None and on.slots.full:
                out[n] = Overloaded(f"{self.spec.model} holds all the segments it may", retry_after=1.0)
                continue
            ids = row.tokens(row.fed, min(row.fed + PREFILL, row.length - 1), self._model.layout)
            if ids:
                on.slots.seat([row])
                memory, _ = on.slots.view(_slot(row))
                states = on.llama.forward(torch.tensor([ids], device=on.device), [row.fed], memory, [0])
                if not bool(torch.isfinite(states).all()):
                    out[n] = BackendFailed("the model's result for this text is not a number")
                    continue
                row.fed += len(ids)
            if isinstance(job.request, PlanRequest) and row.fed >= row.length - 1:
                out[n] = Done(Planned(None))

    def _tokens(self, on: _Loaded, batch: list[_Work], out: list[StepResult]) -> None:
        """One more code for each row."""
        on.slots.seat([row for _, _, row in batch])
        if self._apart:
            for work in batch:
                self._advance(on, [work], out, *on.slots.view(_slot(work[2])), first=_slot(work[2]))
        else:
            self._advance(on, batch, out, on.slots.memory, on.slots.seen, first=0)

    def _advance(
        self, on: _Loaded, batch: list[_Work], out: list[StepResult], memory: Tensor, seen: Tensor, *, first: int
    ) -> None:
        """The step itself on the places from `first` on that `memory` and `seen` hold."""
        ids, at, places, stops, keys, counts = ([0] * len(seen) for _ in range(6))
        active = [_slot(row) - first for _, _, row in batch]
        for i, (_, _, row) in zip(active, batch, strict=True):
            (ids[i],) = row.tokens(row.fed, row.fed + 1, self._model.layout)
            at[i], places[i] = row.fed, len(row.codes) % FRAME
            stops[i] = places[i] == 0 and row.frames > 0
            keys[i], counts[i] = row.key, len(row.codes)
        on_device = torch.tensor([ids, places, stops, keys, counts], device=on.device)
        states = on.llama.forward(on_device[0][:, None], at, memory, active)
        randoms = uniform(on_device[3], on_device[4])
        columns, finite = draw(
            on.llama.logits(states), on_device[1], on_device[2].bool(), seen, randoms, self._model.sampling
        )
        rows = torch.tensor(active, device=on.device)
        seen[rows, columns[rows]] = True
        drawn = torch.stack([columns, finite.long()])[:, rows].tolist()
        for (n, _, row), column, good in zip(batch, *drawn, strict=True):
            if not good:
                out[n] = BackendFailed("the model's result is not a number")
                continue
            row.fed += 1
            self._take(row, column)

    def _take(self, row: Row, column: int) -> None:
        """A drawn column: the end, or the next code."""
        if column == 0:
            row.ended = True
            return
        row.codes.append((column - 1) % self._model.layout.codebook)
        full = row.frames >= row.most or row.length + FRAME > self._capacity
        if full and not len(row.codes) % FRAME:
            row.ended = True
            log.warning("%s did not end a segment by itself: ended after %d frames", self.spec.model, row.frames)

    def _sound(self, on: _Loaded, batch: list[_Work], out: list[StepResult]) -> None:
        """Samples of the windows, each with the codes before and after that it depends on."""
        if self._apart:
            for work in batch:
                self._decode(on, [work], out)
        else:
            self._decode(on, batch, out)

    def _decode(self, on: _Loaded, batch: list[_Work], out: list[StepResult]) -> None:
        spans = [self._span(job, row) for _, job, row in batch]
        if spans[0][0] == spans[0][1]:  # all are as long, and these ask for more than was said
            for n, _, _ in batch:
                out[n] = Done(Rendered(_NOTHING, last=True))
            return
        codes = [row.codes[begin * FRAME : end * FRAME] for (begin, end), (_, _, row) in zip(spans, batch, strict=True)]
        keys = torch.tensor([row.key for _, _, row in batch], device=on.device)
        begins = torch.tensor([begin for begin, _ in spans], device=on.device)
        made = on.snac.decode(levels(codes, on.device), keys, begins).float().cpu().numpy()
        for samples, (begin, _), (n, job, row) in zip(made, spans, batch, strict=True):
            frame = self._model.snac.frame
            end = min(job.end, row.frames)
            window = samples[(job.begin - begin) * frame : (end - begin) * frame].copy()
            if not np.isfinite(window).all():
                out[n] = BackendFailed("the codec made samples that are not numbers")
                continue
            out[n] = Done(self._rendered(job, row, window, last=row.ended and end == row.frames))

    def _rendered(self, job: Job, row: Row, window: Sound, *, last: bool) -> Rendered:
        rate, segment = self._model.snac.rate, job.segment
        begin = job.begin * self._model.snac.frame - row.trimmed
        if segment.first and job.begin == 0:
            kept = trim_head(window, rate)
            row.trimmed, window, begin = len(window) - len(kept), kept, 0
        times = estimate(segment.tokens, begin / rate, (begin + len(window)) / rate, last=last)
        return Rendered(window, last, times)

    def _span(self, job: Job, row: Row) -> tuple[int, int]:
        """Frames to decode for a window: its own and the context there is."""
        if job.begin >= row.frames:
            return 0, 0
        return max(0, job.begin - self._context), min(job.end + self._context, row.frames)

    def _warm(self, on: _Loaded) -> None:
        """Every shape once, so that the first listener does not pay for it."""
        row = Row((0,) * min(PREFILL + 1, self._capacity - FRAME), 0, 1)
        job = Job(PlanRequest(Voicing(SegmentText((), Phonemes((), (), ())))), row)
        out: list[StepResult] = [More()]
        self._prefill(on, [(0, job, row)], out)
        self._tokens(on, [(0, job, row)], out)
        for frames in range(1, WINDOW + 2 * self._context + 1):
            on.snac.decode(levels([[0] * FRAME * frames], on.device), *torch.zeros(2, 1, device=on.device).long())


def _slot(row: Row) -> int:
    assert row.slot is not None
    return row.slot
