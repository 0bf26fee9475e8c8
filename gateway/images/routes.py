"""Where pictures are made over HTTP."""

from __future__ import annotations

from aiohttp import web

from gateway.images.handler import image_handler


def add_image_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_post("/v1/images/generations", image_handler)
