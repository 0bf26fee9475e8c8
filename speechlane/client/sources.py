"""Where audio comes from: the microphone, a WAV file. All give PCM16 mono, a tenth of a second at a time."""

from __future__ import annotations

import array
import asyncio
import sys
import wave
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from speechlane.client.errors import SourceError

RATE = 16_000
MIN_RATE, MAX_RATE = 8_000, 48_000
BLOCK_SECONDS = 0.1
WAITING = 20
"""Blocks of the microphone that wait for who takes them; then the oldest go."""

Blocks = AsyncIterator[bytes]


@dataclass(frozen=True, slots=True)
class Source:
    """`blocks` of little-endian PCM16, mono, `rate` Hz; they can be had once."""

    rate: int
    blocks: Blocks

    def __aiter__(self) -> Blocks:
        return self.blocks


def wav_file(path: str | Path, *, real_time: bool = True) -> Source:
    """A WAV of 16-bit samples, its channels mixed, as fast as a microphone would give it, or as fast as it is taken.

    Raises `SourceError`.
    """
    try:
        file = wave.open(str(path), "rb")  # noqa: SIM115, it is closed when its last block has been given
    except (OSError, EOFError, wave.Error) as error:
        raise SourceError(f"{path} cannot be read as WAV: {error}") from error
    rate, channels, width = file.getframerate(), file.getnchannels(), file.getsampwidth()
    if width != 2 or not MIN_RATE <= rate <= MAX_RATE:
        file.close()
        raise SourceError(
            f"{path} has {8 * width}-bit samples at {rate} Hz; convert it to 16 bits at {MIN_RATE} to {MAX_RATE} Hz: "
            f"ffmpeg -i {path} -ar {RATE} -c:a pcm_s16le out.wav"
        )
    blocks = _of_wav(file, round(rate * BLOCK_SECONDS), channels)
    return Source(rate, at_real_time(blocks, rate) if real_time else blocks)


async def _of_wav(file: wave.Wave_read, frames: int, channels: int) -> Blocks:
    with file:
        while data := await asyncio.to_thread(file.readframes, frames):
            yield _mixed(data, channels)


def _mixed(data: bytes, channels: int) -> bytes:
    if channels == 1:
        return data
    samples = array.array("h", data)
    if sys.byteorder == "big":
        samples.byteswap()
    tracks = (samples[channel::channels] for channel in range(channels))
    mono = array.array("h", (sum(frame) // channels for frame in zip(*tracks, strict=True)))
    if sys.byteorder == "big":
        mono.byteswap()
    return mono.tobytes()


def microphone(rate: int = RATE) -> Source:
    """The default microphone until it is no longer iterated. Raises `SourceError` when it cannot be used at all."""
    try:
        import sounddevice  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except (ImportError, OSError) as error:
        # The Python package is missing (ImportError) or the PortAudio library that it needs (OSError).
        raise SourceError(
            "the microphone needs sounddevice and PortAudio: pip install sounddevice, and on Debian "
            "apt-get install libportaudio2. Or record with another program and pipe it: "
            "arecord -f S16_LE -r 16000 -t raw | speechlane listen - --rate 16000"
        ) from error
    return Source(rate, _recorded(sounddevice, rate))


async def _recorded(sounddevice: Any, rate: int) -> Blocks:
    loop = asyncio.get_running_loop()
    blocks: asyncio.Queue[bytes] = asyncio.Queue(WAITING)

    def put(data: bytes) -> None:
        if blocks.full():
            blocks.get_nowait()  # the network stands still: the oldest sound goes first
        blocks.put_nowait(data)

    def callback(data: Any, frames: int, time: Any, status: Any) -> None:
        loop.call_soon_threadsafe(put, bytes(data))

    try:
        stream = sounddevice.RawInputStream(
            samplerate=rate, channels=1, dtype="int16", blocksize=int(rate * BLOCK_SECONDS), callback=callback
        )
    except Exception as error:
        raise SourceError(f"the microphone cannot be opened: {error}. 'speechlane doctor' lists devices.") from error
    with stream:
        while True:
            yield await blocks.get()


async def at_real_time(blocks: Blocks, rate: int) -> Blocks:
    """The same blocks, none before the moment at which a microphone would have finished it."""
    loop = asyncio.get_running_loop()
    start, sent = loop.time(), 0.0
    async for block in blocks:
        sent += len(block) / (2 * rate)
        await asyncio.sleep(max(0.0, start + sent - loop.time()))
        yield block
