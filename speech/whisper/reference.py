"""faster-whisper's own WhisperModel behind the same requests: the reference the quality gate compares with.

It pads every request to 30 seconds and decodes it whole; selectable with `asr_engine = "reference"`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from faster_whisper import WhisperModel
from faster_whisper.transcribe import Segment

from speech.asr import SAMPLE_RATE, WINDOW_SECONDS, FinalRequest, Hypothesis, PartialRequest, Samples, Transcript
from speech.events import Word
from speech.whisper.vocabulary import Vocabulary
from workers.backend import Limits, Spec
from workers.errors import InputInvalid, InputTooLarge
from workers.onestep import OneStep


class ReferenceBackend(OneStep):
    """One CTranslate2 Whisper model, one request at a time, as faster-whisper transcribes it."""

    limits = Limits(items=1)

    def __init__(self, name: str, folder: Path, compute_type: str = "float32", threads: int = 1) -> None:
        self.spec = Spec("asr", name, precision=compute_type)
        self._folder, self._compute, self._threads = folder, compute_type, threads
        self._model: WhisperModel | None = None
        self.vocabulary = Vocabulary(folder, multilingual=not name.endswith(".en"))

    def load(self, device: str) -> None:
        """Load the model with CTranslate2."""
        self._model = WhisperModel(
            str(self._folder),
            device=device.partition(":")[0],
            device_index=int(device.partition(":")[2] or 0),
            compute_type=self._compute,
            cpu_threads=self._threads,
        )

    def close(self) -> None:
        """Free the model."""
        self._model = None

    def cost(self, payload: PartialRequest | FinalRequest) -> float:
        """A window, whatever the request holds."""
        return WINDOW_SECONDS

    def validate(self, payload: PartialRequest | FinalRequest) -> None:
        """Raises InputInvalid and InputTooLarge like the live engine."""
        samples = _samples(payload)
        if not len(samples):
            raise InputInvalid("there is no audio", param="audio")
        if len(samples) > WINDOW_SECONDS * SAMPLE_RATE:
            raise InputTooLarge("one piece of audio is at most 30 s; cut it at a silence", param="audio")
        self.vocabulary.check(payload.options)

    def run(self, payloads: Sequence[PartialRequest | FinalRequest]) -> Sequence[Hypothesis | Transcript]:
        """Transcribe each request alone."""
        return [self._partial(p) if isinstance(p, PartialRequest) else self._final(p) for p in payloads]

    def _partial(self, request: PartialRequest) -> Hypothesis:
        answer = self._final(FinalRequest(_samples(request), request.options))
        tokens = answer.token_ids
        # There is no forcing here: what agrees with the stable tokens is cut off, the rest is the hypothesis.
        rest = tokens[len(request.stable) :]
        return Hypothesis(rest, self.vocabulary.pieces(list(rest), answer.language), answer.language)

    def _final(self, request: FinalRequest) -> Transcript:
        assert self._model is not None
        options = request.options
        found, info = self._model.transcribe(
            request.samples,
            language=options.language,
            task=options.task,
            beam_size=1,
            temperature=list(options.temperatures),
            initial_prompt=options.prompt or None,
            hotwords=", ".join(options.keywords) or None,
            condition_on_previous_text=False,
            word_timestamps=True,
            without_timestamps=not options.timestamps,
        )
        segments: list[Segment] = list(found)
        eot = self.vocabulary.english.eot
        return Transcript(
            text="".join(s.text for s in segments).strip(),
            words=tuple(
                Word(w.word, float(w.start), float(w.end), float(w.probability))
                for s in segments
                for w in s.words or ()
            ),
            tokens=(),
            language=info.language,
            language_probability=float(info.language_probability),
            avg_logprob=min((s.avg_logprob for s in segments), default=0.0),
            no_speech=max((s.no_speech_prob for s in segments), default=1.0),
            compression_ratio=max((s.compression_ratio for s in segments), default=0.0),
            temperature=max((s.temperature or 0.0 for s in segments), default=0.0),
            seconds=len(request.samples) / SAMPLE_RATE,
            token_ids=tuple(t for s in segments for t in s.tokens if t < eot),
            segments=tuple((s.text.strip(), sum(t < eot for t in s.tokens)) for s in segments),
        )


def _samples(request: PartialRequest | FinalRequest) -> Samples:
    return request.samples if isinstance(request, FinalRequest) else request.utterance.samples[: request.end]
