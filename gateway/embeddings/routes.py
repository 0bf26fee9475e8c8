"""Where vectors are found over HTTP."""

from __future__ import annotations

from aiohttp import web

from gateway.embeddings.handler import embeddings_handler
from gateway.embeddings.rerank import rerank_handler


def add_embedding_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_post("/v1/embeddings", embeddings_handler)
    app.router.add_post("/v1/rerank", rerank_handler)
