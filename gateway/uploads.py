"""Reading a multipart form with one file in it, part by part, fields in any order, everything bounded."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, cast

from aiohttp import BodyPartReader, web
from aiohttp.http_exceptions import HttpProcessingError

from workers.errors import InputInvalid, InputTooLarge, ServingError

MEMORY_BYTES = 8 * 1024 * 1024
"""A file larger than this is kept on disk while it is read."""

CHUNK_BYTES = 256 * 1024
FIELD_BYTES = 64 * 1024
MAX_PARTS = 64
FRAMING_BYTES = 1024 * 1024
"""What boundaries, headers and text fields may add to the size of the file."""

STALL_SECONDS = 30.0
"""An upload of which nothing more comes for so long is given up, for it holds one of the places for files."""
LEAST_RATE = 2048
"""Bytes a second that an upload has to bring after that time; speech in Opus takes this much."""


class UploadStalled(ServingError):
    """The client does not send its file, or hardly."""

    code = "upload_stalled"
    status = 408


@dataclass
class Form:
    """A form that has been read: text fields by name (without a trailing []), and the file, rewound."""

    file: BinaryIO
    size: int | None = None
    fields: dict[str, list[str]] = field(default_factory=dict)


@dataclass
class Parts:
    """What came in a form: text fields by name (without a trailing []), size and name of the file."""

    size: int | None = None
    filename: str = ""
    fields: dict[str, list[str]] = field(default_factory=dict)


Sink = Callable[[bytes], Awaitable[None]]
"""Takes the file piece by piece."""


class Progress:
    """Pushes `patience`, the end of the wait for an upload, back as bytes come."""

    def __init__(self, patience: asyncio.Timeout) -> None:
        self._patience = patience
        self._now = asyncio.get_running_loop().time
        self._begun = self._now()
        self._received = 0

    def made(self, size: int) -> None:
        """`size` more bytes have come."""
        self._received += size
        slowest = self._begun + self._received / LEAST_RATE
        self._patience.reschedule(min(self._now(), slowest) + STALL_SECONDS)


@asynccontextmanager
async def read_form(request: web.Request, *, max_file_bytes: int) -> AsyncIterator[Form]:
    """The request's form with its file on disk or in memory; the file is deleted when the context ends.

    Raises what `read_parts` raises.
    """
    with tempfile.SpooledTemporaryFile(MEMORY_BYTES) as file:
        size = 0

        async def keep(chunk: bytes) -> None:
            nonlocal size
            size += len(chunk)
            if size > MEMORY_BYTES:
                await asyncio.to_thread(file.write, chunk)  # it goes to the disk now, which may take its time
            else:
                file.write(chunk)

        parts = await read_parts(request, keep, max_file_bytes=max_file_bytes)
        file.seek(0)
        yield Form(cast(BinaryIO, file), parts.size, parts.fields)


async def read_parts(
    request: web.Request, sink: Sink, *, max_file_bytes: int, check: Callable[[Parts], None] = lambda parts: None
) -> Parts:
    """Read the request's form, giving its file to `sink` as it comes.

    `check` sees the fields that came before the file when the file begins, and may refuse it by raising.

    Raises `InputTooLarge` as soon as the limit is passed (before reading, when the length is announced),
    `InputInvalid` for anything that is not a form with one part called `file`, and `UploadStalled`.
    """
    if request.content_type != "multipart/form-data":
        raise InputInvalid("Send the request as multipart/form-data with the recording in the part 'file'.")
    if (request.content_length or 0) > max_file_bytes + FRAMING_BYTES:
        raise too_large(max_file_bytes)
    parts = Parts()
    async with patience() as progress:
        try:
            await _read_parts(request, parts, sink, max_file_bytes, progress, check)
        except (ValueError, RuntimeError, AssertionError, HttpProcessingError, web.RequestPayloadError) as error:
            raise InputInvalid(f"The multipart form is malformed: {error}") from error
    if parts.size is None:
        raise InputInvalid("There is no file: send the recording as the part 'file'.", param="file")
    if parts.size == 0:
        raise InputInvalid("The file is empty: send a recording.", param="file")
    return parts


@asynccontextmanager
async def patience() -> AsyncIterator[Progress]:
    """Read an upload inside, telling the progress; raises `UploadStalled` when hardly anything comes."""
    try:
        async with asyncio.timeout(STALL_SECONDS) as timeout:
            yield Progress(timeout)
    except TimeoutError:
        raise UploadStalled(
            f"The upload stalled: nothing came for {STALL_SECONDS:g} s, or less than {LEAST_RATE} bytes a second."
        ) from None


async def _read_parts(
    request: web.Request,
    parts: Parts,
    sink: Sink,
    max_file_bytes: int,
    progress: Progress,
    check: Callable[[Parts], None],
) -> None:
    reader = await request.multipart()
    count = 0
    while (part := await reader.next()) is not None:
        count += 1
        if count > MAX_PARTS:
            raise InputInvalid(f"The form has more than {MAX_PARTS} parts.")
        if not isinstance(part, BodyPartReader) or not part.name:
            raise InputInvalid("Every part of the form needs a name, and parts cannot be nested.")
        name = part.name.removesuffix("[]")
        if name != "file":
            parts.fields.setdefault(name, []).append(await _read_text(part, name, progress))
        elif parts.size is not None:
            raise InputInvalid("Send one file a request.", param="file")
        else:
            parts.filename = part.filename or ""
            check(parts)
            parts.size = await _read_file(part, sink, max_file_bytes, progress)


async def _read_file(part: BodyPartReader, sink: Sink, max_bytes: int, progress: Progress) -> int:
    size = 0
    while chunk := await part.read_chunk(CHUNK_BYTES):
        progress.made(len(chunk))
        size += len(chunk)
        if size > max_bytes:
            raise too_large(max_bytes)
        await sink(bytes(chunk))
    return size


async def _read_text(part: BodyPartReader, name: str, progress: Progress) -> str:
    value = bytearray()
    while chunk := await part.read_chunk(FIELD_BYTES):
        progress.made(len(chunk))
        value += chunk
        if len(value) > FIELD_BYTES:
            raise InputTooLarge(f"{name} is longer than {FIELD_BYTES} bytes.", param=name)
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise InputInvalid(f"{name} is not UTF-8 text.", param=name) from None


def too_large(max_bytes: int) -> InputTooLarge:
    """The refusal of a file over the limit."""
    size = f"{max_bytes / 2**20:.0f} MiB" if max_bytes >= 2**20 else f"{max_bytes} bytes"
    return InputTooLarge(
        f"The file is larger than {size}; send it in parts or compressed (Opus, FLAC, MP3).", param="file"
    )
