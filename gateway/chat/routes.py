"""Where a chat is found over HTTP."""

from __future__ import annotations

from aiohttp import web

from gateway.chat.handler import chat_handler


def add_chat_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_post("/v1/chat/completions", chat_handler)
