"""Collections of documents, and search in them."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from gateway.collections import request as asked
from gateway.collections.routes import NAME
from gateway.collections.search import SPACE_HEADER
from gateway.collections.views import COLLECTIONS, SEARCH, SEARCH_TRANSCRIPTS, TRANSCRIPTS
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, described, header, in_path
from gateway.openapi.rooms.embeddings import JSON_TYPE, Space, TokenUsage
from gateway.openapi.shapes import Json, answered
from vision_text.store.filters import MAX_CHOICES, MAX_CONDITIONS, MAX_DEPTH
from vision_text.store.rows import FIELD, MAX_FIELDS, RESERVED

TAG = "Search"
ONE = f"{COLLECTIONS}/{{collection}}"
AT = f"{COLLECTIONS}/books"

CREATE = {
    "name": "How it is called.",
    "model": "Whose vectors it holds; else the default model's.",
    "dimensions": "Vectors cut to so many, where the model was trained for it.",
    "precision": "Of the numbers of the vectors.",
    "fields": "What filters may name, with the kind of each.",
}
DELETE = {"documents": "By id.", "source": "All of one source.", "filter": "All that a filter finds."}
FIND = {
    "collection": "Where to search.",
    "query": "What is searched for.",
    "mode": "`auto`: by meaning and by words where the collection's model is loaded, else by words; the answer says.",
    "limit": "So many of the best.",
    "filter": 'What is looked at: `{"year": {"gte": 1800}}`; gt, gte, lt, lte, ne, in, exists; and, or, not. At most '
    f"{MAX_CONDITIONS} conditions, {MAX_DEPTH} deep, and {MAX_CHOICES} values of an `in`.",
    "vector": "In place of the query's own, with its `space`.",
    "space": "The fingerprint that came with the vector.",
}


class TranscriptSearchRequest(asked.SearchRequest):
    """A search in what was said."""

    collection: asked.Name = TRANSCRIPTS


class CollectionInfo(TypedDict):
    """A collection; `moving_to` is the space that it is being moved to. Counted where one is looked at."""

    object: Literal["collection"]
    name: str
    created: int
    space: Space
    fields: dict[str, Literal["text", "number", "boolean"]]
    moving_to: Space | None
    documents: NotRequired[int]
    pieces: NotRequired[int]


class CollectionList(TypedDict):
    """One's own, by name."""

    object: Literal["list"]
    data: list[CollectionInfo]


class DocumentFault(TypedDict):
    """A document that was not stored, and why."""

    id: str
    message: str


class CollectionWrite(TypedDict):
    """What became of the documents."""

    object: Literal["collection.write"]
    added: int
    replaced: int
    unchanged: int
    pieces: int
    errors: list[DocumentFault]
    usage: TokenUsage


class CollectionDelete(TypedDict):
    """How many pieces went."""

    object: Literal["collection.delete"]
    removed: int


class SearchHit(TypedDict):
    """A piece of a document. `score` orders the hits of one search; `start` and `end` are seconds of a recording."""

    document: str
    piece: int
    source: str
    text: str
    score: float
    similarity: float | None
    words: float | None
    start: float | None
    end: float | None
    fields: dict[str, Any]
    extra: dict[str, Any]
    job: NotRequired[str]
    file: NotRequired[str]


class SearchResults(TypedDict):
    """The best first; `mode` says how they were found: as it was asked for where there is nothing to search yet, which
    has no `space` either."""

    object: Literal["list"]
    collection: str
    mode: Literal["auto", "hybrid", "vector", "words"]
    space: NotRequired[str]
    data: list[SearchHit]


def room(here: Here) -> Room:
    """The routes."""
    one = in_path("collection", "Its name.", pattern=f"^{NAME}$")
    of = {SPACE_HEADER: header("The fingerprint of the collection's space.", required=False)}
    found = {200: answer("The best pieces.", answered(SearchResults), headers=of)}
    make = described(asked.CreateRequest, CREATE, {
        "name": {"pattern": f"^{NAME}$", "not": {"const": TRANSCRIPTS}}, "model": here.embedding_names(),
        "dimensions": here.sizes(),
        "fields": {"maxProperties": MAX_FIELDS,
            "propertyNames": {"pattern": f"^{FIELD.pattern}$", "not": {"enum": [*RESERVED]}}},
    }, nullable=True)  # fmt: skip
    given: list[Json] = [{"required": [name], "properties": {name: {"type": kind}}}
        for name, kind in (("query", "string"), ("vector", "array"))]  # fmt: skip
    find = described(
        asked.SearchRequest, FIND, {"collection": {"pattern": f"^{NAME}$"}}, nullable=True, rules={"anyOf": given}
    )
    some: list[Json] = [
        {"required": ["documents"], "properties": {"documents": {"minItems": 1}}},
        {"required": ["source"], "properties": {"source": {"type": "string"}}},
        {"required": ["filter"], "properties": {"filter": {"type": "object", "minProperties": 1}}},
    ]
    remove = described(asked.DeleteRequest, DELETE, nullable=True, rules={"anyOf": some})
    known: Json = {
        "description": "It is known here: without effect.",
        "type": None,
        "minLength": None,
        "maxLength": None,
    }
    said = described(TranscriptSearchRequest, FIND, {"collection": known}, nullable=True, rules={"anyOf": given})
    document: Json = {
        "type": "object", "required": ["id", "text"], "description": "Whatever else it holds is a field.",
        "properties": {"id": {"type": "string"}, "text": {"type": "string"}, "source": {"type": "string"}},
    }  # fmt: skip
    put = described(asked.PutRequest, {"documents": "What is stored under their ids is replaced."}, {
        "documents": {"items": document}}, nullable=True)  # fmt: skip
    fails = (400, 404, 408, 409, 413, 423, 429, 500, 501, 503)
    return Room(
        tag=TAG,
        about="Documents go into a collection and are found by meaning and by words. Transcripts of finished jobs can "
        f"be searched by themselves. A key sees its own collections; `{TRANSCRIPTS}` is kept by the service.",
        operations=[
            Operation(
                method="GET", path=COLLECTIONS, id="listCollections", tag=TAG, summary="List your collections",
                answers={200: answer("By name.", answered(CollectionList))}, fails=(429, 500, 503),
            ),
            Operation(
                method="POST", path=COLLECTIONS, id="createCollection", tag=TAG, summary="Make a collection",
                body=body(make, example={"name": "books", "fields": {"year": "number"}}),
                answers={201: answer("The new one.", answered(CollectionInfo))}, fails=(*fails, 507),
                curl=f'{JSON_TYPE} -d \'{{"name": "books", "fields": {{"year": "number"}}}}\'',
            ),
            Operation(
                method="GET", path=ONE, id="getCollection", tag=TAG, summary="Look at a collection", parameters=[one],
                answers={200: answer("With what is in it.", answered(CollectionInfo))}, fails=(404, 429, 500, 503),
                at=AT,
            ),
            Operation(
                method="DELETE", path=ONE, id="deleteCollection", tag=TAG, summary="Delete a collection",
                parameters=[one], answers={204: answer("It is gone.")}, fails=(404, 409, 423, 429, 500, 503),
                at=AT, curl="-X DELETE",
            ),
            Operation(
                method="POST", path=f"{ONE}/documents", id="putDocuments", tag=TAG, summary="Store documents",
                description="A document that cannot be stored is told in `errors`, and disturbs no other.",
                parameters=[one],
                body=body(put, example={"documents": [{"id": "emma", "text": "A happy home.", "year": 1815}]}),
                answers={200: answer("What became of them.", answered(CollectionWrite))}, fails=(*fails, 507),
                at=f"{AT}/documents",
                curl=f'{JSON_TYPE} -d \'{{"documents": [{{"id": "emma", "text": "A happy home.", "year": 1815}}]}}\'',
            ),
            Operation(
                method="POST", path=f"{ONE}/documents/delete", id="removeDocuments", tag=TAG,
                summary="Remove documents", parameters=[one],
                body=body(remove, example={"documents": ["persuasion"]}),
                answers={200: answer("What went.", answered(CollectionDelete))}, fails=fails,
                at=f"{AT}/documents/delete", curl=f'{JSON_TYPE} -d \'{{"documents": ["persuasion"]}}\'',
            ),
            Operation(
                method="POST", path=SEARCH, id="search", tag=TAG, summary="Search a collection",
                body=body(find, example={"collection": "books", "query": "where one is at ease"}), answers=found,
                fails=fails, curl=f'{JSON_TYPE} -d \'{{"collection": "books", "query": "where one is at ease"}}\'',
            ),
            Operation(
                method="POST", path=SEARCH_TRANSCRIPTS, id="searchTranscripts", tag=TAG,
                summary="Search what was said in your finished jobs",
                body=body(said, example={"query": "the train to Bath"}), answers=found, fails=fails,
                curl=f'{JSON_TYPE} -d \'{{"query": "the train to Bath"}}\'',
            ),
        ],
    )  # fmt: skip
