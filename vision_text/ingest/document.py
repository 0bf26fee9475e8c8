"""A document on its way into a collection, and what is wrong with one that cannot go in."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vision_text.store.rows import MAX_ID, FieldKind, FieldValue, fits
from workers.errors import InputInvalid

MAX_CHARACTERS = 10_000_000
"""Of a document."""
MAX_EXTRA = 16_384
"""Bytes of what a document has beside its text and its fields."""


@dataclass(frozen=True, slots=True)
class Part:
    """Text that belongs together; `start` and `end` in seconds of a recording, `channel` of it."""

    text: str
    start: float | None = None
    end: float | None = None
    channel: int = 0


@dataclass(frozen=True, slots=True)
class Document:
    """`id` is unique in its collection. `source` is the file or job that it came from. `revision`, where whoever keeps
    the document counts its changes, stands for all of it: then one that is known need not even be read."""

    id: str
    parts: tuple[Part, ...]
    source: str = ""
    fields: Mapping[str, FieldValue] = field(default_factory=dict)
    extra: Mapping[str, Any] = field(default_factory=dict)
    revision: str = ""

    def hash(self, cut: str) -> str:
        """Changes with anything of it, and with how it is `cut`."""
        parts = [(part.text, part.start, part.end, part.channel) for part in self.parts]
        if self.revision:
            return hashlib.sha256(json.dumps([cut, self.id, self.revision]).encode()).hexdigest()[:32]
        whole = json.dumps([cut, parts, self.source, dict(self.fields), dict(self.extra)], sort_keys=True)
        return hashlib.sha256(whole.encode()).hexdigest()[:32]


@dataclass(frozen=True, slots=True)
class Fault:
    """A document that cannot be stored. `where` is how a person finds it: its id, or its place in the source."""

    where: str
    reason: str


def check_document(document: Document) -> Document:
    """The document, if it can be stored. Raises InputInvalid."""
    for name, value in (("id", document.id), ("source", document.source)):
        if len(value) > MAX_ID or not _clean(value) or (name == "id" and not value):
            raise InputInvalid(f"{name} has to be text of 1 to {MAX_ID} characters.", param=name)
    if not any(part.text.strip() for part in document.parts):
        raise InputInvalid("There is no text in it.", param="text")
    size = sum(len(part.text) for part in document.parts)
    if size > MAX_CHARACTERS:
        raise InputInvalid(f"It has {size:,} characters; at most {MAX_CHARACTERS:,} are taken.", param="text")
    if not all(_clean(part.text) for part in document.parts):
        raise InputInvalid("Its text holds a character that is none (a zero byte, or half of a pair).", param="text")
    return document


def split_fields(
    values: Mapping[str, Any], declared: Mapping[str, FieldKind]
) -> tuple[dict[str, FieldValue], dict[str, Any]]:
    """What a record has beside id and text: what can be filtered by, and the rest. Null is nothing.

    Raises InputInvalid for a declared field of another kind, and for too much.
    """
    fields: dict[str, FieldValue] = {}
    extra: dict[str, Any] = {}
    for name, value in values.items():
        kind = declared.get(name)
        if value is None:
            continue
        if kind is None:
            extra[name] = value
            continue
        if not fits(value, kind) or (isinstance(value, str) and not _clean(value)):
            raise InputInvalid(f"{name} is {str(value)[:40]!r}, which is no {kind}.", param=name)
        fields[name] = float(value) if kind == "number" else value
    try:
        size = len(json.dumps(extra, allow_nan=False).encode())
    except (TypeError, ValueError) as error:
        raise InputInvalid(f"It holds what JSON cannot: {error}.") from None
    if size > MAX_EXTRA:
        raise InputInvalid(f"It has {size:,} bytes beside its text and fields; at most {MAX_EXTRA:,} are kept.")
    return fields, extra


def typed(text: str, kind: FieldKind) -> object:
    """A value of a table without types, as its field has it; what cannot be stays as it is, and is refused later."""
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            return text
    if kind == "boolean":
        return {"true": True, "false": False, "1": True, "0": False}.get(text.strip().lower(), text)
    return text


def _clean(text: str) -> bool:
    if "\0" in text:
        return False
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
