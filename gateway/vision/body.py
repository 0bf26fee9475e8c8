"""A body that may hold pictures and clips: read within bounds, parsed off the event loop."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from gateway.speak.fields import FieldInvalid, json_object, mended
from gateway.uploads import patience
from workers.errors import InputTooLarge

TEXT_BYTES = 1024 * 1024
"""Beside the media: prompts and everything that is not a file."""
_INLINE = 64 * 1024


async def read_object(request: web.Request, most_bytes: int, remedy: str) -> dict[str, Any]:
    """The JSON object of the body, without fields that are null. Raises `FieldInvalid`, `InputTooLarge`,
    `UploadStalled`."""
    if (request.content_length or 0) > most_bytes:
        raise _too_large(most_bytes, remedy)
    body = bytearray()
    async with patience() as progress:
        async for block in request.content.iter_chunked(256 * 1024):
            progress.made(len(block))
            body += block
            if len(body) > most_bytes:
                raise _too_large(most_bytes, remedy)
    if len(body) <= _INLINE:
        return parsed(bytes(body))
    return await asyncio.to_thread(parsed, bytes(body))


def parsed(body: bytes) -> dict[str, Any]:
    """Raises `FieldInvalid`."""
    try:
        source = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldInvalid(f"The body is not UTF-8: byte {error.start} is wrong.", code="invalid_json") from None
    found: dict[str, Any] = mended(json_object(source), source)
    return {name: value for name, value in found.items() if value is not None}


def _too_large(most_bytes: int, remedy: str) -> InputTooLarge:
    return InputTooLarge(f"The body is larger than {most_bytes} bytes; {remedy}.")
