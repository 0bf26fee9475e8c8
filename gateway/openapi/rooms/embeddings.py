"""Vectors of texts and pictures, and documents ranked by a query."""

from __future__ import annotations

from typing import Literal, NotRequired, get_type_hints

from typing_extensions import TypedDict

from gateway.embeddings import request as asked
from gateway.embeddings import rerank
from gateway.embeddings.body import BODY_BYTES
from gateway.embeddings.handler import LANE_HEADER, SPACE_HEADER
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, described, header, in_header, size
from gateway.openapi.shapes import Json, answered
from vision_text.embeddings import space as spaces

TAG = "Embeddings"
JSON_TYPE = "-H 'Content-Type: application/json'"

EMBEDDINGS = {
    "input": "A text, a list of texts, token ids, lists of these, or pictures in base64 (for models that see); at most "
    f"{asked.MOST_ITEMS} of them, and {asked.MOST_TOKENS} tokens.",
    "model": "A model that is loaded, or one of OpenAI's names; else the default one.",
    "encoding_format": "`base64`: little-endian numbers.",
    "dimensions": "Cut to so many, where the model was trained for it.",
    "user": "Taken, without effect.",
    "precision": "Of the numbers.",
    "prompt": "What to put before each text, or the model's own name for that.",
    "truncate": "Leave out the end of texts that are too long, and say of which, in place of a refusal.",
    "lane": "`bulk` waits for whatever else there is to do.",
}
RERANK = {
    "query": "What is asked.",
    "documents": f"Texts, or objects with `text`; at most {rerank.MOST_DOCUMENTS}.",
    "model": "A cross-encoder that is loaded, or a model of embeddings; else the default one.",
    "top_n": "So many of the best.",
    "return_documents": "Give the texts back.",
    "truncate": "Leave out the end of documents that are too long; else they are refused.",
    "lane": "`bulk` waits for whatever else there is to do.",
}

Space = TypedDict("Space", {**get_type_hints(spaces.Space), "fingerprint": str})  # type: ignore[misc]
Space.__doc__ = "Which space vectors are in: only those of one `fingerprint` can be compared."


class TokenUsage(TypedDict):
    """Tokens of the request."""

    prompt_tokens: int
    total_tokens: int


class Embedding(TypedDict):
    """One vector; in base64 where that was asked for. `index` is its place in the input."""

    object: Literal["embedding"]
    index: int
    embedding: list[float] | str


class EmbeddingNotes(TypedDict):
    """The space of the vectors, and which inputs were cut."""

    space: Space
    truncated: list[int]


class Embeddings(TypedDict):
    """The vectors, in the order of the input."""

    object: Literal["list"]
    data: list[Embedding]
    model: str
    usage: TokenUsage
    speechlane: EmbeddingNotes


class RankedText(TypedDict):
    """The text of a document."""

    text: str


class Ranked(TypedDict):
    """A document by its place in the request, and how well it answers."""

    index: int
    relevance_score: float
    document: NotRequired[RankedText]


class RerankNotes(TypedDict):
    """How it was ranked, and which documents were cut."""

    method: str
    truncated: list[int]


class Reranked(TypedDict):
    """The best first."""

    id: str
    object: Literal["list"]
    model: str
    results: list[Ranked]
    usage: TokenUsage
    meta: dict[str, dict[str, int | str]]
    speechlane: RerankNotes


def room(here: Here) -> Room:
    """The routes."""
    text: Json = {"type": "string", "minLength": 1}
    ids: Json = {"type": "array", "items": {"type": "integer", "minimum": 0}, "minItems": 1}
    image: Json = text | {"format": "byte", "contentEncoding": "base64"}
    seen = [_object("image", image)] if here.pictures or not here.loaded else []
    item: Json = {"anyOf": [text, ids, _object("text", text), *seen]}
    many: Json = {"type": "array", "items": item, "minItems": 1, "maxItems": asked.MOST_ITEMS}
    lane = in_header(LANE_HEADER, "The same as `lane`.", enum=[*asked.LANES])
    of = {SPACE_HEADER: header("The fingerprint of the space of the vectors.")}
    told = {SPACE_HEADER: header("That of the vectors, where they ranked.", required=False)}
    document = _object("text", text) | {"additionalProperties": True}
    documents: Json = {"type": "array", "items": {"anyOf": [text, document]},
        "minItems": 1, "maxItems": rerank.MOST_DOCUMENTS}  # fmt: skip
    embed = described(asked.EmbeddingRequest, EMBEDDINGS, {
        "input": {"anyOf": [text, ids, many]}, "model": here.embedding_names(),
        "dimensions": here.sizes()}, nullable=True)  # fmt: skip
    either: Json = {"enum": [*asked.LANES], "anyOf": None, "type": "string"}
    rank = described(
        rerank.RerankRequest, RERANK, {"query": {"minLength": 1}, "documents": documents, "lane": either}, nullable=True
    )
    fails = (400, 404, 408, 413, 429, 500, 501, 503)
    return Room(
        tag=TAG,
        about=f"Texts and pictures as vectors, in OpenAI's form, and documents ranked by a query, in Cohere's and "
        f"Jina's. Bodies have up to {size(BODY_BYTES)}.",
        operations=[
            Operation(
                method="POST", path="/v1/embeddings", id="createEmbedding", tag=TAG, summary="Embed texts",
                parameters=[lane], body=body(embed, example={"input": ["How do I get there?", "By train."]}),
                answers={200: answer("The vectors.", answered(Embeddings), headers=of)}, fails=fails,
                curl=f'{JSON_TYPE} -d \'{{"input": ["How do I get there?", "By train."]}}\'',
            ),
            Operation(
                method="POST", path="/v1/rerank", id="rerank", tag=TAG, summary="Rank documents by a query",
                parameters=[lane],
                body=body(rank, example={"query": "How do I get there?", "documents": ["By train.", "At noon."]}),
                answers={200: answer("The best first.", answered(Reranked), headers=told)}, fails=fails,
                curl=f'{JSON_TYPE} -d \'{{"query": "How do I get there?", "documents": ["By train.", "At noon."]}}\'',
            ),
        ],
    )  # fmt: skip


def _object(name: str, schema: Json) -> Json:
    return {"type": "object", "properties": {name: schema}, "required": [name], "additionalProperties": False}
