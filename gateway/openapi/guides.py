"""The guides of docs/, where the service runs from a checkout: what WebSockets speak cannot be said in OpenAPI."""

from __future__ import annotations

from pathlib import Path

from aiohttp import web

GUIDES = {path.name: path for path in sorted((Path(__file__).parents[2] / "docs").glob("*.md"))}
"""By the name that is asked for; no other file is ever opened."""


async def guide(request: web.Request) -> web.FileResponse:
    """One of them, as it is written."""
    path = GUIDES.get(request.match_info["guide"])
    if path is None:
        raise web.HTTPNotFound
    return web.FileResponse(path, headers={"Content-Type": "text/plain; charset=utf-8"})
