"""Pages, regions and sources as JSON. Boxes are [left, top, right, bottom] from the top left corner, in `unit`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vision_text.documents.chain import Unread
    from vision_text.documents.page import Box, Page, Region
    from vision_text.documents.passages import Found


def page_view(page: Page, *, lines: bool) -> dict[str, Any]:
    """One page that was read."""
    return {
        "number": page.number,
        "width": round(page.width, 2),
        "height": round(page.height, 2),
        "unit": page.unit,
        "source": page.source.value,
        "turned": page.turned,
        "skew": page.skew,
        "text": page.text,
        "regions": [_region(region, lines=lines) for region in page.regions],
    }


def unread_view(unread: Unread) -> dict[str, Any]:
    """One page that could not be read."""
    return {"number": unread.number, "error": unread.error}


def source_view(found: Found, index: int) -> dict[str, Any]:
    """A passage that an answer rests on; `index` is what the answer cites it by."""
    passage = found.passage
    return {
        "index": index,
        "page": passage.page,
        "box": box_view(passage.box),
        "unit": passage.unit,
        "text": passage.text,
        "score": round(found.score, 4),
    }


def box_view(box: Box) -> list[float]:
    """As four numbers."""
    return [round(edge, 2) for edge in (box.left, box.top, box.right, box.bottom)]


def _region(region: Region, *, lines: bool) -> dict[str, Any]:
    view: dict[str, Any] = {
        "kind": region.kind.value,
        "box": box_view(region.box),
        "text": region.text,
        "confidence": round(region.confidence, 4),
    }
    if lines:
        view["rows"] = [
            [
                {
                    "text": line.text,
                    "box": box_view(line.box),
                    "words": [
                        {"text": word.text, "box": box_view(word.box), "confidence": round(word.confidence, 4)}
                        for word in line.words
                    ],
                }
                for line in row
            ]
            for row in region.rows
        ]
    return view
