"""From finished generations to answers: hypotheses of partials, transcripts of finals, and which attempt to believe."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from speech.asr import DecodeOptions, Hypothesis, Transcript
from speech.events import Token, Word
from speech.whisper import alignment
from speech.whisper.decoder import Decoder
from speech.whisper.encoder import FRAMES
from speech.whisper.generation import Generation
from speech.whisper.rules import (
    COMPRESSION_LIMIT,
    LOGPROB_LIMIT,
    NO_SPEECH_LIMIT,
    compression_ratio,
)
from speech.whisper.vocabulary import Vocabulary


@dataclass(frozen=True, slots=True)
class Attempt:
    """One decoding of a final at one temperature, judged by Whisper's thresholds."""

    tokens: list[int]
    logprobs: list[float]
    average: float
    ratio: float
    no_speech: float
    temperature: float
    looped: bool
    words: tuple[Word, ...]

    @property
    def silent(self) -> bool:
        """The model hears no speech and does not believe its own words."""
        return self.no_speech > NO_SPEECH_LIMIT and self.average < LOGPROB_LIMIT

    @property
    def failed(self) -> bool:
        """Too repetitive or too unsure to be believed."""
        return self.looped or self.ratio > COMPRESSION_LIMIT or (self.average < LOGPROB_LIMIT and not self.silent)


def attempt(
    g: Generation, vocabulary: Vocabulary, decoder: Decoder, temperature: float, seconds: float, language: str | None
) -> Attempt:
    """Judge a finished generation and time its words while its caches still stand."""
    return Attempt(
        tokens=list(g.tokens),
        logprobs=list(g.logprobs),
        average=g.average_logprob,
        ratio=compression_ratio(vocabulary.text(g.tokens)),
        no_speech=g.no_speech,
        temperature=temperature,
        looped=g.looped,
        words=_words(g, vocabulary, decoder, seconds, language),
    )


def _words(
    g: Generation, vocabulary: Vocabulary, decoder: Decoder, seconds: float, language: str | None
) -> tuple[Word, ...]:
    eot = vocabulary.english.eot
    kept = [(t, p, row) for t, p, row in zip(g.tokens, g.logprobs, g.rows(), strict=False) if t < eot]
    if not kept:
        return ()
    frames = max(1, min(FRAMES, round(seconds / alignment.FRAME_SECONDS)))
    sot = g.prefix.index(vocabulary.sot)
    head = list(range(sot, len(g.prefix) - 1))
    rows = [row for _, _, row in kept]
    end = g.rows()[-1]
    if end < len(g.sequence.ids):
        rows.append(end)
    starts = alignment.token_frames(decoder.alignment_scores(g.sequence, head + rows, frames), len(head))
    if len(starts) == len(kept):  # stopped before the end was decided
        starts = np.append(starts, frames)
    tokens = [t for t, _, _ in kept]
    probabilities = [float(np.exp(p)) for _, p, _ in kept]
    return alignment.words(vocabulary.tokenizer(language), tokens, starts, probabilities, seconds)


def best(attempts: list[Attempt]) -> Attempt:
    """The last attempt if it passed, else the likeliest of those that do not repeat themselves."""
    if not attempts[-1].failed:
        return attempts[-1]
    calm = [a for a in attempts if a.ratio <= COMPRESSION_LIMIT and not a.looped]
    return max(calm or attempts, key=lambda a: a.average)


def transcript(
    a: Attempt, vocabulary: Vocabulary, options: DecodeOptions, language: str, probability: float, seconds: float
) -> Transcript:
    """The answer to a final."""
    tokens, logprobs, words = ([], [], ()) if a.silent else (a.tokens, a.logprobs, a.words)
    raw = vocabulary.english.tokenizer
    eot = vocabulary.english.eot
    return Transcript(
        text=vocabulary.text(tokens).strip(),
        words=words,
        tokens=tuple(
            Token(raw.decode([t]), _token_bytes(vocabulary, t), p)
            for t, p in zip(tokens, logprobs, strict=True)
            if t < eot
        ),
        language=language,
        language_probability=probability,
        avg_logprob=a.average,
        no_speech=a.no_speech,
        compression_ratio=a.ratio,
        temperature=a.temperature,
        seconds=seconds,
        token_ids=tuple(t for t in tokens if t < eot),
        segments=_segments(tokens, vocabulary) if options.timestamps else (),
    )


def hypothesis(g: Generation, vocabulary: Vocabulary, language: str | None) -> Hypothesis:
    """The answer to a partial; a loop is no hypothesis at all."""
    tokens = [] if g.looped else list(g.tokens)
    return Hypothesis(tuple(tokens), vocabulary.pieces(tokens, language), language or "en")


def _token_bytes(vocabulary: Vocabulary, token: int) -> bytes:
    """The bytes a byte-level BPE token stands for (its vocabulary entry spells each byte as one character)."""
    spelled = vocabulary.english.tokenizer.id_to_token(token) or ""
    return bytes(_BYTE_OF[c] for c in spelled if c in _BYTE_OF)


def _byte_alphabet() -> dict[str, int]:
    """The GPT-2 alphabet: printable bytes stand for themselves, the others for characters from U+0100 on."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [b for b in range(256) if b not in printable]
    return {chr(b): b for b in printable} | {chr(256 + n): b for n, b in enumerate(others)}


_BYTE_OF = _byte_alphabet()


def _segments(tokens: list[int], vocabulary: Vocabulary) -> tuple[tuple[str, int], ...]:
    """The text between the model's timestamps."""
    groups: list[list[int]] = [[]]
    for token in tokens:
        if token < vocabulary.english.timestamp_begin:
            groups[-1].append(token)
        elif groups[-1]:
            groups.append([])
    return tuple((vocabulary.text(group).strip(), len(group)) for group in groups if group)
