"""Raw interleaved audio, every channel for itself: two sides of a call stay two streams."""

from __future__ import annotations

import numpy as np

from speech.asr import Samples
from speech.audio import AudioDecoder, AudioFormat


class ChannelsDecoder:
    """One stream of raw audio whose channels are decoded apart; what is left of a frame waits for the next bytes."""

    def __init__(self, format: AudioFormat) -> None:
        self.format = format
        self._carry = b""
        self._decoders = [AudioDecoder(AudioFormat(format.encoding, format.rate)) for _ in range(format.channels)]

    def feed(self, data: bytes) -> list[Samples]:
        """Bytes cut anywhere; the 16 kHz samples of every channel. Raises InputInvalid(param="audio")."""
        joined = self._carry + data
        whole = len(joined) - len(joined) % self.format.frame_bytes
        channels = self.format.channels
        frames = np.frombuffer(joined[:whole], np.uint8).reshape(-1, channels, self.format.frame_bytes // channels)
        samples = [decoder.feed(frames[:, n].tobytes()) for n, decoder in enumerate(self._decoders)]
        self._carry = joined[whole:]
        return samples

    def flush(self) -> list[Samples]:
        """End the stream: the rest of every channel. An incomplete frame is dropped."""
        self._carry = b""
        return [decoder.flush() for decoder in self._decoders]
