"""A gateway whose model says what it hears, to the sample: a word is a checksum of 400 ms of sound.

Everything else is the real service, voice activity (Silero) too. It takes the settings of `speechlane serve`, each with
a value:

    python -m tests.gateway.shared.words_service --port 8701 --sessions-redis redis://127.0.0.1:6379
"""

from __future__ import annotations

import zlib
from dataclasses import replace

import numpy as np

from speech.asr import SAMPLE_RATE, FinalRequest, Hypothesis, PartialRequest, Samples, Transcript
from speech.events import Word
from tests.load import fixed_service

BLOCK = SAMPLE_RATE * 2 // 5


def heard(samples: Samples) -> list[str]:
    """A word for each whole block."""
    sound = np.clip(np.rint(samples * 32768.0), -32768, 32767).astype("<i2")
    return [f" w{zlib.crc32(sound[at : at + BLOCK].tobytes()):08x}" for at in range(0, len(sound) - BLOCK + 1, BLOCK)]


def partial(request: PartialRequest) -> Hypothesis:
    found = heard(request.utterance.samples[: request.end])
    first = len(request.stable)
    return Hypothesis(tuple(range(first, len(found))), tuple((word, 1) for word in found[first:]))


def final(request: FinalRequest) -> Transcript:
    found = heard(request.samples)
    timed = tuple(Word(word, 0.4 * n, 0.4 * (n + 1), 0.9) for n, word in enumerate(found))
    plain = Transcript("", (), (), "en", 1.0, -0.1, 0.0, 1.0, 0.0, len(request.samples) / SAMPLE_RATE)
    return replace(plain, text="".join(found).strip(), words=timed)


if __name__ == "__main__":
    fixed_service._partial, fixed_service._final = partial, final  # type: ignore[assignment]
    fixed_service.main()
