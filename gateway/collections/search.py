"""POST /v1/search: by meaning, by words, or by both."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.collections.handlers import opened
from gateway.collections.request import SearchRequest
from gateway.collections.views import TRANSCRIPTS, hit_body
from gateway.embeddings.body import read_object
from gateway.speak.request import checked
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from workers.errors import Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from vision_text.embeddings.space import Space
    from vision_text.store.collection import Collection

SPACE_HEADER = "X-Speechlane-Space"


async def search(request: web.Request) -> web.Response:
    """The best pieces, the best first. `mode` in the answer says how they were found."""
    return await _search(request, None)


async def search_transcripts(request: web.Request) -> web.Response:
    """The same in the transcripts of finished jobs, for whoever may see these."""
    return await _search(request, TRANSCRIPTS)


async def _search(request: web.Request, name: str | None) -> web.Response:
    """In the collection of that name, or in the one that the body names."""
    from vision_text.store.errors import CollectionNotFound
    from vision_text.store.filters import parse_filter

    service = request.app[SERVICE]
    try:
        with service.receiving():
            fields = await read_object(request)
            asked = checked(SearchRequest, fields if name is None else {**fields, "collection": name})
            if asked.query is None and asked.vector is None:
                raise InputInvalid("Nothing is searched for: give a query, or a vector with its space.", param="query")
            try:
                collection = await opened(request, asked.collection)
            except CollectionNotFound:
                if name is None:
                    raise
                return web.json_response({"object": "list", "collection": name, "mode": asked.mode, "data": []})
            where = parse_filter(asked.filter, collection.info.filterable)
            async with cancelled_when_gone(request):
                mode, vector, space = await _vector(service, collection, asked)
                hits = await service.collections.call(
                    collection.search,
                    vector=vector,
                    space=space,
                    words=asked.query if mode in ("hybrid", "words") else None,
                    where=where,
                    limit=asked.limit,
                )
    except (Overloaded, Draining) as error:
        service.metrics.refused("search", error.code)
        raise
    return web.json_response(
        {
            "object": "list",
            "collection": asked.collection,
            "mode": mode,
            "space": collection.space.fingerprint,
            "data": [hit_body(hit, asked.collection) for hit in hits],
        },
        headers={SPACE_HEADER: collection.space.fingerprint},
    )


async def _vector(service: Service, collection: Collection, asked: SearchRequest) -> tuple[str, Any, Space | None]:
    """How to search, and the vector with its space where there is one."""
    mode = asked.mode
    if asked.vector is not None:
        if mode == "words":
            raise InputInvalid("A search for words takes no vector; leave it out.", param="vector")
        if mode == "hybrid" and asked.query is None:
            raise InputInvalid("A hybrid search has a query beside the vector.", param="query")
        found = "vector" if asked.query is None or mode == "vector" else "hybrid"
        return found, *_given(collection, asked)
    assert asked.query is not None
    if mode == "words":
        return "words", None, None
    from vision_text.ingest.embedding import query_vector

    try:
        vector, space = await query_vector(service.embeddings.embedder, collection.space, asked.query)
    except ServingError as error:
        # Whoever did not ask for a way of searching is served without vectors while there can be none.
        if mode == "auto" and (error.status >= 500 or error.param == "model"):
            return "words", None, None
        raise
    return ("vector" if mode == "vector" else "hybrid"), vector, space


def _given(collection: Collection, asked: SearchRequest) -> tuple[Any, Space]:
    """A vector that the client has made. It names the space by fingerprint, which is that of a query here or is not."""
    import numpy as np

    from vision_text.embeddings.space import SpaceMismatch
    from vision_text.store.scoring import as_floats

    wide = as_floats(collection.space)
    if asked.space != wide.fingerprint:
        told = f"is of the space {asked.space!r}" if asked.space else "comes without its space"
        raise SpaceMismatch(
            f"Cannot query the collection {collection.info.name!r}: the vector {told}, and the collection answers to "
            f"{wide.fingerprint} (model {wide.model!r}, {wide.dimensions} dimensions, float32). Vectors of two spaces "
            "cannot be compared even where their lengths are equal; send the query's text instead, or the fingerprint "
            "that /v1/embeddings gave with the vector.",
            param="space",
        )
    return np.asarray(asked.vector, np.float32), wide
