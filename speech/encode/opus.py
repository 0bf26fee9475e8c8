"""Ogg/Opus (RFC 7845) as it is made: each chunk a page, with the pre-skip and the trim that give back every sample."""

from __future__ import annotations

import random
import struct
from fractions import Fraction

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from speech.encode.ogg import BEGIN, END, OggStream, room, segments
from speech.tts import Sound

GRANULES = 48_000
"""Positions of Opus count at this rate, whatever went in."""
BIT_RATE = 48_000
VENDOR = b"speechlane"


class OpusCoder:
    """Mono float32 at a rate that Opus knows. Less than a frame of 20 ms is held back."""

    def __init__(self, rate: int) -> None:
        codec = av.CodecContext.create("libopus", "w")
        assert isinstance(codec, AudioCodecContext)
        codec.sample_rate, codec.layout, codec.format = rate, "mono", "flt"
        codec.time_base = Fraction(1, rate)
        codec.bit_rate = BIT_RATE
        codec.open()
        self._codec, self._rate = codec, rate
        self._frame: int = codec.frame_size
        head = bytes(codec.extradata or b"")
        (self._skip,) = struct.unpack_from("<H", head, 10)
        """Samples at 48 kHz that the decoder drops at the start: what the encoder looks ahead."""
        self._ogg = OggStream(random.getrandbits(32))
        self._intro = self._ogg.page([head], 0, BEGIN) + self._ogg.page([_tags()], 0)
        self._waiting = np.zeros(0, np.float32)
        self._given = self._coded = 0

    def encode(self, samples: Sound) -> bytes:
        """Pages with all frames that are complete."""
        self._given += len(samples)
        self._waiting = np.concatenate((self._waiting, samples))
        whole = len(self._waiting) // self._frame * self._frame
        packets = self._packets(self._waiting[:whole])
        self._waiting = self._waiting[whole:]
        return self._pages(packets, last=False)

    def end(self) -> bytes:
        """The last page: padded so that the last sample passes the decoder, and trimmed to it by its position."""
        reach = self._given + -(-self._skip * self._rate // GRANULES)
        frames = -(-reach // self._frame) - self._coded  # at least one, since the skip is never 0
        padded = np.zeros(frames * self._frame, np.float32)
        padded[: len(self._waiting)] = self._waiting
        return self._pages(self._packets(padded), last=True)

    def _packets(self, samples: Sound) -> list[bytes]:
        packets = []
        for first in range(0, len(samples), self._frame):
            frame = av.AudioFrame.from_ndarray(samples[None, first : first + self._frame], "flt", "mono")
            frame.sample_rate, frame.pts, frame.time_base = self._rate, self._coded * self._frame, self._codec.time_base
            self._coded += 1
            packets += [bytes(packet) for packet in self._codec.encode(frame)]
        return packets

    def _pages(self, packets: list[bytes], *, last: bool) -> bytes:
        out, self._intro = [self._intro], b""
        step = self._frame * GRANULES // self._rate
        end = self._coded * step
        page: list[bytes] = []
        taken = 0
        for left, packet in zip(range(len(packets), 0, -1), packets, strict=True):
            if not room(taken, packet):
                out.append(self._ogg.page(page, end - left * step))
                page, taken = [], 0
            page.append(packet)
            taken += segments(packet)
        if last:
            out.append(self._ogg.page(page, self._skip + self._given * GRANULES // self._rate, END))
        elif page:
            out.append(self._ogg.page(page, end))
        return b"".join(out)


def _tags() -> bytes:
    return b"OpusTags" + struct.pack("<I", len(VENDOR)) + VENDOR + struct.pack("<I", 0)
