"""From what a stream heard to figures: utterances, latencies, word errors, and whether the protocol's promises held."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import jiwer
import numpy as np
from whisper_normalizer.english import EnglishTextNormalizer

from load.client import Heard
from load.script import Line

_TRANSCRIPTION = "conversation.item.input_audio_transcription."
normal = EnglishTextNormalizer()


@dataclass(frozen=True, slots=True)
class Guess:
    """A partial as it came: when, over which seconds of audio, with which words behind `stable` ones so far."""

    at: float
    audio_end: float
    stable: str
    unstable: str
    lag: float
    model: float | None


@dataclass(slots=True)
class Utterance:
    """What the service said of one item. Moments on the client's clock, `start` and `end` seconds of the stream."""

    item: str
    start: float = 0.0
    end: float = 0.0
    deltas: list[tuple[float, str]] = field(default_factory=list)
    guesses: list[Guess] = field(default_factory=list)
    committed: int = 0
    ended: int = 0
    final_at: float = 0.0
    text: str | None = None
    model: float | None = None

    @property
    def stable(self) -> str:
        return "".join(text for _, text in self.deltas)


def utterances(heard: Heard) -> tuple[list[Utterance], list[str]]:
    """The utterances in the order of their commits, and every promise of the protocol that was broken."""
    found: dict[str, Utterance] = {}
    commits: list[str] = []
    ends: list[str] = []
    broken = [heard.problem] if heard.problem else []
    for at, event in heard.events:
        kind, item = event["type"], event.get("item_id", "")
        if not item:
            continue
        one = found.setdefault(item, Utterance(item))
        if kind == "input_audio_buffer.speech_started":
            one.start = event["audio_start_ms"] / 1000
        elif kind == "input_audio_buffer.speech_stopped":
            one.end = event["audio_end_ms"] / 1000
        elif kind == "input_audio_buffer.committed":
            one.committed += 1
            commits.append(item)
        elif kind == f"{_TRANSCRIPTION}delta":
            if one.ended:
                broken.append(f"{item}: a delta behind the final")
            one.deltas.append((at, event["delta"]))
        elif kind == "x.transcription.unstable":
            if one.ended:
                broken.append(f"{item}: a partial behind the final")
            heard_to = event["audio_end_ms"] / 1000
            lag, model = event.get("lag", 0.0), event.get("model_seconds")
            one.guesses.append(Guess(at, heard_to, one.stable, event["text"], lag, model))
        elif kind in (f"{_TRANSCRIPTION}completed", f"{_TRANSCRIPTION}failed"):
            one.ended += 1
            one.final_at, one.text, one.model = at, event.get("transcript"), event.get("model_seconds")
            ends.append(item)
            if one.text is None:
                broken.append(f"{item}: failed: {event['error']['message']}")
    broken += [f"{one.item}: {one.committed} commits" for one in found.values() if one.committed != 1]
    broken += [f"{one.item}: {one.ended} finals" for one in found.values() if one.ended != 1]
    if [item for item in commits if item in set(ends)] != ends:
        broken.append("finals came in another order than commits")
    return [found[item] for item in commits], broken


def by_line(heard: Heard, said: Sequence[Utterance]) -> list[tuple[Line, list[Utterance]]]:
    """Each recording of the script with the utterances that were made of it, by where they lie in time."""
    lines = heard.script.lines
    out: list[tuple[Line, list[Utterance]]] = [(line, []) for line in lines]
    for one in said:
        overlaps = [min(one.end, line.end + 0.5) - max(one.start, line.start - 0.5) for line in lines]
        best = int(np.argmax(overlaps))
        out[best][1].append(one)
    return out


def word_errors(pairs: Iterable[tuple[str, str]]) -> float:
    """Word error rate in percent of (reference, hypothesis), after Whisper's English normaliser."""
    cleaned = [(normal(reference), normal(hypothesis)) for reference, hypothesis in pairs]
    cleaned = [(reference, hypothesis) for reference, hypothesis in cleaned if reference]
    if not cleaned:
        return 0.0
    references, hypotheses = zip(*cleaned, strict=True)
    return 100 * float(jiwer.wer(list(references), list(hypotheses)))


def taken_back(stable: str, final: str) -> tuple[int, int]:
    """(stable words that the final has otherwise, all stable words), without case and punctuation.

    The least edits that make the stable words a beginning of the final: a word that is missing counts as one too.
    """
    a, b = plain(stable), plain(final)
    row = list(range(len(b) + 1))
    for i, word in enumerate(a, 1):
        above, row = row, [i]
        for j, other in enumerate(b, 1):
            row.append(min(above[j - 1] + (word != other), above[j] + 1, row[j - 1] + 1))
    return min(row), len(a)


def plain(text: str) -> list[str]:
    """Words without case and punctuation."""
    kept = "".join(c if c.isalnum() or c.isspace() or c in "'’" else " " for c in text.casefold())
    return kept.replace("’", "'").split()


@dataclass(slots=True)
class Latencies:
    """Seconds, one value for each partial, final or recording of a step.

    `round_trip`: last byte of the audio that a partial covers -> the partial received. `overhead`: that without the
    time in which the models' devices were stepping. `final`: end of the voice -> final; `final_commit`: the last byte
    of the utterance's audio -> final, `final_overhead` that without the models. `first_word`: beginning of the voice
    -> first stable word. Audio counts from when it was due to be sent.
    """

    round_trip: list[float] = field(default_factory=list)
    overhead: list[float] = field(default_factory=list)
    final: list[float] = field(default_factory=list)
    final_commit: list[float] = field(default_factory=list)
    final_overhead: list[float] = field(default_factory=list)
    first_word: list[float] = field(default_factory=list)

    def add(self, heard: Heard, said: Sequence[Utterance]) -> None:
        """Take in one stream."""
        for one in said:
            for guess in one.guesses:
                trip = guess.at - heard.due_at(guess.audio_end)
                self.round_trip.append(trip)
                if guess.model is not None:
                    self.overhead.append(trip - guess.model)
            if one.text is not None:
                trip = one.final_at - heard.due_at(one.end)
                self.final_commit.append(trip)
                if one.model is not None:
                    self.final_overhead.append(trip - one.model)
        for line, parts in by_line(heard, said):
            finals = [one.final_at for one in parts if one.text]
            if finals:
                self.final.append(max(finals) - heard.due_at(line.voice_end))
            words = [at for one in parts for at, _ in one.deltas]
            if words:
                self.first_word.append(min(words) - heard.due_at(line.voice_start))

    def summary(self) -> dict[str, dict[str, float | int | None]]:
        """p50, p95, p99, the most (milliseconds) and the count of each."""
        return {name: quantiles(getattr(self, name)) for name in self.__slots__}


def quantiles(seconds: Sequence[float]) -> dict[str, float | int | None]:
    """p50, p95, p99 and the most in milliseconds; None when there are no values."""
    if not seconds:
        return {"p50": None, "p95": None, "p99": None, "max": None, "count": 0}
    levels = {"p50": 0.5, "p95": 0.95, "p99": 0.99, "max": 1.0}
    found: dict[str, float | int | None] = {"count": len(seconds)}
    for name, value in zip(levels, np.quantile(np.array(seconds) * 1000, list(levels.values())), strict=True):
        found[name] = round(float(value), 1)
    return found


def track(heard: Heard, said: Sequence[Utterance]) -> dict[str, Any]:
    """One stream for a plot: seconds from its first sample; each utterance with its partials and its final."""
    zero = heard.begun
    return {
        "seconds": round(heard.script.seconds, 2),
        "lines": [
            {"start": round(line.voice_start, 3), "end": round(line.voice_end, 3), "text": line.clip.text}
            for line in heard.script.lines
        ],
        "utterances": [
            {
                "start": one.start,
                "end": one.end,
                "final_at": round(one.final_at - zero, 3),
                "text": one.text,
                "partials": [
                    {
                        "at": round(guess.at - zero, 3),
                        "audio_end": guess.audio_end,
                        "stable": guess.stable,
                        "unstable": guess.unstable,
                        "round_trip": round(guess.at - heard.due_at(guess.audio_end), 4),
                        "lag": guess.lag,
                        "model_seconds": guess.model,
                    }
                    for guess in one.guesses
                ],
            }
            for one in said
        ],
    }
