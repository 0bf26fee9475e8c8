"""/v1/videos: create, look, watch, fetch, delete. A key sees its own videos."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.chat.handler import LANES
from gateway.fields import choice, nothing_else, number, one
from gateway.speak.fields import FieldInvalid
from gateway.state import SERVICE
from gateway.transcriptions import cancelled_when_gone
from gateway.videos.request import VideoRequest, read_request
from gateway.videos.store import Video
from gateway.videos.views import video_view
from gateway.vision.asked import asked_of, new_seed
from gateway.vision.names import on_the_wire
from gateway.vision.server_sent import EventStream
from vision_text.media.encode import CLIP_TYPE, picture_file
from workers.errors import Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from vision_text.denoise.request import Asked
    from vision_text.videos.filmer import Filmer

MOST_LISTED, LISTED = 100, 20
VARIANTS = ("video", "thumbnail")
ORDERS = ("desc", "asc")
DEFAULT_FPS = 8.0


async def create(request: web.Request) -> web.Response:
    """A new video, which is made in the background."""
    service = request.app[SERVICE]
    rooms = service.vision
    try:
        rooms.videos.resolve(None)  # a service without them says so before it reads the body
        with service.receiving():
            asked = await read_request(request)
            model = rooms.videos.resolve(asked.model)
            filmer = await rooms.videos.get(asked.model)
            rooms.check(filmer, model, "video", asked.options)
            frames, fps = length(filmer.info, asked)
            seed = asked.seed if asked.seed is not None else new_seed()
            wanted = asked_of(filmer.info, asked, asked.size, seed, frames=frames, fps=fps, previews=asked.previews)
            possible(filmer, wanted)
            video = service.videos.create(_owner(request), model, wanted, filmer, LANES[asked.lane])
        return web.json_response(video_view(video), headers={"Location": f"/v1/videos/{video.id}"})
    except (Overloaded, Draining) as error:
        service.metrics.refused("video", error.code)
        raise


def possible(filmer: Filmer, wanted: Asked) -> None:
    """Raises what the model has against it, before it waits its turn; the field is named as it is on the wire."""
    try:
        filmer.backends[0].open(wanted)
    except ServingError as error:
        raise on_the_wire(error) from None


def length(info: Any, asked: VideoRequest) -> tuple[int, float]:
    """Frames, and how many of them a second. Raises InputInvalid."""
    fps = asked.fps if asked.fps is not None else float(getattr(info, "default_fps", DEFAULT_FPS))
    if asked.frames is not None:
        frames, field = asked.frames, "frames"
    elif asked.seconds is not None:
        frames, field = max(1, round(asked.seconds * fps)), "seconds"
    else:
        frames, field = int(getattr(info, "default_frames", info.max_frames)), "frames"
    if frames > info.max_frames:
        raise InputInvalid(
            f"{field} asks for {frames} frames; this model makes up to {info.max_frames}, "
            f"which at {fps:g} a second are {info.max_frames / fps:g} s.",
            param=field,
        )
    return frames, fps


async def listing(request: web.Request) -> web.Response:
    """One's own videos, a page at a time."""
    fields = {name: request.query.getall(name) for name in request.query}
    limit = int(number(fields, "limit", 1, MOST_LISTED, LISTED))
    after, order = one(fields, "after"), choice(fields, "order", ORDERS, "desc")
    nothing_else(fields)
    videos = request.app[SERVICE].videos.listed(_owner(request))
    if order == "asc":
        videos.reverse()
    if after:
        ids = [video.id for video in videos]
        if after not in ids:
            raise InputInvalid(f"after is {after[:60]!r}, which is none of these videos.", param="after")
        videos = videos[ids.index(after) + 1 :]
    page = [video_view(video) for video in videos[:limit]]
    return web.json_response(
        {
            "object": "list",
            "data": page,
            "first_id": page[0]["id"] if page else None,
            "last_id": page[-1]["id"] if page else None,
            "has_more": len(videos) > limit,
        }
    )


async def show(request: web.Request) -> web.Response:
    """One video as it is now."""
    return web.json_response(video_view(_video(request)))


async def delete(request: web.Request) -> web.Response:
    """Stop and forget it."""
    video = _video(request)
    await request.app[SERVICE].videos.delete(video)
    return web.json_response({"id": video.id, "object": "video.deleted", "deleted": True})


async def content(request: web.Request) -> web.StreamResponse:
    """The MP4, whole or by range, or a picture of it."""
    variant = request.query.get("variant") or "video"
    if variant not in VARIANTS:
        raise FieldInvalid(
            f"variant is {variant[:40]!r} and can be {' or '.join(VARIANTS)}.", code="invalid_value", param="variant"
        )
    video, videos = _video(request), request.app[SERVICE].videos
    path = videos.file(video)
    if variant == "thumbnail":
        assert video.made is not None
        data = await asyncio.to_thread(picture_file, video.made.frames[0])
        return web.Response(body=data, content_type="image/png")
    name = f'attachment; filename="{video.id}.mp4"'
    return web.FileResponse(path, headers={"Content-Type": CLIP_TYPE, "Content-Disposition": name})


async def events(request: web.Request) -> web.StreamResponse:
    """`video` now and at every change until it has ended; `deleted` when it goes before."""
    service, video = request.app[SERVICE], _video(request)
    async with cancelled_when_gone(request), aclosing(service.videos.watch(video)) as changes:
        stream = await EventStream.open(request)
        async for now in changes:
            kind = "deleted" if now.gone else "video"
            view = (
                {"id": now.id, "object": "video.deleted", "deleted": True}
                if now.gone
                else video_view(now, preview=True)
            )
            await stream.send(view, kind)
        return await stream.end()


def _owner(request: web.Request) -> str:
    return request[IDENTITY].owner


def _video(request: web.Request) -> Video:
    return request.app[SERVICE].videos.find(_owner(request), request.match_info["video"])
