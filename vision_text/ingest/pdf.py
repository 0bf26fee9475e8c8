"""The text that a PDF carries, page by page; what is only a picture on a page is for `speechlane documents` to read."""

from __future__ import annotations

from pathlib import Path

from vision_text.documents.layout import lines_of, regions_of
from vision_text.documents.opened import OpenedDocument
from vision_text.ingest.document import Part
from workers.errors import InputInvalid, InputTooLarge

MAX_BYTES = 256 << 20
SHOWN = 20
"""Pages that are named, of those that carry no text."""


def read_pdf(path: Path) -> tuple[tuple[Part, ...], str]:
    """A part for each page with text on it, in reading order, and which pages have none ("" when all do).

    Parsed in a process of its own. Raises InputInvalid (damaged, encrypted, no text at all), InputTooLarge, OSError.
    """
    if path.stat().st_size > MAX_BYTES:
        raise InputTooLarge(f"It has over {MAX_BYTES >> 20} MiB.")
    parts: list[Part] = []
    empty: list[str] = []
    with OpenedDocument(path.read_bytes()) as document:
        for number in range(1, document.pages + 1):
            words = document.sheet(number, dpi=36).words
            if words:
                regions = regions_of(lines_of(words))
                parts.append(Part("\n\n".join(region.text for region in regions)))
            else:
                empty.append(str(number))
    if not parts:
        raise InputInvalid("It carries no text, only pictures of it; speechlane documents read makes text of those.")
    if not empty:
        return tuple(parts), ""
    named = ", ".join(empty[:SHOWN]) + (f" and {len(empty) - SHOWN} more" if len(empty) > SHOWN else "")
    return tuple(parts), f"Without text, and left out: page {named}."
