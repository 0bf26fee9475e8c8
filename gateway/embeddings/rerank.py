"""POST /v1/rerank in Cohere's and Jina's form: documents by how well they answer a query.

By a cross-encoder where one is loaded; else by the cosine of the default model's vectors, and the answer says so.
"""

from __future__ import annotations

import time
import uuid
from typing import Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.embeddings.body import read_object
from gateway.embeddings.handler import SPACE_HEADER, lane_of
from gateway.http_errors import ModelNotFound
from gateway.speak.fields import FieldInvalid
from gateway.speak.request import checked
from gateway.state import SERVICE
from gateway.transcriptions import cancelled_when_gone
from workers.errors import Draining, InputInvalid, InputTooLarge, Overloaded

MOST_DOCUMENTS = 1000
"""Of one request, as Cohere has it."""


class RerankRequest(BaseModel):
    """A query, and the documents that may answer it."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    query: str
    documents: list[Any]
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    top_n: Annotated[int, Field(ge=1)] | None = None
    return_documents: bool = False
    truncate: bool = True
    """Rerankers leave out the end of long documents; `truncated` in the answer says of which. False: refuse them."""
    lane: str | None = None


async def rerank_handler(request: web.Request) -> web.Response:
    """The route. Results come best first, each with its place among the documents as `index`."""
    service = request.app[SERVICE]
    try:
        with service.receiving():
            embedder = service.embeddings.embedder
            asked = checked(RerankRequest, await read_object(request))
            texts = _texts(asked.documents)
            lane, began = lane_of(request, asked.lane), time.monotonic()
            try:
                async with cancelled_when_gone(request):
                    ranked = await embedder.rerank(
                        asked.query, texts, model=asked.model, lane=lane, truncate=asked.truncate
                    )
            except InputInvalid as error:
                raise ModelNotFound(error.message, param="model") if error.param == "model" else error from error
            service.metrics.embedded(lane, len(texts) + 1, ranked.tokens, time.monotonic() - began)
    except (Overloaded, Draining) as error:
        service.metrics.refused("embedding", error.code)
        raise
    best = sorted(range(len(texts)), key=lambda n: (-ranked.scores[n], n))[: asked.top_n]
    results = [
        {"index": n, "relevance_score": ranked.scores[n]}
        | ({"document": {"text": texts[n]}} if asked.return_documents else {})
        for n in best
    ]
    body = {
        "id": str(uuid.uuid4()),
        "object": "list",
        "model": ranked.model,
        "results": results,
        "usage": {"prompt_tokens": ranked.tokens, "total_tokens": ranked.tokens},
        "meta": {"api_version": {"version": "2"}, "billed_units": {"search_units": 1}},
        "speechlane": {"method": ranked.method, "truncated": ranked.truncated},
    }
    headers = {SPACE_HEADER: ranked.space.fingerprint} if ranked.space is not None else {}
    return web.json_response(body, headers=headers)


def _texts(documents: list[Any]) -> list[str]:
    if not documents:
        raise FieldInvalid("documents is an empty list; give at least one.", code="invalid_value", param="documents")
    if len(documents) > MOST_DOCUMENTS:
        raise InputTooLarge(
            f"documents has {len(documents)} items and can have {MOST_DOCUMENTS}; send several requests",
            param="documents",
        )
    texts = []
    for n, document in enumerate(documents):
        text = document.get("text") if isinstance(document, dict) else document
        if not isinstance(text, str):
            name = f"documents[{n}]"
            raise FieldInvalid(f'{name} should be a text or {{"text": ...}}.', code="invalid_type", param=name)
        texts.append(text)
    return texts
