"""The names that ElevenLabs gives to forms of sound: a codec, a rate, and for some a bit rate."""

from __future__ import annotations

from speech.encode import OutputFormat
from speech.encode.formats import Name
from workers.errors import InputInvalid

_CODECS: dict[str, Name] = {
    "mp3": "mp3", "pcm": "pcm16", "ulaw": "mulaw", "alaw": "alaw", "opus": "opus", "wav": "wav",
}  # fmt: skip

_PCM_RATES = (8_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
NAMES = (
    "mp3_22050_32", "mp3_24000_48",
    *(f"mp3_44100_{bits}" for bits in (32, 64, 96, 128, 192)),
    *(f"pcm_{rate}" for rate in _PCM_RATES),
    *(f"wav_{rate}" for rate in _PCM_RATES),
    "ulaw_8000", "alaw_8000",
    *(f"opus_48000_{bits}" for bits in (32, 64, 96, 128, 192)),
)  # fmt: skip
"""The bit rate is part of the name alone: the encoder has one for speech."""

DEFAULT = "mp3_44100_128"


def named_format(name: str) -> OutputFormat:
    """The form of a name. Raises InputInvalid(param="output_format")."""
    if name not in NAMES:
        raise InputInvalid(f"output_format is {name[:60]!r} but can be {', '.join(NAMES)}.", param="output_format")
    codec, rate, *_ = name.split("_")
    return OutputFormat(_CODECS[codec], int(rate))
