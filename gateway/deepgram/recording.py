"""The body of POST /v1/listen: received, bounded, and decoded into the samples of each channel that is asked for."""

from __future__ import annotations

import asyncio
import hashlib
import json
import tempfile
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import BinaryIO, cast

import numpy as np
from aiohttp import web

from batch_jobs.job import Channels
from batch_jobs.media.decode import Media
from gateway.deepgram.options import MOST_CHANNELS, Query
from gateway.transcriptions import decode
from gateway.uploads import CHUNK_BYTES, MEMORY_BYTES, patience, too_large
from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder, AudioFormat
from speech.channels import ChannelsDecoder
from workers.errors import InputInvalid, InputTooLarge

RAW_PIECE = 256 * 1024
"""Bytes of raw sound that are decoded at once."""


@dataclass(frozen=True, slots=True)
class Recording:
    """What came: a file that stands at its start, and the digest of its bytes."""

    file: BinaryIO
    sha256: str


@asynccontextmanager
async def received(request: web.Request, max_bytes: int) -> AsyncIterator[Recording]:
    """The body; it is deleted when the context ends. Raises InputInvalid, InputTooLarge, UploadStalled."""
    if request.content_type == "application/json":
        raise InputInvalid(await _no_url(request))
    if (request.content_length or 0) > max_bytes:
        raise too_large(max_bytes)
    digest, size = hashlib.sha256(), 0
    with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as file:
        async with patience() as progress:
            async for chunk in request.content.iter_chunked(CHUNK_BYTES):
                progress.made(len(chunk))
                size += len(chunk)
                if size > max_bytes:
                    raise too_large(max_bytes)
                digest.update(chunk)
                if size > MEMORY_BYTES:
                    await asyncio.to_thread(file.write, chunk)
                else:
                    file.write(chunk)
        if not size:
            raise InputInvalid("The body is empty: send a recording.")
        file.seek(0)
        yield Recording(cast(BinaryIO, file), digest.hexdigest())


async def decoded(recording: Recording, query: Query, max_seconds: float) -> list[Samples]:
    """The samples (16 kHz) of each channel that is heard apart. Channels together may last `max_seconds`.

    Raises InputInvalid, InputTooLarge.
    """
    layout = query.layout
    try:
        if layout is None and not query.multichannel:
            return [await decode(recording.file, max_seconds)]
        stopped = threading.Event()
        pieces = _apart(recording.file, max_seconds) if layout is None else _raw(recording.file, layout, query)
        work = asyncio.get_running_loop().run_in_executor(None, _gathered, pieces, max_seconds, stopped)
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # The thread reads the file, so the file may not be closed under it.
            stopped.set()
            await asyncio.wait([work])
            raise
    except (InputInvalid, InputTooLarge) as error:
        if error.param == "file":
            error.param = None  # it is the body, which has no name here
        raise


def _gathered(pieces: Iterator[tuple[int, Samples]], max_seconds: float, stopped: threading.Event) -> list[Samples]:
    """The channels whole; one that never sounded is not there or has no samples."""
    channels: dict[int, list[Samples]] = {}
    total = 0
    for number, samples in pieces:
        if number >= MOST_CHANNELS:
            raise InputInvalid(f"At most {MOST_CHANNELS} channels are heard apart.", param="multichannel")
        channels.setdefault(number, []).append(samples)
        total += len(samples)
        if total > max_seconds * SAMPLE_RATE:
            raise InputTooLarge(f"The channels last longer than {max_seconds:g} s together; send a shorter recording.")
        if stopped.is_set():
            break
    nothing = np.zeros(0, np.float32)
    count = max(channels, default=0) + 1
    return [np.concatenate(channels[n]) if channels.get(n) else nothing for n in range(count)]


def _raw(file: BinaryIO, layout: AudioFormat, query: Query) -> Iterator[tuple[int, Samples]]:
    if query.streams == 1:
        mono = AudioDecoder(layout)
        while data := file.read(RAW_PIECE):
            yield 0, mono.feed(data)
        yield 0, mono.flush()
        return
    apart = ChannelsDecoder(layout)
    while data := file.read(RAW_PIECE):
        yield from enumerate(apart.feed(data))
    yield from enumerate(apart.flush())


def _apart(file: BinaryIO, max_seconds: float) -> Iterator[tuple[int, Samples]]:
    with Media(file, Channels.EACH, max_seconds) as media:
        made: dict[int, int] = {}
        for sounds in media.sounds():
            for sound in sounds:
                # A channel that was silent at first begins later.
                behind = sound.start - made.get(sound.channel, 0)
                if behind > 0:
                    yield sound.channel, np.zeros(behind, np.float32)
                yield sound.channel, sound.samples
                made[sound.channel] = sound.start + len(sound.samples)
        if media.channels:
            yield media.channels - 1, np.zeros(0, np.float32)


async def _no_url(request: web.Request) -> str:
    """Why a JSON body is of no use."""
    head = await request.content.read(4096)
    try:
        named = "url" in json.loads(head)
    except (ValueError, TypeError, RecursionError):
        named = False
    if named:
        return "No URL is opened from here: fetch the recording and send it as the body."
    return "Send the recording itself as the body, with its own Content-Type or none."
