"""The routes of this package."""

from __future__ import annotations

from aiohttp import web

from gateway.collections import handlers
from gateway.collections.search import search, search_transcripts
from gateway.collections.views import COLLECTIONS, SEARCH, SEARCH_TRANSCRIPTS

NAME = "[A-Za-z0-9][A-Za-z0-9._-]{0,63}"


def add_collection_routes(app: web.Application) -> None:
    """Add them."""
    one = f"{COLLECTIONS}/{{collection:{NAME}}}"
    app.router.add_get(COLLECTIONS, handlers.listing)
    app.router.add_post(COLLECTIONS, handlers.create)
    app.router.add_get(one, handlers.show)
    app.router.add_delete(one, handlers.drop)
    app.router.add_post(f"{one}/documents", handlers.put)
    app.router.add_post(f"{one}/documents/delete", handlers.remove)
    app.router.add_post(SEARCH, search)
    app.router.add_post(SEARCH_TRANSCRIPTS, search_transcripts)
