"""The forms in which sound goes out, and which sample rates each of them can have."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, cast, get_args

from workers.errors import InputInvalid

Name = Literal["pcm16", "float32", "mulaw", "alaw", "wav", "flac", "mp3", "opus", "aac"]
"""Raw samples (signed 16-bit and IEEE 754 32-bit little-endian, the two codes of G.711), and files: WAV and FLAC with
16 bits, MP3, Ogg/Opus, AAC in ADTS frames. Always mono."""

FORMATS: tuple[Name, ...] = get_args(Name)
MIN_RATE, MAX_RATE = 8_000, 48_000
G711_RATE = 8_000

SAMPLE_BYTES: dict[str, int] = {"pcm16": 2, "float32": 4, "mulaw": 1, "alaw": 1}
"""Bytes of a sample of the raw forms."""

# Codecs know only these; everything else takes any rate from MIN_RATE to MAX_RATE.
_MPEG = (8_000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000)
RATES: dict[str, tuple[int, ...]] = {"mp3": _MPEG, "aac": _MPEG, "opus": (8_000, 12_000, 16_000, 24_000, 48_000)}

_MEDIA = {
    "wav": "audio/wav",
    "flac": "audio/flac",
    "mp3": "audio/mpeg",
    "opus": "audio/ogg; codecs=opus",
    "aac": "audio/aac",
    "float32": "application/octet-stream",
}
_RAW_MEDIA = {"pcm16": "audio/pcm", "mulaw": "audio/PCMU", "alaw": "audio/PCMA"}


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """One of the forms at a sample rate (Hz). Raises InputInvalid(param="format" or "rate")."""

    name: Name
    rate: int

    def __post_init__(self) -> None:
        if self.name not in FORMATS:
            raise InputInvalid(f"format is {str(self.name)[:60]!r} but can be {', '.join(FORMATS)}.", param="format")
        rates = RATES.get(self.name)
        if (
            not isinstance(self.rate, int)
            or isinstance(self.rate, bool)
            or not (self.rate in rates if rates else MIN_RATE <= self.rate <= MAX_RATE)
        ):
            can_be = ", ".join(map(str, rates)) if rates else f"any whole number from {MIN_RATE} to {MAX_RATE}"
            raise InputInvalid(f"rate is {str(self.rate)[:60]} but for {self.name} can be {can_be} Hz.", param="rate")

    @property
    def raw(self) -> bool:
        """Samples without a container: each can be played as it comes, and bytes tell positions."""
        return self.name in SAMPLE_BYTES

    @property
    def media_type(self) -> str:
        """For a Content-Type."""
        if self.name in _RAW_MEDIA:
            return f"{_RAW_MEDIA[self.name]}; rate={self.rate}; channels=1"
        return _MEDIA[self.name]


def output_format(name: str, source_rate: int, rate: int | None = None) -> OutputFormat:
    """The form `name` at `rate`; without one at 8000 Hz for G.711, else at the voice's `source_rate` (Hz).

    A codec that does not know the voice's rate takes its next higher one. Raises InputInvalid.
    """
    if rate is None:
        rates = RATES.get(name, (source_rate,))
        rate = min((known for known in rates if known >= source_rate), default=max(rates))
        if name in ("mulaw", "alaw"):
            rate = G711_RATE
    return OutputFormat(cast(Name, name), rate)
