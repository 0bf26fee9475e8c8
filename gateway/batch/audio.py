"""GET /v1/batch/jobs/{id}/audio: the file that was submitted, whole or by range, never as anything a browser runs."""

from __future__ import annotations

import re
from typing import BinaryIO

from aiohttp import web

from gateway.batch.jobs import attachment, find
from gateway.batch.lane import Lane
from gateway.state import SERVICE

PIECE_BYTES = 512 * 1024

# What players need to be told; everything else is bytes.
TYPES = {
    "aac": "audio/aac",
    "aif": "audio/aiff",
    "aiff": "audio/aiff",
    "avi": "video/x-msvideo",
    "flac": "audio/flac",
    "m4a": "audio/mp4",
    "m4b": "audio/mp4",
    "mka": "audio/x-matroska",
    "mkv": "video/x-matroska",
    "mov": "video/quicktime",
    "mp3": "audio/mpeg",
    "mp4": "video/mp4",
    "oga": "audio/ogg",
    "ogg": "audio/ogg",
    "ogv": "video/ogg",
    "opus": "audio/ogg",
    "wav": "audio/wav",
    "weba": "audio/webm",
    "webm": "video/webm",
}
BYTES = "application/octet-stream"

_RANGE = re.compile(r"bytes=(\d{0,18})-(\d{0,18})")


async def audio(request: web.Request) -> web.StreamResponse:
    """200 with all, 206 with the range that was asked for, 416 for one outside the file."""
    job, lane = await find(request), request.app[SERVICE].batch
    file: BinaryIO = await lane.call(lane.jobs.source, job.id)
    try:
        size = await lane.disk(lambda: file.seek(0, 2))
        tag = f'"{job.source}"'
        headers = {
            "Content-Type": TYPES.get(job.name.rpartition(".")[2].lower(), BYTES),
            "Content-Disposition": attachment(job.name),
            "X-Content-Type-Options": "nosniff",
            "Content-Security-Policy": "default-src 'none'; sandbox",
            "Cross-Origin-Resource-Policy": "same-origin",
            "Cache-Control": "private, no-cache",
            "Accept-Ranges": "bytes",
            "ETag": tag,
        }
        if request.headers.get("If-None-Match") in (tag, "*"):
            return web.Response(status=304, headers={"ETag": tag, "Cache-Control": headers["Cache-Control"]})
        span = None
        if request.headers.get("If-Range", tag) == tag:
            span = parse_range(request.headers.get("Range", ""), size)
        if span == (0, 0):
            headers = {"Content-Range": f"bytes */{size}", "X-Content-Type-Options": "nosniff"}
            return web.Response(status=416, headers=headers)
        first, end = span or (0, size)
        if span is not None:
            headers["Content-Range"] = f"bytes {first}-{end - 1}/{size}"
        response = web.StreamResponse(status=200 if span is None else 206, headers=headers)
        response.content_length = end - first
        await response.prepare(request)
        if request.method != "HEAD":
            await _copy(lane, file, first, end, response)
        await response.write_eof()
        return response
    finally:
        await lane.disk(file.close)


def parse_range(header: str, size: int) -> tuple[int, int] | None:
    """Bytes [first, end) that a Range header asks for. None: all of it (no range, more than one, or nonsense).

    (0, 0): none of these bytes is there.
    """
    found = _RANGE.fullmatch(header.replace(" ", ""))
    if found is None or found.group(1, 2) == ("", ""):
        return None
    first, last = found.group(1, 2)
    if not first:
        length = min(int(last), size)
        return (size - length, size) if length else (0, 0)
    if int(first) >= size:
        return 0, 0
    if not last:
        return int(first), size
    return (int(first), min(int(last) + 1, size)) if int(last) >= int(first) else None


async def _copy(lane: Lane, file: BinaryIO, at: int, end: int, response: web.StreamResponse) -> None:
    await lane.disk(file.seek, at)
    while at < end:
        piece = await lane.disk(file.read, min(PIECE_BYTES, end - at))
        if not piece:
            raise ConnectionResetError("the file ended early")  # the client sees a body that is too short
        await response.write(piece)
        at += len(piece)
