"""The routes of documents: POST /v1/documents reads one, POST /v1/documents/ask answers a question about it."""

from __future__ import annotations

from aiohttp import web

from gateway.documents.handler import ask_handler, read_handler


def add_document_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_post("/v1/documents", read_handler)
    app.router.add_post("/v1/documents/ask", ask_handler)
