"""The final of one piece of audio: decoded, checked against where voice was heard, put on the stream's clock.

Faults of Whisper are mended here that only who knows the audio can see: words where nobody spoke are dropped, a tail
of speech that got no words is decoded once more by itself, and a text longer than anybody could say is no text.
"""

from __future__ import annotations

import math
from asyncio import Future
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples, Transcript
from speech.events import Committed, Failed, Final, Token, Word
from speech.language import CONFIDENT, LanguageLock
from speech.pieces import Piece, quietest, voiced
from workers.errors import ServingError
from workers.task import Work

_NOTHING = 0.1
"""Seconds of voice under which nothing was said: a click, a breath."""
_MISSED = 1.0
"""Seconds of voice without a word that are decoded again."""
_NEAR = 0.4
"""Seconds that a word's times may be off, so that only words far from all voice are dropped."""
_WORDS, _WORDS_A_SECOND = 3, 12
"""More words than this nobody says: over a scrap of a word the model makes up whole sentences."""
_WORKS_TOLD = 128

Decode = Callable[[FinalRequest], Awaitable[Transcript]]


@dataclass(frozen=True, slots=True)
class Spoken:
    """What was said in a piece; times in seconds on the stream's clock. `speech` is seconds of voice."""

    text: str = ""
    words: tuple[Word, ...] = ()
    tokens: tuple[Token, ...] = ()
    language: str = ""
    logprob: float = 0.0
    no_speech: float = 1.0
    speech: float = 0.0


async def final(
    piece: Piece, samples: Samples, decode: Decode, lock: LanguageLock | None, draft: tuple[int, ...]
) -> Spoken:
    """Transcribe `samples`, the sealed audio of `piece`. Raises ServingError.

    `lock` is the stream's language where the client left it open and the model knows several.
    """
    speech = voiced(piece)
    if speech < _NOTHING:
        return Spoken(speech=speech, language=piece.config.options.language or "")
    options = piece.config.options
    if lock is not None:
        options = replace(options, language=lock.current)
    transcript = await decode(FinalRequest(samples, options, draft))
    if lock is not None and options.language is None:
        lock.hear(transcript, speech)
    elif lock is not None and lock.doubts(transcript, speech):
        options = replace(options, language=None)
        again = await decode(FinalRequest(samples, options))
        lock.hear(again, speech)
        if again.language_probability >= CONFIDENT and again.avg_logprob > transcript.avg_logprob:
            transcript = again
    if transcript.words:
        options = replace(options, language=transcript.language)
        transcript = await _with_tail(piece, samples, decode, transcript, options)
        transcript = _where_voice_was(piece, transcript)
    if len(transcript.words) > _WORDS + _WORDS_A_SECOND * len(samples) / SAMPLE_RATE:
        transcript = replace(transcript, text="", words=(), tokens=())
    return Spoken(
        text=transcript.text,
        words=tuple(_on_stream(word, piece) for word in transcript.words),
        tokens=transcript.tokens,
        language=transcript.language,
        logprob=transcript.avg_logprob,
        no_speech=transcript.no_speech,
        speech=speech,
    )


async def _with_tail(
    piece: Piece, samples: Samples, decode: Decode, transcript: Transcript, options: DecodeOptions
) -> Transcript:
    """When over a second of voice follows the last word, decode from a quiet point behind that word on, and join."""
    last = _samples(transcript.words[-1].end)
    after = piece.position(last)
    if sum(max(end - max(start, after), 0) for start, end in piece.speech) <= _samples(_MISSED):
        return transcript
    cut = quietest(samples, max(last - _samples(0.1), 0), last + _samples(_NEAR))
    tail = await decode(FinalRequest(samples[cut:], options))
    offset = cut / SAMPLE_RATE
    words = tuple(replace(word, start=word.start + offset, end=word.end + offset) for word in tail.words)
    return replace(
        transcript,
        text=f"{transcript.text} {tail.text}".strip(),
        words=transcript.words + words,
        tokens=transcript.tokens + tail.tokens,
        avg_logprob=min(transcript.avg_logprob, tail.avg_logprob) if tail.text else transcript.avg_logprob,
    )


def _where_voice_was(piece: Piece, transcript: Transcript) -> Transcript:
    """Without the words that lie wholly outside voice: the model made them up over silence."""
    near = _samples(_NEAR)
    kept = tuple(
        word
        for word in transcript.words
        if any(
            first < end + near and last > start - near
            for first, last in piece.spans(_samples(word.start), _samples(word.end))
            for start, end in piece.speech
        )
    )
    if len(kept) == len(transcript.words):
        return transcript
    # Log probabilities belong to tokens, not to words: those of a text that was changed would tell something else.
    return replace(transcript, text="".join(word.text for word in kept).strip(), words=kept, tokens=())


def ending(
    closed: Committed,
    pieces: Sequence[Future[Spoken]],
    *,
    kept_language: str,
    works: tuple[Work, ...],
    made_at: float,
    lag: float,
    model_seconds: float,
) -> Final | Failed:
    """The one end of an utterance, from those of its pieces. The newest of `works` are told with it."""
    works = works[-_WORKS_TOLD:]
    for error in filter(None, (piece.exception() for piece in pieces)):
        assert isinstance(error, ServingError)
        return Failed(closed.utterance, error, works, made_at)
    parts = [piece.result() for piece in pieces]
    said = [part for part in parts if part.text]
    weights = [max(part.speech, 0.1) for part in said]
    return Final(
        utterance=closed.utterance,
        text=" ".join(part.text for part in said),
        words=tuple(word for part in said for word in part.words),
        start=closed.start,
        end=closed.end,
        language=next((part.language for part in [*said, *parts]), "") or kept_language,
        confidence=math.exp(float(np.average([part.logprob for part in said], weights=weights))) if said else 0.0,
        no_speech=min((part.no_speech for part in parts), default=1.0),
        speech_seconds=sum(part.speech for part in parts),
        lag=lag,
        tokens=tuple(token for part in said for token in part.tokens),
        model_seconds=model_seconds,
        works=works,
        made_at=made_at,
    )


def _on_stream(word: Word, piece: Piece) -> Word:
    """The word where it was said. One that lies over a gap was said on the side with more of its voice, else of it:
    the model takes a pause for part of the word behind it."""

    def weight(span: tuple[int, int]) -> tuple[int, int]:
        start, end = span
        voice = sum(max(min(last, end) - max(first, start), 0) for first, last in piece.speech)
        return voice, end - start

    start, end = max(piece.spans(_samples(word.start), _samples(word.end)), key=weight)
    return replace(word, start=start / SAMPLE_RATE, end=end / SAMPLE_RATE)


def _samples(seconds: float) -> int:
    return round(seconds * SAMPLE_RATE)
