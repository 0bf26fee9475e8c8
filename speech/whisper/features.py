"""Log-mel features that grow with the utterance: the values of faster-whisper's extractor, computed once per frame.

A mel frame is 10 ms (hop 160 samples, window 400); an encoder frame is two of them, 20 ms.
"""

from __future__ import annotations

import numpy as np
import torch
from faster_whisper.feature_extractor import FeatureExtractor
from torch import Tensor

from speech.asr import Samples

HOP = 160
N_FFT = 400
MEL_FRAMES = 3000
_EDGE = N_FFT // 2
_DYNAMIC_RANGE = 8.0


class MelFilter:
    """Filter bank and window of one model (80 or 128 mels)."""

    def __init__(self, mels: int) -> None:
        self.mels = mels
        self.bank = torch.from_numpy(FeatureExtractor(feature_size=mels).mel_filters)
        self.window = torch.hann_window(N_FFT)

    def log_power(self, audio: Tensor) -> Tensor:
        """(mels, frames) of log10 power for audio already padded by 200 samples on both sides."""
        spectrum = torch.stft(audio, N_FFT, HOP, window=self.window, center=False, return_complex=True)
        power = spectrum.real.square() + spectrum.imag.square()
        return (self.bank @ power).clamp_min(1e-10).log10()


class LogMel:
    """The features of one utterance so far. Frames that later audio can't change any more are kept."""

    def __init__(self, bank: MelFilter) -> None:
        self.bank = bank
        self._log = torch.zeros(bank.mels, 0)
        self._settled = 0
        self._peak = -10.0

    def extend(self, samples: Samples) -> None:
        """Bring the features up to all of `samples` (the whole utterance, at least as long as last time)."""
        first = self._settled
        begin = first * HOP - _EDGE
        piece = samples[max(0, begin) :]
        if begin < 0:  # the extractor reflects at the very start, and zeros follow the end
            head = samples[1 : 1 - begin][::-1]
            piece = np.concatenate([np.pad(head, (-begin - len(head), 0)), samples])
        frames = min(MEL_FRAMES, -(-(len(samples) + _EDGE) // HOP))
        total = (frames - first - 1) * HOP + N_FFT
        padded = np.zeros(max(total, N_FFT), np.float32)
        padded[: min(len(piece), len(padded))] = piece[: len(padded)]
        log = self.bank.log_power(torch.from_numpy(padded))
        self._log = torch.cat([self._log[:, :first], log[:, : frames - first]], 1)
        self._settled = max(first, min(frames, (len(samples) - _EDGE) // HOP))
        self._peak = max(self._peak, float(log.max()))

    @property
    def floor(self) -> float:
        """The value Whisper gives to silence beside this utterance: its clip keeps 80 dB under the loudest frame."""
        return (max(self._peak - _DYNAMIC_RANGE, -10.0) + 4) / 4

    def window(self, begin: int, end: int) -> Tensor:
        """(mels, end - begin) normalised features of mel frames [begin, end); past the audio there is silence."""
        floor = self.floor
        have = (self._log[:, begin:end].clamp_min(self._peak - _DYNAMIC_RANGE) + 4) / 4
        if have.shape[1] < end - begin:
            rest = torch.full((self.bank.mels, end - begin - have.shape[1]), floor)
            have = torch.cat([have, rest], 1)
        return have
