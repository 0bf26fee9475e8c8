"""What a live stream may be asked to do: turn detection and decoding, checked once, protocol-free."""

from __future__ import annotations

from dataclasses import dataclass, field

from speech.asr import DecodeOptions
from workers.errors import InputInvalid

LONGEST_PIECE = 28.0
"""Seconds; the rest of the model's 30 s is room for the padding of a last piece."""

LEAST_THRESHOLD = 0.05
"""Silence and noise get probabilities up to about half of this."""


@dataclass(frozen=True, slots=True)
class VadConfig:
    """Turn detection by voice activity. Times in seconds, probabilities in [0, 1].

    Speech starts when the probability reaches `onset` for `min_speech` seconds and ends when it stays under `release`
    for `silence` seconds. The utterance's audio begins `prefix` seconds before the start.
    """

    threshold: float = 0.5
    hysteresis: float = 0.15
    min_speech: float = 0.064
    silence: float = 0.5
    prefix: float = 0.3

    @property
    def onset(self) -> float:
        """The threshold, where it tells speech from silence at all."""
        return max(self.threshold, LEAST_THRESHOLD)

    @property
    def release(self) -> float:
        """Lower than the onset, but never so low that no silence would end a turn."""
        return max(self.onset - self.hysteresis, self.onset / 2)


@dataclass(frozen=True, slots=True)
class StreamConfig:
    """One live stream. `automatic` False means the client commits; voice activity is used all the same, to trim."""

    model: str
    options: DecodeOptions = DecodeOptions()
    automatic: bool = True
    vad: VadConfig = field(default_factory=VadConfig)
    partials: bool = True
    partial_interval: float = 1.0
    max_utterance: float = 28.0
    idle_timeout: float | None = None
    stall_timeout: float = 2.0
    """Wall-clock seconds without a frame in mid-speech after which the open utterance is closed (a muted client)."""


def checked(config: StreamConfig) -> StreamConfig:
    """The configuration itself. Raises InputInvalid naming a field that is out of range."""
    vad = config.vad
    _within("threshold", vad.threshold, 0.0, 1.0)
    _within("hysteresis", vad.hysteresis, 0.0, 1.0)
    _within("min_speech", vad.min_speech, 0.0, 2.0)
    _within("silence", vad.silence, 0.03, 20.0)
    _within("prefix", vad.prefix, 0.0, 5.0)
    _within("max_utterance", config.max_utterance, 2.0, LONGEST_PIECE)
    _within("partial_interval", config.partial_interval, 0.1, LONGEST_PIECE)
    _within("stall_timeout", config.stall_timeout, 0.1, 3600.0)
    if config.idle_timeout is not None:
        _within("idle_timeout", config.idle_timeout, 0.1, 86_400.0)
    return config


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        raise InputInvalid(f"{name} must be from {low:g} to {high:g}, not {value:g}", param=name)
