"""One span tried again in several ways; the best text by the score is kept, and it is never worse than before."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace

from batch_jobs.hear import sentences
from batch_jobs.inspect import thresholds as limits
from batch_jobs.inspect.sound import Audio
from batch_jobs.inspect.voice import Voice
from batch_jobs.repair.attempts import Way, pieces, ways
from batch_jobs.repair.plan import LOOPED, RepairTask
from batch_jobs.repair.score import believed, likeness, score, units_of
from batch_jobs.transcript import Repair, Segment
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples, Transcript
from speech.events import Word

Decode = Callable[[FinalRequest], Awaitable[Transcript]]

_MARGIN = 0.02
"""By how much a text must be better to replace another."""
_GOOD = 0.45
"""A score from which a text that another decode agrees with is not searched further."""
_SAME = 0.9


@dataclass(frozen=True, slots=True)
class _Text:
    segments: tuple[Segment, ...]
    how: str
    decoded: bool
    no_speech: float = 0.0


async def repair(
    task: RepairTask,
    samples: Samples,
    decode: Decode,
    options: DecodeOptions = DecodeOptions(),
    other: Decode | None = None,
) -> Repair:
    """Transcribe the span again. `samples` (16 kHz) are those of [task.start, task.end).

    `options` carry the job's language (None: the client named none) and keywords; `other` decodes with another model.
    Raises ServingError.
    """
    span, voice = (task.start, task.end), Voice(task.speech)
    texts = [_Text(task.before, "as it was", False)]
    decodes = 0

    def audio(start: float, end: float) -> Samples:
        first, last = (round((at - task.start) * SAMPLE_RATE) for at in (start, end))
        return samples[max(first, 0) : max(last, 0)]

    for way in _ways(task, voice, other is not None):
        cuts = pieces(way, span, voice, samples)
        if not cuts or decodes + len(cuts) > task.decodes:
            continue
        ask = other if way.other and other is not None else decode
        chosen = _options(way, task, options)
        answers = [(at, await ask(FinalRequest(part, chosen))) for at, part in cuts]
        decodes += len(cuts)
        texts.append(_heard(way, answers, task, voice))
        # Comparing sounds takes too long for an event loop that live streams share.
        if await asyncio.to_thread(_settled, texts, task, voice, audio):
            break
    texts.append(_Text((), "nothing was said", False))
    scores = await asyncio.to_thread(lambda: [_score(text, texts, task, voice, audio) for text in texts])
    best = max(range(len(texts)), key=lambda n: scores[n])
    kept = best != 0 and scores[best] > scores[0] + _MARGIN and _differs(texts[best], texts[0])
    if not kept:
        best = max(range(1, len(texts)), key=lambda n: scores[n])
    return Repair(
        start=task.start,
        end=task.end,
        channel=task.channel,
        reasons=task.reasons,
        before=task.before,
        after=texts[best].segments,
        score_before=round(scores[0], 4),
        score_after=round(scores[best], 4),
        kept=kept,
        how=texts[best].how,
        attempts=decodes,
    )


def _ways(task: RepairTask, voice: Voice, other: bool) -> list[Way]:
    """Where no voice is heard, one decode is enough to see whether it agrees with a text that is believed."""
    order = ways(looped=any(reason.rule in LOOPED for reason in task.reasons), other=other)
    if voice.seconds(task.start, task.end) > 0.0:
        return order
    sure = believed(task.before) and all(s.no_speech < limits.NO_SPEECH for s in task.before)
    return order[:1] if sure else []


def _options(way: Way, task: RepairTask, options: DecodeOptions) -> DecodeOptions:
    language = options.language or (None if way.detect else task.language or None)
    return replace(
        options,
        language=language,
        prompt="",
        timestamps=way.timestamps,
        temperatures=(way.temperature,),
    )


def _heard(way: Way, answers: Sequence[tuple[float, Transcript]], task: RepairTask, voice: Voice) -> _Text:
    """The segments of a way's pieces on the file's clock, without words that lie apart from all voice."""
    segments: list[Segment] = []
    for at, answer in answers:
        words = tuple(
            Word(w.text, min(max(w.start + at, task.start), task.end), min(max(w.end + at, task.start), task.end),
                 w.confidence)
            for w in answer.words
        )  # fmt: skip
        near = limits.NEAR
        if voice.spans:
            words = tuple(w for w in words if voice.seconds(w.start - near, w.end + near) > 0.0)
        for group in sentences(words):
            segments.append(
                Segment(
                    start=group[0].start,
                    end=group[-1].end,
                    text="".join(word.text for word in group).strip(),
                    words=group,
                    channel=task.channel,
                    language=answer.language,
                    avg_logprob=answer.avg_logprob,
                    no_speech=answer.no_speech,
                    compression_ratio=answer.compression_ratio,
                    temperature=answer.temperature,
                )
            )
    chances = [answer.no_speech for _, answer in answers]
    return _Text(tuple(segments), way.name, True, min(chances, default=1.0))


def _score(text: _Text, texts: Sequence[_Text], task: RepairTask, voice: Voice, audio: Audio) -> float:
    decoded = [t for t in texts if t.decoded]
    no_speech = (
        sum(t.no_speech for t in decoded) / len(decoded)
        if decoded
        else max((s.no_speech for s in task.before), default=1.0)
    )
    others = [t.segments for t in texts if t is not text and (t.decoded or t is texts[0])]
    return score(text.segments, voice, audio, (task.start, task.end), no_speech, others).total


def _settled(texts: Sequence[_Text], task: RepairTask, voice: Voice, audio: Audio) -> bool:
    """The newest text is good and another decode, or what stood there, says the same."""
    newest = texts[-1]
    if not newest.segments or _score(newest, texts, task, voice, audio) < _GOOD:
        return False
    said = units_of(newest.segments)
    return any(likeness(said, units_of(t.segments)) >= _SAME for t in texts[:-1] if t.segments)


def _differs(one: _Text, other: _Text) -> bool:
    return [u.key for u in units_of(one.segments)] != [u.key for u in units_of(other.segments)]
