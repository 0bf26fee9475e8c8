"""Which token may come next: Whisper's own rules on the logits, the cap on length, and the guard against loops.

Source of the rules: Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision", and the model's
own configuration (suppressed ids).
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass

import torch
from faster_whisper.tokenizer import Tokenizer
from torch import Tensor

MAX_INITIAL_TIMESTAMP = 50
"""The first timestamp lies in the first second (units of 0.02 s)."""

COMPRESSION_LIMIT = 2.4
LOGPROB_LIMIT = -1.0
NO_SPEECH_LIMIT = 0.6
"""Whisper's thresholds for a failed decoding: too repetitive, too unsure; and for silence."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The rules of one vocabulary. `blocked` is (vocabulary,) of 0 and -inf."""

    blocked: Tensor
    blank: tuple[int, ...]
    eot: int
    no_timestamps: int
    timestamps: int
    no_speech: int

    @classmethod
    def of(cls, tokenizer: Tokenizer, vocabulary: int, device: str) -> Rules:
        never = [
            *tokenizer.non_speech_tokens,
            tokenizer.transcribe,
            tokenizer.translate,
            tokenizer.sot,
            tokenizer.sot_prev,
            tokenizer.sot_lm,
            tokenizer.no_speech,
        ]
        blocked = torch.zeros(vocabulary)
        blocked[[t for t in never if t is not None]] = -torch.inf
        blank = (*tokenizer.encode(" "), tokenizer.eot)
        return cls(
            blocked.to(device),
            blank,
            tokenizer.eot,
            tokenizer.no_timestamps,
            tokenizer.timestamp_begin,
            tokenizer.no_speech,
        )

    def apply(self, logits: Tensor, *, first: bool) -> Tensor:
        """Log probabilities (rows, vocabulary) of text without timestamps; `first`: row 0 begins the text."""
        logits = logits + self.blocked
        logits[:, self.no_timestamps :] = -torch.inf
        if first:
            logits[0, list(self.blank)] = -torch.inf
        return torch.log_softmax(logits, -1)

    def apply_timestamps(self, logits: Tensor, made: list[int]) -> Tensor:
        """Log probabilities (1, vocabulary) of the token after `made`, with timestamps in pairs that never go back."""
        begin = self.timestamps
        row = (logits + self.blocked)[0]
        row[self.no_timestamps] = -torch.inf
        if not made:
            row[list(self.blank)] = -torch.inf
            row[:begin] = -torch.inf
            row[begin + MAX_INITIAL_TIMESTAMP + 1 :] = -torch.inf
        else:
            last = made[-1] >= begin
            before = len(made) < 2 or made[-2] >= begin
            if last and before:
                row[begin:] = -torch.inf
            elif last:
                row[: self.eot] = -torch.inf
            stamps = [t for t in made if t >= begin]
            if stamps:  # after a closed pair the next may start where it ended; inside one, time must pass
                row[begin : stamps[-1] + (0 if last and not before else 1)] = -torch.inf
        out = torch.log_softmax(row, -1)
        if float(out[begin:].logsumexp(0)) > float(out[:begin].max()):
            row[:begin] = -torch.inf
            out = torch.log_softmax(row, -1)
        return out[None]


def token_cap(seconds: float, multilingual: bool) -> int:
    """How many tokens `seconds` of speech can hold. English speech has 3 to 6 a second, other scripts up to 20."""
    return min(220, 16 + int(seconds * (20 if multilingual else 10)))


def looping(tokens: list[int]) -> bool:
    """Whether the tokens end in one phrase (up to 8 tokens) said again and again, as no speaker would."""
    for period in range(1, 9):
        times = max(5, 16 // period + 1)
        span = period * times
        if len(tokens) >= span and all(tokens[-k] == tokens[-k - period] for k in range(1, span - period + 1)):
            return True
    return False


def compression_ratio(text: str) -> float:
    """Bytes of the text over its size under zlib: repetitive text compresses well."""
    raw = text.encode()
    return len(raw) / len(zlib.compress(raw)) if raw else 0.0
