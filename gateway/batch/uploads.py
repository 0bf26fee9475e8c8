"""/v1/batch/uploads: files that may come in several requests, by the tus protocol 1.0.0.

Core, creation, expiration, termination and checksum (https://tus.io/protocols/resumable-upload).
"""

from __future__ import annotations

import asyncio
import base64
import re
from collections.abc import Awaitable, Callable
from email.utils import formatdate

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from gateway.auth import IDENTITY
from gateway.batch.errors import OffsetConflict, WrongType, WrongVersion
from gateway.batch.lane import Lane
from gateway.batch.upload_store import CHECKSUMS, PIECE_BYTES, Checksum, Upload, Writer
from gateway.state import SERVICE
from gateway.uploads import patience, too_large
from workers.errors import InputInvalid

PATH = "/v1/batch/uploads"
VERSION = "1.0.0"
EXTENSIONS = "creation,expiration,termination,checksum"
BODY_TYPE = "application/offset+octet-stream"
METADATA_CHARACTERS = 4096

_KEY = re.compile(r"[\x21-\x2b\x2d-\x7e]+")
_NUMBER = re.compile(r"\d{1,18}")

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


def add_routes(router: web.UrlDispatcher) -> None:
    """Everything under /v1/batch/uploads."""
    router.add_route("OPTIONS", PATH, options)
    router.add_route("OPTIONS", PATH + "/{upload}", options)
    router.add_post(PATH, _versioned(create))
    router.add_head(PATH + "/{upload}", _versioned(head))
    router.add_patch(PATH + "/{upload}", _versioned(patch))
    router.add_delete(PATH + "/{upload}", _versioned(delete))
    router.add_post(PATH + "/{upload}", _versioned(overridden))


async def sign_version(request: web.Request, response: web.StreamResponse) -> None:
    """Every answer of these routes says which version of the protocol it speaks, refusals as well."""
    if request.path.startswith(PATH):
        response.headers["Tus-Resumable"] = VERSION
        if response.status == 412:
            response.headers["Tus-Version"] = VERSION


def _versioned(handler: Handler) -> Handler:
    async def checked(request: web.Request) -> web.StreamResponse:
        if request.headers.get("Tus-Resumable") != VERSION:
            raise WrongVersion(f"Send the header Tus-Resumable: {VERSION}.", param="Tus-Resumable")
        return await handler(request)

    return checked


async def options(request: web.Request) -> web.Response:
    """What this server can do."""
    headers = {
        "Tus-Version": VERSION,
        "Tus-Extension": EXTENSIONS,
        "Tus-Max-Size": str(request.app[SERVICE].settings.batch_max_file_bytes),
        "Tus-Checksum-Algorithm": ",".join(CHECKSUMS),
    }
    return web.Response(status=204, headers=headers)


async def create(request: web.Request) -> web.Response:
    """A new upload of an announced length; its address is in Location."""
    service = request.app[SERVICE]
    service.refuse_when_draining()
    if "Upload-Defer-Length" in request.headers:
        raise InputInvalid("Send Upload-Length at once; it cannot be given later.", param="Upload-Defer-Length")
    length = _number(request, "Upload-Length")
    if length > service.settings.batch_max_file_bytes:
        raise too_large(service.settings.batch_max_file_bytes)
    metadata = request.headers.get("Upload-Metadata", "")
    parse_metadata(metadata)
    store = service.batch.uploads
    upload = await service.batch.disk(store.create, length, metadata, request[IDENTITY].owner)
    headers = {"Location": f"{PATH}/{upload.name}", "Upload-Expires": await _expires(service.batch, upload)}
    return web.Response(status=201, headers=headers)


async def head(request: web.Request) -> web.Response:
    """How much has come."""
    lane = request.app[SERVICE].batch
    upload = await lane.disk(lane.uploads.get, request.match_info["upload"], request[IDENTITY].owner)
    headers = {
        "Upload-Offset": str(await lane.disk(lane.uploads.offset, upload)),
        "Upload-Length": str(upload.length),
        "Upload-Expires": await _expires(lane, upload),
        "Cache-Control": "no-store",
    }
    if upload.metadata:
        headers["Upload-Metadata"] = upload.metadata
    return web.Response(headers=headers)


async def patch(request: web.Request) -> web.Response:
    """More bytes. What came of a request that breaks off is kept, unless it was to have a checksum."""
    service = request.app[SERVICE]
    service.refuse_when_draining()
    if request.content_type != BODY_TYPE:
        raise WrongType(f"Send the bytes as Content-Type: {BODY_TYPE}.", param="Content-Type")
    offset = _number(request, "Upload-Offset")
    checksum = _checksum(request)
    lane = service.batch
    writer = await lane.disk(lane.uploads.open, request.match_info["upload"], request[IDENTITY].owner)
    try:
        if writer.upload.job is not None:
            raise OffsetConflict("A job was made of this upload already.", param="Upload-Offset")
        if offset != writer.offset:
            raise OffsetConflict(
                f"The upload is at offset {writer.offset}, not {offset}; ask with HEAD and go on from there.",
                param="Upload-Offset",
            )
        if (request.content_length or 0) > writer.upload.length - offset:
            raise too_large(writer.upload.length)
        await _receive(request, lane, writer, checksum)
        reached = writer.offset
    finally:
        # Also when this request is cancelled: what came is to be on disk, and the lock free.
        await asyncio.shield(lane.disk(writer.close))
    headers = {"Upload-Offset": str(reached), "Upload-Expires": await _expires(lane, writer.upload)}
    return web.Response(status=204, headers=headers)


async def _receive(request: web.Request, lane: Lane, writer: Writer, checksum: Checksum | None) -> None:
    if checksum is not None:
        await lane.disk(writer.expect, checksum)
    async with patience() as progress:
        try:
            while piece := await request.content.read(PIECE_BYTES):
                progress.made(len(piece))
                if writer.offset + len(piece) > writer.upload.length:
                    raise too_large(writer.upload.length)
                await lane.disk(writer.write, piece)
        except (HttpProcessingError, web.RequestPayloadError) as error:
            raise InputInvalid(f"The body is malformed: {error}") from error
    await lane.disk(writer.prove)


async def delete(request: web.Request) -> web.Response:
    """Give an upload up."""
    lane = request.app[SERVICE].batch

    def remove() -> None:
        with lane.uploads.open(request.match_info["upload"], request[IDENTITY].owner) as writer:
            writer.remove()

    await lane.disk(remove)
    return web.Response(status=204)


async def overridden(request: web.Request) -> web.StreamResponse:
    """POST in place of a method that something on the way does not let through."""
    method = request.headers.get("X-HTTP-Method-Override", "").upper()
    if method == "PATCH":
        return await patch(request)
    if method == "DELETE":
        return await delete(request)
    raise web.HTTPMethodNotAllowed("POST", ["DELETE", "HEAD", "OPTIONS", "PATCH"])


def parse_metadata(header: str) -> dict[str, str]:
    """Upload-Metadata as text by key; raises `InputInvalid`. A key without a value has the value ""."""
    if len(header) > METADATA_CHARACTERS:
        raise InputInvalid(f"Upload-Metadata is longer than {METADATA_CHARACTERS}.", param="Upload-Metadata")
    found: dict[str, str] = {}
    for pair in header.split(",") if header.strip() else ():
        key, _, value = pair.strip().partition(" ")
        try:
            text = base64.b64decode(value.strip(), validate=True).decode("utf-8")
        except ValueError:  # no base64, no UTF-8, or a header that is not ASCII
            text = None
        if text is None or not _KEY.fullmatch(key) or key in found:
            raise InputInvalid(
                "Upload-Metadata is a list with commas of a key, a space and base64 of UTF-8 text, each key once.",
                param="Upload-Metadata",
            )
        found[key] = text
    return found


def _number(request: web.Request, name: str) -> int:
    text = request.headers.get(name, "")
    if not _NUMBER.fullmatch(text):
        raise InputInvalid(f"{name} must be a number of bytes.", param=name)
    return int(text)


def _checksum(request: web.Request) -> Checksum | None:
    header = request.headers.get("Upload-Checksum")
    if header is None:
        return None
    algorithm, _, value = header.partition(" ")
    if algorithm not in CHECKSUMS:
        raise InputInvalid(f"Upload-Checksum can be {', '.join(CHECKSUMS)}.", param="Upload-Checksum")
    try:
        return Checksum(algorithm, base64.b64decode(value.strip(), validate=True))
    except ValueError:
        raise InputInvalid("Upload-Checksum is an algorithm, a space and base64.", param="Upload-Checksum") from None


async def _expires(lane: Lane, upload: Upload) -> str:
    return formatdate(await lane.disk(lane.uploads.expires, upload), usegmt=True)
