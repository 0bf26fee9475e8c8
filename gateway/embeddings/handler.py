"""POST /v1/embeddings: texts, token ids or pictures in, vectors out, in the order they came in."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.embeddings.body import read_object
from gateway.embeddings.request import LANES, EmbeddingRequest, items
from gateway.http_errors import ModelNotFound
from gateway.speak.request import checked
from gateway.state import SERVICE
from gateway.transcriptions import cancelled_when_gone
from workers.errors import Draining, InputInvalid, Overloaded
from workers.task import Lane

if TYPE_CHECKING:
    from vision_text.embeddings.embedder import Embedded, Embedder

SPACE_HEADER = "X-Speechlane-Space"
LANE_HEADER = "X-Speechlane-Lane"
_INLINE = 16
"""Vectors that are written out on the event loop; more of them are in a thread."""


async def embeddings_handler(request: web.Request) -> web.Response:
    """The route. One input that cannot be embedded fails the request, which OpenAI's form has no other way to say."""
    service = request.app[SERVICE]
    try:
        with service.receiving():
            embedder = service.embeddings.embedder
            fields = await read_object(request)
            asked = checked(EmbeddingRequest, fields)
            inputs = items(asked.input)
            model = resolve(embedder, asked.model)
            lane, began = lane_of(request, asked.lane), time.monotonic()
            async with cancelled_when_gone(request):
                made = await embedder.embed(
                    inputs,
                    model=model,
                    dimensions=asked.dimensions,
                    precision=asked.precision,
                    prompt=asked.prompt,
                    lane=lane,
                    truncate=asked.truncate,
                )
            if made.errors:
                raise made.errors[min(made.errors)]
            service.metrics.embedded(lane, len(inputs), sum(made.tokens), time.monotonic() - began)
            return await _answer(made, asked.encoding_format)
    except (Overloaded, Draining) as error:
        service.metrics.refused("embedding", error.code)
        raise


def resolve(embedder: Embedder, name: str | None) -> str:
    """The loaded model for a wire name; raises `ModelNotFound`."""
    try:
        resolved: str = embedder.resolve(name)
    except InputInvalid as error:
        raise ModelNotFound(error.message, param="model") from error
    return resolved


def lane_of(request: web.Request, asked: str | None) -> Lane:
    """By the field, else by the header; else somebody waits for it. Raises InputInvalid for either."""
    header = request.headers.get(LANE_HEADER, "interactive").lower()
    for name, given in ((LANE_HEADER, header), ("lane", asked)):
        if given is not None and given not in LANES:
            raise InputInvalid(f"{name} is {given[:40]!r} and can be {' or '.join(LANES)}.", param=name)
    return LANES[asked or header]


async def _answer(made: Embedded, encoding: str) -> web.Response:
    count = len(made.vectors)
    body = _written(made, encoding) if count <= _INLINE else await asyncio.to_thread(_written, made, encoding)
    headers = {SPACE_HEADER: made.space.fingerprint}
    return web.Response(body=body, content_type="application/json", headers=headers)


def _written(made: Embedded, encoding: str) -> bytes:
    """Item by item, because a single call would keep everybody else from the interpreter until the end."""
    little = made.vectors.astype(made.vectors.dtype.newbyteorder("<"), copy=False)
    parts = []
    for n, vector in enumerate(little):
        found: Any = base64.b64encode(vector.tobytes()).decode() if encoding == "base64" else vector.tolist()
        parts.append(json.dumps({"object": "embedding", "index": n, "embedding": found}))
    total = sum(made.tokens)
    rest = {
        "model": made.space.model,
        "usage": {"prompt_tokens": total, "total_tokens": total},
        "speechlane": {
            "space": made.space.to_dict(),
            "truncated": [n for n, truncated in enumerate(made.truncated) if truncated],
        },
    }
    return f'{{"object": "list", "data": [{", ".join(parts)}], {json.dumps(rest)[1:]}'.encode()
