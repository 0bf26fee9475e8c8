"""Which paths of Deepgram are served here."""

from __future__ import annotations

from aiohttp import web

from gateway.deepgram.errors import PATH
from gateway.deepgram.handler import listen
from gateway.deepgram.prerecorded import transcribe


def add_deepgram_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_get(PATH, listen)
    app.router.add_post(PATH, transcribe)
