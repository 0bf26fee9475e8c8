"""GET /openapi.json, /docs, and the guides beside them."""

from __future__ import annotations

import asyncio
import importlib
import json

from aiohttp import web

from gateway.openapi.guides import guide
from gateway.openapi.here import Here
from gateway.pages import WEB
from gateway.state import SERVICE

DOCUMENT = web.AppKey("openapi_document", list[str])
"""As it was put together when everything was loaded, which stays so."""


def add_openapi_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app[DOCUMENT] = []
    app.router.add_get("/openapi.json", publish)
    app.router.add_get("/docs", page)
    app.router.add_get("/docs/{guide}", guide)


async def publish(request: web.Request) -> web.Response:
    """The document of this service, with its limits and what is loaded in it."""
    here, kept = Here.of(request.app[SERVICE]), request.app[DOCUMENT]
    made = kept[0] if kept else await asyncio.to_thread(_document, here)
    if here.loaded and not kept:
        kept.append(made)
    return web.Response(text=made, content_type="application/json", headers={"Cache-Control": "no-cache"})


async def page(request: web.Request) -> web.FileResponse:
    """The page to read it."""
    return web.FileResponse(WEB / "docs.html")


def _document(here: Here) -> str:
    # What describes the routes takes its time to import, and only who reads it needs it.
    return json.dumps(importlib.import_module("gateway.openapi.document").document(here))
