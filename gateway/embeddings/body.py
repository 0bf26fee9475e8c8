"""A body with many texts, read and parsed without holding up who speaks meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from aiohttp import web

from gateway.speak.fields import FieldInvalid, json_object, mended
from gateway.uploads import UploadStalled
from workers.errors import InputTooLarge

BODY_BYTES = 8 * 1024 * 1024
BODY_SECONDS = 60.0
_INLINE = 64 * 1024


async def read_object(request: web.Request) -> dict[str, Any]:
    """The JSON object of the body. Raises `FieldInvalid`, `InputTooLarge`, `UploadStalled`."""
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for block in request.content.iter_chunked(64 * 1024):
                body += block
                if len(body) > BODY_BYTES:
                    raise InputTooLarge(
                        f"The body is larger than {BODY_BYTES} bytes; send fewer or shorter texts in a request.",
                        param="input",
                    )
    except TimeoutError:
        raise UploadStalled(f"The body did not come within {BODY_SECONDS:g} s.") from None
    if len(body) <= _INLINE:
        return _parsed(bytes(body))
    return await asyncio.to_thread(_parsed, bytes(body))


def _parsed(body: bytes) -> dict[str, Any]:
    try:
        source = body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldInvalid(f"The body is not UTF-8: byte {error.start} is wrong.", code="invalid_json") from None
    found: dict[str, Any] = mended(json_object(source), source)
    return {name: value for name, value in found.items() if value is not None}
