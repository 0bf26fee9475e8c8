"""The Whisper backend of the step loop: encodes of several utterances together, then token steps of all of them.

Payloads are PartialRequest and FinalRequest; the answers Hypothesis and Transcript (speech/asr.py).
"""

from __future__ import annotations

from collections.abc import Container
from collections.abc import Sequence as Seq
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from speech.asr import SAMPLE_RATE, WINDOW_SECONDS, DecodeOptions, FinalRequest, PartialRequest, Utterance
from speech.whisper import results
from speech.whisper.decoder import Decoder, Feed, Sequence
from speech.whisper.encoder import FRAMES, GROUPED, Encoder, floors
from speech.whisper.features import MelFilter
from speech.whisper.generation import Generation
from speech.whisper.profile import Precision
from speech.whisper.rules import Rules, token_cap
from speech.whisper.states import Job, begin_encoding, end_encoding, open_job
from speech.whisper.vocabulary import Vocabulary
from speech.whisper.weights import Checkpoint
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge

ROWS_PER_STEP = 1500
"""Encoder rows times layers that one step may take for a short piece of audio."""
ROWS_AT_ONCE = 320
"""Rows of a longer piece that go through one layer in one step (in a model as wide as tiny): about 10 ms."""
_WIDTH = 384


class WhisperBackend:
    """One CTranslate2 Whisper model in torch on one device.

    `probes`: of the padding in finals. `whole`: languages whose finals compute the whole window.
    """

    def __init__(
        self,
        name: str,
        checkpoint: Checkpoint,
        folder: Path,
        precision: Precision,
        probes: int = 0,
        whole: Container[str] = frozenset(),
    ) -> None:
        self.spec = Spec("asr", name, precision=f"{precision.encoder}/{precision.decoder}")
        self.limits = Limits(
            items=64,
            cost=4 * ROWS_PER_STEP,
            resident_bytes=_weight_bytes(checkpoint) + len(floors()) * _window_bytes(checkpoint),
            task_bytes=_window_bytes(checkpoint),
        )
        self._checkpoint, self._precision, self._probes, self._whole = checkpoint, precision, probes, whole
        # The English vocabularies lack the language tokens' block of the multilingual ones.
        self.vocabulary = Vocabulary(folder, multilingual=checkpoint.vocabulary >= 51865)
        self._cross: dict[float, Tensor] = {}

    def load(self, device: str) -> None:
        """Build both halves on `device`, compute the frozen silences, and run a first utterance."""
        checkpoint = self._checkpoint
        self._bank = MelFilter(checkpoint.mels)
        self._encoder = Encoder(checkpoint, self._precision.encoder, device, self._probes)
        self._decoder = Decoder(checkpoint, self._precision.decoder, device)
        self._rules = Rules.of(self.vocabulary.english, checkpoint.vocabulary, device)
        self._cross = {}
        self._rows = max(64, int(ROWS_AT_ONCE * (_WIDTH / checkpoint.dim) ** 2))
        with torch.inference_mode():
            for floor in floors():
                self._frozen_cross(floor)
        self._warm()

    def check(self) -> None:
        """Raises when the device can't compute any more."""
        if not bool(torch.isfinite(self._decoder.empty_kv(1).sum())):
            raise BackendFailed("the device gives values that are not numbers")

    def open(self, payload: PartialRequest | FinalRequest) -> Job:
        """Check the request. Raises InputInvalid, InputTooLarge."""
        job = open_job(payload)
        if not len(job.samples):
            raise InputInvalid("there is no audio", param="audio")
        if job.seconds > WINDOW_SECONDS:
            raise InputTooLarge("one piece of audio is at most 30 s; cut it at a silence", param="audio")
        self.vocabulary.check(payload.options)
        if isinstance(payload, FinalRequest) and job.language in self._whole:
            job.frames = FRAMES
        return job

    def demand(self, job: Job) -> Demand:
        """Short encodes share a step at the same layer, long ones go row by row; token steps all share one.

        Cost: rows times layers, or tokens.
        """
        if job.sequence is None:
            e = job.encoding
            if not self._long(job):
                return Demand(("encode", e.layer if e else 0), job.rows * self._layers(job), opening=True)
            if e is None or e.part is None:
                return Demand("begin a layer" if e else "begin", job.rows, opening=True)
            return Demand("rows", min(self._rows, len(e.x) - e.part.done), opening=True)
        return Demand("decode", len(job.generation.feed().ids) if job.generation else 1)

    def step(self, jobs: Seq[Job]) -> list[StepResult]:
        """One step of all: jobs of a batch are all encoding at one layer, or all decoding."""
        with torch.inference_mode():
            return self._encode(jobs) if jobs[0].sequence is None else self._decode(jobs)

    def discard(self, job: Job) -> None:
        """Let go of the job's tensors; an utterance's caches live as long as the utterance."""
        job.encoding = job.sequence = job.generation = None
        # Else the last partial and the caches hold each other: 35 MB until the garbage collector comes by.
        cache, job.cache = job.cache, None
        if cache is not None and cache.owner is job:
            cache.owner = None
        if isinstance(job.request, PartialRequest) and job.request.utterance.released:
            job.request.utterance.release()

    def close(self) -> None:
        """Free the weights and the frozen silences."""
        del self._encoder, self._decoder
        self._cross = {}

    # -- encoding

    def _layers(self, job: Job) -> int:
        layer = job.encoding.layer if job.encoding else 0
        return max(1, min(self._encoder.layers - layer, ROWS_PER_STEP // max(1, job.rows)))

    def _long(self, job: Job) -> bool:
        return job.rows > self._rows

    def _encode(self, jobs: Seq[Job]) -> list[StepResult]:
        out: list[StepResult] = [More() for _ in jobs]
        begun = {id(job) for job in jobs if job.encoding is not None}
        for n, job in enumerate(jobs):
            if job.encoding is None:
                if not np.isfinite(job.samples).all():
                    out[n] = InputInvalid("the audio has samples that are not numbers", param="audio")
                    continue
                begin_encoding(job, self._encoder, self._bank, self._frozen_cross)
        live = [job for job in jobs if job.encoding is not None]
        short = [job for job in live if not self._long(job)]
        if short:
            layers = min(self._layers(job) for job in short)
            self._encoder.run([job.encoding for job in short if job.encoding], layers)
        for job in live:
            if self._long(job) and id(job) in begun and job.encoding:
                self._encoder.run_rows(job.encoding, self._rows)
        for job in live:
            if job.encoding and self._encoder.finished(job.encoding):
                own = self._decoder.cross(job.encoding.x)
                end_encoding(job, own, self._frozen_cross(job.encoding.floor), lambda c: Sequence(self._decoder, c))
        return out

    def _frozen_cross(self, floor: float) -> Tensor:
        if floor not in self._cross:
            self._cross[floor] = self._decoder.cross(self._encoder.frozen(floor).states)
        return self._cross[floor]

    # -- decoding

    def _decode(self, jobs: Seq[Job]) -> list[StepResult]:
        out: list[StepResult] = [More() for _ in jobs]
        ready: list[tuple[int, Job, Feed]] = []
        for n, job in enumerate(jobs):
            if job.cache is not None and job.cache.owner is not job:
                out[n] = Cancelled("replaced by a newer partial of the same utterance")
                continue
            ready.append((n, job, self._feed(job)))
        if not ready:
            return out
        logits = self._decoder.step([feed for _, _, feed in ready])
        for (n, job, _), rows in zip(ready, logits, strict=True):
            if not bool(torch.isfinite(rows).all()):
                out[n] = BackendFailed("the model's result is not a number")
            elif job.generation is None:
                self._take_language(job, rows[0])
            else:
                job.generation.advance(rows)
                if job.generation.ended:
                    out[n] = self._end(job)
        return out

    def _feed(self, job: Job) -> Feed:
        assert job.sequence is not None
        if self.vocabulary.multilingual and job.language is None:
            job.sequence.rewind(0)
            return Feed(job.sequence, [self.vocabulary.sot], [0])
        if job.generation is None:
            job.generation = self._generation(job)
        return job.generation.feed()

    def _take_language(self, job: Job, row: Tensor) -> None:
        ids = list(self.vocabulary.language_tokens)
        chances = torch.softmax(row[ids], -1)
        best = int(chances.argmax())
        job.language, job.language_probability = self.vocabulary.language_tokens[ids[best]], float(chances[best])
        if isinstance(job.request, FinalRequest) and job.language in self._whole and job.frames < FRAMES:
            job.frames, job.sequence = FRAMES, None  # once more, now that it is known

    def _generation(self, job: Job) -> Generation:
        request, options = job.request, job.request.options
        prompt, sot = self.vocabulary.prompt(options, job.language)
        cap = token_cap(job.seconds, self.vocabulary.multilingual)
        assert job.sequence is not None
        if isinstance(request, FinalRequest):
            return Generation(
                job.sequence,
                self._rules,
                prompt,
                cap=cap,
                draft=request.draft,
                timestamps=options.timestamps,
                sot=sot,
                temperature=options.temperatures[0],
                seed=len(job.samples),
            )
        known = job.cache.hypothesis if job.cache is not None else ()
        stable = request.stable
        draft = known[len(stable) :] if known[: len(stable)] == stable else ()
        return Generation(job.sequence, self._rules, prompt, cap=cap, forced=stable, draft=draft)

    def _end(self, job: Job) -> StepResult:
        g, request = job.generation, job.request
        assert g is not None
        if isinstance(request, PartialRequest):
            answer = results.hypothesis(g, self.vocabulary, job.language)
            assert job.cache is not None
            job.cache.hypothesis, job.cache.language = (*request.stable, *answer.tokens), job.language
            return Done(answer)
        temperatures = request.options.temperatures
        temperature = temperatures[len(job.attempts)]
        tried = results.attempt(g, self.vocabulary, self._decoder, temperature, job.seconds, job.language)
        job.attempts.append(tried)
        if tried.failed and len(job.attempts) < len(temperatures):
            g.restart(temperatures[len(job.attempts)], seed=len(job.samples))
            return More()
        chosen = results.best(job.attempts)
        return Done(
            results.transcript(
                chosen, self.vocabulary, request.options, job.language or "en", job.language_probability, job.seconds
            )
        )

    def _warm(self) -> None:
        """Run a partial and a final once, so that the first client does not pay for first-use costs."""
        noise = (np.random.default_rng(0).standard_normal(3 * SAMPLE_RATE) * 0.01).astype(np.float32)
        utterance = Utterance()
        utterance.append(noise)
        options = DecodeOptions(language="en", temperatures=(0.0,))
        for request in (PartialRequest(utterance, len(noise), options=options), FinalRequest(noise, options)):
            job = self.open(request)
            while isinstance(self.step([job])[0], More):
                pass
            self.discard(job)


def _weight_bytes(checkpoint: Checkpoint) -> int:
    """Weights in float32: the most that they take."""
    return sum(t.numel() * t.element_size() for t in checkpoint.tensors.values())


def _window_bytes(checkpoint: Checkpoint) -> int:
    """Keys and values of one utterance: 1,500 frames for every layer, in the encoder the groups of silence too."""
    keys = checkpoint.encoder_layers * (GROUPED + FRAMES) + checkpoint.decoder_layers * FRAMES
    return 2 * keys * checkpoint.dim * 4
