"""Where videos are made and found over HTTP."""

from __future__ import annotations

from aiohttp import web

from gateway.videos.handler import content, create, delete, events, listing, show

VIDEO_ID = "[A-Za-z0-9_-]{1,64}"
VIDEOS = "/v1/videos"
VIDEO = f"{VIDEOS}/{{video:{VIDEO_ID}}}"


def add_video_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    router = app.router
    router.add_post(VIDEOS, create)
    router.add_get(VIDEOS, listing)
    router.add_get(VIDEO, show)
    router.add_delete(VIDEO, delete)
    router.add_get(f"{VIDEO}/content", content)
    router.add_get(f"{VIDEO}/events", events, allow_head=False)
