"""What a collection holds: pieces of documents, each with its vector."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from vision_text.embeddings.space import Space
from workers.errors import InputInvalid

FieldKind = Literal["text", "number", "boolean"]
FIELD_KINDS: tuple[FieldKind, ...] = get_args(FieldKind)
FieldValue = str | float | bool

MAX_ID = 512
"""Characters of a document's id or source."""
MAX_FIELDS = 32
MAX_FIELD_TEXT = 4096
"""Characters of a field's text: what is longer belongs into the text itself."""

OWN_FIELDS: dict[str, FieldKind] = {
    "id": "text",
    "document": "text",
    "source": "text",
    "piece": "number",
    "start": "number",
    "end": "number",
}
"""What every piece has, and can be filtered by as well."""

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
FIELD = re.compile(r"[A-Za-z][A-Za-z0-9_]{0,47}")
RESERVED = (*OWN_FIELDS, "text", "hash", "vector", "bits", "fields", "extra")


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of a document's text, short enough for one vector.

    `document` is the id that the document came with; `hash` changes with anything of the document, so that the same
    one is not embedded again. `start` and `end` are seconds in the recording `source`, None for what is no transcript.
    `fields` can be filtered by; `extra` is shown with what is found and nothing more.
    """

    document: str
    piece: int
    hash: str
    text: str
    source: str = ""
    start: float | None = None
    end: float | None = None
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)

    @property
    def id(self) -> str:
        """Unique in the collection."""
        return f"{self.document}#{self.piece}"


@dataclass(frozen=True, slots=True)
class Hit:
    """A piece that was found. `score` orders the hits of one search and means nothing beside those of another.

    `similarity` is the cosine of the angle to the query's vector, `words` the BM25 score of the query's words; None
    where that part of the search did not find the piece.
    """

    piece: Piece
    score: float
    similarity: float | None = None
    words: float | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What became of the documents of a batch."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0

    def __add__(self, other: Written) -> Written:
        return Written(self.added + other.added, self.replaced + other.replaced, self.unchanged + other.unchanged)


@dataclass(frozen=True, slots=True)
class CollectionInfo:
    """What is known of a collection without looking at its rows. `created` is Unix time.

    `moving_to` is the space of a migration that has begun and not ended.
    """

    name: str
    owner: str
    space: Space
    fields: Mapping[str, FieldKind]
    created: float
    generation: int
    moving_to: Space | None = None

    @property
    def filterable(self) -> dict[str, FieldKind]:
        """Everything that a filter may name, with its kind."""
        return {**OWN_FIELDS, **self.fields}


def check_name(name: str) -> str:
    """The name of a collection. Raises InputInvalid."""
    if not _NAME.fullmatch(name):
        raise InputInvalid(
            f"{name[:80]!r} is no name for a collection: use up to 64 letters, digits and . _ -", param="collection"
        )
    return name


def check_fields(fields: Mapping[str, str]) -> dict[str, FieldKind]:
    """Fields as they are declared: name -> kind. Raises InputInvalid."""
    if len(fields) > MAX_FIELDS:
        raise InputInvalid(f"A collection has at most {MAX_FIELDS} fields, not {len(fields)}.", param="fields")
    checked: dict[str, FieldKind] = {}
    for name, kind in fields.items():
        if not isinstance(name, str) or not FIELD.fullmatch(name) or name in RESERVED:
            raise InputInvalid(
                f"{str(name)[:60]!r} is no name for a field: use up to 48 letters, digits and _, beginning with a "
                f"letter, and none of {', '.join(RESERVED)}.",
                param="fields",
            )
        found = next((one for one in FIELD_KINDS if one == kind), None)
        if found is None:
            raise InputInvalid(f"The field {name} can be of the kinds {', '.join(FIELD_KINDS)}.", param="fields")
        checked[name] = found
    return checked


def fits(value: object, kind: FieldKind) -> bool:
    """Whether a value is of the kind of its field."""
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "number":
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 2**1023
    return isinstance(value, str) and len(value) <= MAX_FIELD_TEXT
