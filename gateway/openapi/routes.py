"""GET /openapi.json, /docs, and the guides beside them."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

from aiohttp import web

from gateway.openapi.guides import guide
from gateway.openapi.here import Here
from gateway.pages import WEB
from gateway.state import SERVICE

DOCUMENTS = web.AppKey("openapi_documents", dict[bool, Any])
"""As it was put together while the models were loading, and since they are loaded: what is loaded stays so."""


def add_openapi_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app[DOCUMENTS] = {}
    app.router.add_get("/openapi.json", publish)
    app.router.add_get("/docs", page)
    app.router.add_get("/docs/{guide}", guide)


async def publish(request: web.Request) -> web.Response:
    """The document of this service, with its limits and what is loaded in it."""
    here, made = Here.of(request.app[SERVICE]), request.app[DOCUMENTS]
    if here.loaded not in made:
        made[here.loaded] = await asyncio.to_thread(_document, here)
    return web.json_response(made[here.loaded], headers={"Cache-Control": "no-cache"})


async def page(request: web.Request) -> web.FileResponse:
    """The page to read it."""
    return web.FileResponse(WEB / "docs.html")


def _document(here: Here) -> Any:
    # What describes the routes takes its time to import, and only who reads it needs it.
    return importlib.import_module("gateway.openapi.document").document(here)
