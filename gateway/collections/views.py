"""Collections and hits as the wire shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vision_text.store.rows import CollectionInfo, Hit

COLLECTIONS = "/v1/collections"
SEARCH = "/v1/search"
SEARCH_TRANSCRIPTS = "/v1/batch/search"
TRANSCRIPTS = "transcripts"
"""The collection that the service keeps of a key's finished jobs."""


def collection_body(info: CollectionInfo, counts: tuple[int, int] | None = None) -> dict[str, Any]:
    """`counts`: documents and pieces, where they were counted."""
    body: dict[str, Any] = {
        "object": "collection",
        "name": info.name,
        "created": int(info.created),
        "space": info.space.to_dict(),
        "fields": dict(info.fields),
        "moving_to": info.moving_to.to_dict() if info.moving_to is not None else None,
    }
    if counts is not None:
        body["documents"], body["pieces"] = counts
    return body


def hit_body(hit: Hit, collection: str) -> dict[str, Any]:
    """A piece that was found; of a transcript with the job and the second to jump to."""
    piece = hit.piece
    body: dict[str, Any] = {
        "document": piece.document,
        "piece": piece.piece,
        "source": piece.source,
        "text": piece.text,
        "score": round(hit.score, 6),
        "similarity": round(hit.similarity, 6) if hit.similarity is not None else None,
        "words": round(hit.words, 6) if hit.words is not None else None,
        "start": piece.start,
        "end": piece.end,
        "fields": dict(piece.fields),
        "extra": dict(piece.extra),
    }
    if collection == TRANSCRIPTS:
        body["job"], body["file"] = piece.source, piece.fields.get("file", "")
    return body
