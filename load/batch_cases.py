"""Transcripts that went wrong for real, and repetitions that are true: what inspection and repair are measured on.

Sounds that small models loop or invent over are decoded without any guard: faster-whisper at temperature 0, no
thresholds, no voice activity, each window conditioned on the one before. What comes out wrong is a case; what comes
out right is none and is only counted. True repetitions are real recordings repeated, decoded by the engine itself.

Everything follows from seeds. The decodes are kept in the cache directory, since they are the same every time.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import numpy as np
from faster_whisper import WhisperModel
from whisper_normalizer.basic import BasicTextNormalizer
from whisper_normalizer.english import EnglishTextNormalizer

from batch_jobs import wire
from batch_jobs.transcript import ChunkResult, Segment
from load import batch_sounds as sounds
from load import corpora
from load.batch_models import bare
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples
from speech.events import Word
from speech.models import resolve

MODELS = ("tiny.en", "base")
_SCRAPS = ((5.6, 6.4), (6.9, 7.7), (9.3, 10.2), (0.3, 1.1))
_PRETTY, _BASIC = EnglishTextNormalizer(), BasicTextNormalizer()


@dataclass(frozen=True, slots=True)
class Sound:
    """What is given to a model. `truth` is what is said in it ("" for nothing)."""

    name: str
    family: str
    model: str
    samples: Samples
    truth: str
    language: str = "en"
    said: int = 0
    """A scrap of speech that is all of the sound, so many times: nobody knows its spelling, only the count."""
    scraps: int = 0
    """Words cut off behind the truth: at most three words each may stand for them."""


@dataclass(frozen=True, slots=True)
class Case:
    """A sound and the transcript that was made of it; every second of a family is held out of the tuning."""

    sound: Sound
    segments: tuple[Segment, ...]
    held_out: bool

    @property
    def text(self) -> str:
        return " ".join(s.text.strip() for s in self.segments).strip()


def normal(text: str, language: str) -> str:
    # The English normaliser writes counted numbers as one: 1 2 3 becomes 123.
    counted = len(text) < 200 and not any(c.isalpha() for c in text)
    return str(_PRETTY(text) if language == "en" and not counted else _BASIC(text)).strip()


def wrong(seed: int = 0) -> tuple[list[Case], int]:
    """(cases that loop or are made up, how many sounds were tried)."""
    tried: dict[str, int] = {}
    out: list[Case] = []
    for sound in _sounds(seed):
        segments = _decoded(sound)
        tried[sound.family] = tried.get(sound.family, 0) + 1
        if _bad(sound, segments):
            out.append(Case(sound, segments, sum(c.sound.family == sound.family for c in out) % 2 == 1))
    return out, sum(tried.values())


def _bad(sound: Sound, segments: tuple[Segment, ...]) -> bool:
    """A loop, or three words and more that nobody said; over silence any word, or a row of stops."""
    text = " ".join(s.text for s in segments)
    heard, truth = normal(text, sound.language).split(), normal(sound.truth, sound.language).split()
    if sound.said:
        return len(heard) > 1.5 * sound.said
    if not truth:
        return bool(heard) or len(text.split()) > 2
    return added(truth, heard) >= 3 + 3 * sound.scraps or (not heard and len(text.split()) > 2)


def added(truth: list[str], heard: list[str]) -> int:
    """Words heard that have no counterpart in the truth: insertions and substitutions of the cheapest alignment."""
    row = [(n, n) for n in range(len(heard) + 1)]  # (edits, of them wrong or extra words)
    for i, word in enumerate(truth, 1):
        above, row = row, [(i, 0)]
        for j, other in enumerate(heard, 1):
            swap = int(word != other)
            row.append(
                min(
                    (above[j - 1][0] + swap, above[j - 1][1] + swap),
                    (above[j][0] + 1, above[j][1]),
                    (row[j - 1][0] + 1, row[j - 1][1] + 1),
                )
            )
    return row[-1][1]


# Sounds that provoke


def _sounds(seed: int) -> Iterator[Sound]:
    for model in MODELS:
        for kind, make in sounds.NOTHING_SAID.items():
            for n, seconds in enumerate((9.0, 19.0, 29.0, 55.0)):
                if n < 3 or kind in ("white noise", "bursts"):
                    yield Sound(f"{kind} {seconds:.0f} s", kind, model, make(seconds - seed, n + 1 + 100 * seed), "")
        yield from _syllables(model, seed)
        yield from _in_silence(model, seed)
        yield from _behind_noise(model, seed)
        yield from _cut(model, seed)
        yield from _foreign(model, seed)


def _syllables(model: str, seed: int) -> Iterator[Sound]:
    """Scraps of a speech over and over without a pause."""
    speech = sounds.recording(Path(__file__).parent.parent / "tests" / "data" / "jfk.flac")
    for start, end in (((4.0, 4.9), (3.3, 4.3), (8.2, 9.0), (1.2, 1.9)), _SCRAPS)[seed > 0]:
        scrap = speech[int(start * SAMPLE_RATE) : int(end * SAMPLE_RATE)]
        for seconds in (14.0, 28.0):
            heard = sounds.tiled(scrap, seconds)
            times = len(heard) // len(scrap)
            yield Sound(f"jfk {start}-{end} for {seconds:.0f} s", "tiled", model, heard, "", said=times)


def _in_silence(model: str, seed: int) -> Iterator[Sound]:
    for n, (samples, text) in enumerate(clips(model, 12, seed=seed)):
        around = 10.0 + n % 3
        sound = np.concatenate([sounds.silence(around, n), samples, sounds.silence(around, n + 50)])
        yield Sound(f"{text[:24]} in silence", "in silence", model, sound, text)


def _behind_noise(model: str, seed: int) -> Iterator[Sound]:
    """Noise long enough to loop over, then somebody speaks, then noise again: the loop may run into the speech."""
    for n, (samples, text) in enumerate(clips(model, 12, seed=seed)):
        kind = ("white noise", "bursts", "pink noise", "music")[n % 4]
        make = sounds.NOTHING_SAID[kind]
        parts = [make(29.0 if n < 8 else 12.0, n + 100 * seed), samples, make(14.0, n + 9 + 100 * seed)]
        yield Sound(f"{kind}, {text[:24]}, {kind}", "behind noise", model, np.concatenate(parts), text)


def _cut(model: str, seed: int) -> Iterator[Sound]:
    """A recording, then others that break off within a word again and again, then a quiet room.

    A scrap is the first half second of a recording, said so often; whatever it is heard as has at most its words.
    """
    chosen = clips(model, 24, seed=seed)
    for n in range(0, 24, 2):
        (first, said), (second, then) = chosen[n], chosen[n + 1]
        for seconds, times in ((0.55, 3), (0.4, 8), (0.3, 1)):
            scraps = [second[: int(seconds * SAMPLE_RATE)]] * times
            sound = [sounds.silence(0.3, n), first, sounds.silence(0.4, n), *scraps, sounds.white(12.0, n, 0.003)]
            scrap = " ".join(then.split()[:3])
            name = f"{said[:24]}, {times} × {scrap}"
            yield Sound(name, "cut words", model, np.concatenate(sound), said, scraps=times)


def _foreign(model: str, seed: int) -> Iterator[Sound]:
    """Speech in a language that the model does not know, or was told wrongly. base can tell what is said."""
    if model != "tiny.en":
        return
    for language in ("es", "fr", "it", "ru"):
        for samples, text in clips("base", 6, language, seed):
            yield Sound(f"{language}: {text[:24]}", "other language", model, samples, text, language)


# Decoding without guards


@cache
def clips(model: str, count: int, language: str = "en", seed: int = 0) -> tuple[tuple[Samples, str], ...]:
    """Recordings of 2 to 8 s that the model gets right, bare and in the engine: what goes wrong is no mishearing."""
    found = sorted(corpora.prompts(language, shortest=2.0, longest=8.0), key=lambda c: c.path.name)
    random.Random(f"{model} {language}" + f" {seed}" * (seed > 0)).shuffle(found)
    out: list[tuple[Samples, str]] = []
    for clip in found:
        sound = Sound(clip.path.name, "clip", model, sounds.recording(clip.path), clip.text, language)
        heard = [_decoded(sound), kept(f"engine {language}", sound, partial(_engine, sound))]
        texts = {normal(" ".join(s.text for s in segments), language) for segments in heard}
        if texts == {normal(clip.text, language)} and len(clip.text.split()) > 3:
            out.append((sound.samples, clip.text))
        if len(out) == count:
            break
    return tuple(out)


def _decoded(sound: Sound) -> tuple[Segment, ...]:
    """What the bare model makes of it, in English unless it is a clip of its own language."""
    language = sound.language if sound.family == "clip" else "en"
    return kept(language, sound, lambda: _bare(sound, language))


def _bare(sound: Sound, language: str) -> tuple[Segment, ...]:
    found, _ = _model(sound.model).transcribe(
        sound.samples,
        language=language,
        beam_size=1,
        temperature=0.0,
        compression_ratio_threshold=None,
        log_prob_threshold=None,
        no_speech_threshold=None,
        condition_on_previous_text=True,
        word_timestamps=True,
    )
    return tuple(
        Segment(
            start=float(s.start),
            end=float(s.end),
            text=s.text.strip(),
            words=tuple(Word(w.word, float(w.start), float(w.end), float(w.probability)) for w in s.words or ()),
            language=language,
            avg_logprob=float(s.avg_logprob),
            no_speech=float(s.no_speech_prob),
            compression_ratio=float(s.compression_ratio),
        )
        for s in found
    )


def _engine(sound: Sound) -> tuple[Segment, ...]:
    answer = bare(sound.model)(FinalRequest(sound.samples, DecodeOptions(sound.language)))
    return (Segment(0.0, answer.seconds, answer.text, answer.words, language=sound.language),)


def kept(how: str, sound: Sound, decode: Callable[[], tuple[Segment, ...]]) -> tuple[Segment, ...]:
    """What `decode` gives, from the cache directory when it was there before."""
    key = hashlib.sha256(sound.samples.tobytes() + f"{sound.model} {how} 1".encode()).hexdigest()[:24]
    path = corpora.cache() / "batch-cases" / f"{key}.json"
    if path.exists():
        return wire.load(ChunkResult, path.read_text()).segments
    segments = decode()
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(wire.dump(ChunkResult(segments)))
    return segments


@cache
def _model(name: str) -> WhisperModel:
    return WhisperModel(str(resolve(name).directory), device="cpu", compute_type="int8_float32", cpu_threads=1)
