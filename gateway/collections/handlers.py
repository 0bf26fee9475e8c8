"""/v1/collections: make, list, fill, empty and drop one's own."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.collections.request import CreateRequest, DeleteRequest, DocumentBody, PutRequest
from gateway.collections.views import TRANSCRIPTS, collection_body
from gateway.embeddings.body import read_object
from gateway.embeddings.handler import resolve
from gateway.speak.request import checked
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from workers.errors import InputInvalid, ServingError

if TYPE_CHECKING:
    from vision_text.ingest.document import Document
    from vision_text.store.collection import Collection
    from vision_text.store.rows import CollectionInfo, Piece


MOST_COLLECTIONS = 1000
"""Of one key. More documents in fewer of them are found as fast."""


class KeptByService(InputInvalid):
    """The collection holds what the service itself puts there."""

    code = "collection_is_kept"
    status = 409

    def __init__(self) -> None:
        super().__init__(
            f"{TRANSCRIPTS!r} is kept by the service: finished jobs come into it by themselves. Choose another name.",
            param="collection",
        )


class TooMany(InputInvalid):
    """A key has so many collections and no more."""

    code = "too_many_collections"
    status = 409

    def __init__(self) -> None:
        super().__init__(f"There are {MOST_COLLECTIONS} collections, which is the most; drop one first.", param="name")


async def create(request: web.Request) -> web.Response:
    """201 with the new collection."""
    from vision_text.ingest.embedding import calibration, document_space

    service, owner = request.app[SERVICE], request[IDENTITY].owner
    service.refuse_when_draining()
    asked = checked(CreateRequest, await read_object(request))
    if asked.name == TRANSCRIPTS:
        raise KeptByService
    embedder = service.embeddings.embedder
    model = resolve(embedder, asked.model)
    space = document_space(embedder, model, asked.dimensions, asked.precision)
    ranges = calibration(space)
    store = await service.collections.store()
    if len(await service.collections.call(store.list, owner)) >= MOST_COLLECTIONS:
        raise TooMany
    made = await service.collections.call(
        store.create, asked.name, space, dict(asked.fields), owner=owner, ranges=ranges
    )
    return web.json_response(collection_body(made.info, (0, 0)), status=201)


async def listing(request: web.Request) -> web.Response:
    """One's own collections, by name."""
    place, owner = request.app[SERVICE].collections, request[IDENTITY].owner
    found: list[CollectionInfo] = await place.call((await place.store()).list, owner)
    return web.json_response({"object": "list", "data": [collection_body(info) for info in found]})


async def show(request: web.Request) -> web.Response:
    """The collection with what is in it."""
    place = request.app[SERVICE].collections
    found = await opened(request)
    counts = await place.call(lambda: (found.documents(), found.count()))
    return web.json_response(collection_body(found.info, counts))


async def drop(request: web.Request) -> web.Response:
    """It goes with everything in it."""
    place = request.app[SERVICE].collections
    store, name = await place.store(), request.match_info["collection"]
    await place.call(store.drop, name, owner=request[IDENTITY].owner)
    return web.Response(status=204)


async def put(request: web.Request) -> web.Response:
    """What became of the documents. One that cannot be stored is in `errors`, and disturbs no other."""
    from vision_text.ingest.embedding import LocalEmbeds
    from vision_text.ingest.pipeline import embed_documents

    service, owner = request.app[SERVICE], request[IDENTITY].owner
    name = request.match_info["collection"]
    if name == TRANSCRIPTS:
        raise KeptByService
    with ExitStack() as held:
        held.enter_context(service.receiving())
        held.enter_context(service.collections.writers.hold(owner))
        embedder = service.embeddings.embedder
        asked = checked(PutRequest, await read_object(request))
        collection = await opened(request)
        embeds = LocalEmbeds(embedder, collection.space)
        async with cancelled_when_gone(request):
            wanted, known, errors = await _wanted(service, collection, asked.documents)
            pieces, vectors, tokens, faults = await embed_documents(wanted, embeds)
            added = replaced = 0
            if pieces and vectors is not None:
                written = await service.collections.call(collection.put, pieces, vectors, collection.space)
                added, replaced, known = written.added, written.replaced, known + written.unchanged
                service.collections.written(owner, name)
    errors += [{"id": fault.where, "message": fault.reason} for fault in faults]
    return web.json_response(
        {
            "object": "collection.write",
            "added": added,
            "replaced": replaced,
            "unchanged": known,
            "pieces": len(pieces),
            "errors": errors,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
        }
    )


async def remove(request: web.Request) -> web.Response:
    """How many pieces went."""
    from vision_text.store.filters import parse_filter

    service, owner = request.app[SERVICE], request[IDENTITY].owner
    name = request.match_info["collection"]
    if name == TRANSCRIPTS:
        raise KeptByService
    asked = checked(DeleteRequest, await read_object(request))
    collection = await opened(request)
    where = parse_filter(asked.filter, collection.info.filterable)
    with service.collections.writers.hold(owner):
        removed = await service.collections.call(collection.delete, asked.documents, asked.source, where)
    service.collections.written(owner, name)
    return web.json_response({"object": "collection.delete", "removed": removed})


async def opened(request: web.Request, name: str | None = None) -> Collection:
    """The collection that the path (or `name`) names; raises CollectionNotFound, also when it is somebody else's."""
    place = request.app[SERVICE].collections
    wanted = name if name is not None else request.match_info["collection"]
    found: Collection = await place.call((await place.store()).collection, wanted, owner=request[IDENTITY].owner)
    return found


async def _wanted(
    service: Service, collection: Collection, bodies: list[Any]
) -> tuple[list[list[Piece]], int, list[dict[str, str]]]:
    """Pieces of the documents that are new or have changed, how many are neither, and what is wrong with others."""
    embedder = service.embeddings.embedder
    most = next(info.most_tokens for info in embedder.models() if info.name == collection.space.model)
    cutter = await service.collections.cutter(collection.space, most)

    def work() -> tuple[list[list[Piece]], int, list[dict[str, str]]]:
        cut: dict[str, list[Piece]] = {}
        errors: list[dict[str, str]] = []
        for n, body in enumerate(bodies):
            try:
                document = _document(body, collection)
                cut[document.id] = cutter.cut(document)
            except ServingError as error:
                id = body.get("id") if isinstance(body, dict) else None
                errors.append({"id": id if isinstance(id, str) else f"documents[{n}]", "message": error.message})
        known = collection.known(list(cut))
        fresh = [pieces for id, pieces in cut.items() if known.get(id) != pieces[0].hash]
        return fresh, len(cut) - len(fresh), errors

    return await service.collections.call(work)


def _document(body: Any, collection: Collection) -> Document:
    from vision_text.ingest.document import Document, Part, check_document, split_fields

    if not isinstance(body, dict):
        raise InputInvalid("A document is an object with id and text.")
    asked = checked(DocumentBody, body)
    fields, extra = split_fields(asked.model_extra or {}, collection.info.fields)
    return check_document(Document(asked.id, (Part(asked.text),), asked.source, fields, extra))
