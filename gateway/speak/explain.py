"""POST /v1/text/explain: how a text would be read, and why: segments, tokens with the rule that made each, phonemes."""

from __future__ import annotations

from aiohttp import web


async def explain_handler(request: web.Request) -> web.Response:
    """The route."""
    raise web.HTTPNotImplemented
