"""What a new collection can be filtered by, when nobody has said so: a look at the first records."""

from __future__ import annotations

from vision_text.ingest.sources import SAMPLE, Columns, Csv, Source
from vision_text.store.rows import FieldKind

SAMPLE_TEXT = 200
"""Characters up to which a text may be something to filter by."""


def guess_fields(source: Source) -> dict[str, FieldKind]:
    """Fields for a new collection: what the first records have beside id and text, where all agree on its kind."""
    columns = getattr(source, "columns", Columns())
    kinds: dict[str, set[FieldKind]] = {}
    for number, record in enumerate(source.sample()):
        if number == SAMPLE:
            break
        for name, given in record.items():
            value = guessed(given) if isinstance(source, Csv) and isinstance(given, str) else given
            if value is None or name in (columns.id, columns.text, "source"):
                continue
            if isinstance(value, bool):
                kind: FieldKind | None = "boolean"
            elif isinstance(value, int | float):
                kind = "number"
            else:
                kind = "text" if isinstance(value, str) and len(value) <= SAMPLE_TEXT else None
            kinds.setdefault(name, set()).add(kind or "text")
            if kind is None:
                kinds[name] |= {"text", "number"}  # too long, or a list: nothing to filter by
    return {name: next(iter(found)) for name, found in kinds.items() if len(found) == 1}


def guessed(text: str) -> object:
    """A value of a table without types, with a guess at its kind; nothing where there is nothing."""
    if not text:
        return None
    if text.lower() in ("true", "false"):
        return text.lower() == "true"
    try:
        return float(text)
    except ValueError:
        return text
