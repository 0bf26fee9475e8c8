"""A body that may hold pictures and clips: read within bounds, parsed off the event loop.

Files in a body are taken out of it before it is parsed. To go through a string of many megabytes takes the parser long,
and nobody else gets the interpreter meanwhile, not even who is speaking.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Any

from aiohttp import web

from gateway.speak.fields import FieldInvalid, json_object, mended
from gateway.uploads import patience
from gateway.vision.in_hand import Claim
from workers.errors import InputTooLarge

TEXT_BYTES = 1024 * 1024
"""Beside the media: prompts and everything that is not a file."""
_INLINE = 64 * 1024
_START = b'"data:'
_LONG = 32 * 1024


async def read_object(request: web.Request, most_bytes: int, remedy: str, claim: Claim | None = None) -> dict[str, Any]:
    """The JSON object of the body, without fields that are null; `claim` holds its bytes. Raises `FieldInvalid`,
    `InputTooLarge`, `UploadStalled`, `Overloaded`."""
    if (request.content_length or 0) > most_bytes:
        raise _too_large(most_bytes, remedy)
    body = bytearray()
    async with patience() as progress:
        async for block in request.content.iter_chunked(256 * 1024):
            progress.made(len(block))
            if claim is not None:
                claim.add(len(block))
            body += block
            if len(body) > most_bytes:
                raise _too_large(most_bytes, remedy)
    if len(body) <= _INLINE:
        return parsed(body)
    return await asyncio.to_thread(parsed, body)


def parsed(body: bytes | bytearray) -> dict[str, Any]:
    """Raises `FieldInvalid`."""
    rest, files = _taken_out(body)
    try:
        source = rest.decode("utf-8")
    except UnicodeDecodeError as error:
        raise FieldInvalid(f"The body is not UTF-8: byte {error.start} is wrong.", code="invalid_json") from None
    found: dict[str, Any] = mended(json_object(source), source)
    if files:
        try:
            found = _put_back(found, files)
        except RecursionError:
            raise FieldInvalid("This is JSON within JSON, too many times.", code="invalid_json") from None
    return {name: value for name, value in found.items() if value is not None}


def _taken_out(body: bytes | bytearray) -> tuple[bytes | bytearray, dict[str, str]]:
    """The body with a short string in the place of each long data URL, and what each of them stands for."""
    pieces: list[bytes | memoryview] = []
    whole = memoryview(body)
    files: dict[str, str] = {}
    at = 0
    mark = secrets.token_hex(16)
    start = body.find(_START)
    while start >= 0:
        end = body.find(b'"', start + 1)
        if end < 0:
            break
        # An escape is for the parser; a quote behind a backslash does not begin a string.
        plain = body[start - 1 : start] != b"\\" and body.find(b"\\", start, end) < 0
        if plain and end - start > _LONG:
            name = f"{mark}-{len(files)}"
            try:
                files[name] = str(whole[start + 1 : end], "ascii")
            except UnicodeDecodeError:
                break  # which is said of the body as it is
            pieces += [whole[at : start + 1], name.encode()]
            at = end
        start = body.find(_START, end)
    return (b"".join([*pieces, whole[at:]]) if files else body), files


def _put_back(value: Any, files: dict[str, str]) -> Any:
    if isinstance(value, str):
        return files.get(value, value)
    if isinstance(value, list):
        return [_put_back(entry, files) for entry in value]
    if isinstance(value, dict):
        return {files.get(name, name): _put_back(entry, files) for name, entry in value.items()}
    return value


def _too_large(most_bytes: int, remedy: str) -> InputTooLarge:
    return InputTooLarge(f"The body is larger than {most_bytes} bytes; {remedy}.")
