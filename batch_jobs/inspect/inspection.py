"""All rules over a transcript: what looks wrong, where, by how much, and why."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np

from batch_jobs.inspect import languages, loops, phrases, rates, sound
from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.loops import Loop
from batch_jobs.inspect.sound import Audio
from batch_jobs.inspect.units import Unit, units, words_of
from batch_jobs.inspect.voice import Span, Voice, unheard, wordless
from batch_jobs.transcript import Segment, Suspicion
from speech.asr import Samples
from speech.events import Word

ChannelAudio = Callable[[int, float, float], Samples]
"""(channel, start, end in seconds) to 16 kHz samples."""


def inspect(
    segments: Sequence[Segment], speech: Mapping[int, Sequence[Span]], audio: ChannelAudio | None = None
) -> list[Suspicion]:
    """Suspicions of a whole transcript, by channel and time.

    `speech` are the spans of voice of each channel in seconds. Without `audio` no repetition can be proven true.
    """
    out: list[Suspicion] = []
    for channel in sorted({s.channel for s in segments} | set(speech)):
        own = [s for s in segments if s.channel == channel]
        heard = partial(audio, channel) if audio is not None else None
        out += inspect_channel(own, Voice(speech.get(channel, ())), heard, channel)
    return out


def inspect_channel(
    segments: Sequence[Segment], voice: Voice, audio: Audio | None = None, channel: int = 0
) -> list[Suspicion]:
    """Suspicions of one channel's segments, which are in order."""
    words = [word for segment in segments for word in words_of(segment)]
    said = units(words)

    def suspicion(rule: str, start: float, end: float, value: float, limit: float, detail: str = "") -> Suspicion:
        return Suspicion(rule, start, max(end, start), channel, round(float(value), 3), limit, detail)

    out: list[Suspicion] = []
    true: list[Loop] = []
    for loop in loops.loops(said):
        proof = sound.evidence(loop, said, voice, audio)
        if proof.true:
            true.append(loop)
            continue
        least = limits.LOOP_TIMES.get(loop.period, limits.LOOP_TIMES_LONG)
        text = " ".join(unit.key for unit in said[loop.first : loop.first + loop.period])[:80]
        detail = f"“{text}”; {proof.alike:.0%} alike in sound, {proof.voiced:.0%} on voice, room for {proof.room:.2f}"
        out.append(suspicion("loop", *_span(said, loop.first, loop.last), loop.times, least, detail))
    once = _said_once(said, true)
    for first, last, ratio in rates.compressible(once):
        out.append(suspicion("compression", *_span(once, first, last), ratio, limits.COMPRESSION))
    for first, last in unheard(words, voice):
        text = "".join(word.text for word in words[first:last]).strip()[:80]
        out.append(suspicion("no voice", *_span(words, first, last), last - first, limits.SILENT_WORDS, text))
    for start, end in wordless(words, voice):
        out.append(suspicion("no words", start, end, voice.seconds(start, end), limits.WORDLESS))
    for first, last, rate in rates.too_fast(said):
        out.append(suspicion("rate", *_span(said, first, last), rate, limits.LETTERS_A_SECOND))
    for first, last, share in rates.instant(words):
        out.append(suspicion("instant words", *_span(words, first, last), share, limits.INSTANT_SHARE))
    for segment in segments:
        if (found := _doubted(segment, voice)) is not None:
            rule, value, limit, detail = found
            out.append(suspicion(rule, segment.start, segment.end, value, limit, detail))
    for segment, why in languages.flips(segments):
        out.append(suspicion("language", segment.start, segment.end, segment.avg_logprob, limits.FLIP_LOGPROB, why))
    return sorted(out, key=lambda s: (s.start, s.end, s.rule))


def _doubted(segment: Segment, voice: Voice) -> tuple[str, float, float, str] | None:
    """(rule, value, limit, detail) of a segment that the model itself, or the voice, does not bear out."""
    words = words_of(segment)
    if not words:
        return None
    if segment.avg_logprob < limits.LOGPROB:
        return "unsure", segment.avg_logprob, limits.LOGPROB, ""
    known = phrases.phrase(units(words))
    if known is None:
        return None
    start, end = words[0].start, words[-1].end
    share = voice.seconds(start - 0.1, end + 0.1) / max(end - start, 0.2)
    sure = float(np.mean([word.confidence for word in words]))
    for value, limit, wrong in (
        (segment.avg_logprob, limits.DOUBT, segment.avg_logprob < limits.DOUBT),
        (segment.no_speech, limits.NO_SPEECH, segment.no_speech > limits.NO_SPEECH),
        (sure, limits.CONFIDENCE, sure < limits.CONFIDENCE),
        (share, limits.VOICE_SHARE, share < limits.VOICE_SHARE),
    ):
        if wrong:
            return "made-up phrase", value, limit, known
    return None


def _said_once(said: Sequence[Unit], true: Sequence[Loop]) -> list[Unit]:
    """The units without the repetitions that the audio bears out."""
    again = {n for loop in true for n in range(loop.first + loop.period, loop.last)}
    return [unit for n, unit in enumerate(said) if n not in again]


def _span(items: Sequence[Unit] | Sequence[Word], first: int, last: int) -> Span:
    return min(i.start for i in items[first:last]), max(i.end for i in items[first:last])
