"""What a client sends as sound, turned into the samples of every stream that hears it."""

from __future__ import annotations

import asyncio

from gateway.deepgram.options import Query
from speech.asr import Samples
from speech.audio import AudioDecoder
from speech.channels import ChannelsDecoder
from speech.containers import ContainerDecoder
from workers.errors import InputInvalid

INLINE_BYTES = 48 * 1024
"""Longer raw audio is decoded on a thread, and containers always."""


class Sound:
    """Decodes for `streams` streams: one, or each channel apart. `close` it in every case."""

    def __init__(self, query: Query) -> None:
        """Raises InputInvalid."""
        layout = query.layout
        self.streams = query.streams
        self._decoder: AudioDecoder | ChannelsDecoder | ContainerDecoder
        if layout is None and self.streams > 1:
            raise InputInvalid(
                "Channels are heard apart in raw sound only: give encoding (linear16, linear32, mulaw, alaw), "
                "sample_rate and channels.",
                param="multichannel",
            )
        if layout is None:
            self._decoder = ContainerDecoder()
        else:
            self._decoder = ChannelsDecoder(layout) if self.streams > 1 else AudioDecoder(layout)

    async def feed(self, data: bytes) -> list[Samples]:
        """The samples (16 kHz) of every stream. Raises InputInvalid, InputTooLarge."""
        if isinstance(self._decoder, ContainerDecoder) or len(data) > INLINE_BYTES:
            return await asyncio.to_thread(self._feed, data)
        return self._feed(data)

    async def flush(self) -> list[Samples]:
        """The rest. Raises InputInvalid when bytes came and no sound was in them."""
        return await asyncio.to_thread(self._flush)

    async def close(self) -> None:
        """Idempotent."""
        if isinstance(self._decoder, ContainerDecoder):
            await asyncio.to_thread(self._decoder.close)

    def _feed(self, data: bytes) -> list[Samples]:
        samples = self._decoder.feed(data)
        return samples if isinstance(samples, list) else [samples]

    def _flush(self) -> list[Samples]:
        samples = self._decoder.flush()
        return samples if isinstance(samples, list) else [samples]
