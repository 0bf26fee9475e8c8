"""What a live stream may be asked to do: turn detection and decoding, checked once, protocol-free."""

from __future__ import annotations

from dataclasses import dataclass, field

from speech.asr import DecodeOptions


@dataclass(frozen=True, slots=True)
class VadConfig:
    """Turn detection by voice activity. Times in seconds, probabilities in [0, 1].

    Speech starts when the probability reaches `threshold` for `min_speech` seconds and ends when it stays under
    `threshold - hysteresis` for `silence` seconds. The utterance's audio begins `prefix` seconds before the start.
    """

    threshold: float = 0.5
    hysteresis: float = 0.15
    min_speech: float = 0.064
    silence: float = 0.5
    prefix: float = 0.3


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
