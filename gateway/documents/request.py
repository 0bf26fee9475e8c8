"""The text fields of a document's form, checked: every refusal names its field."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from gateway.fields import Fields, choice, nothing_else, number, one
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from vision_text.documents.chain import ReadOptions

MOST_QUESTION = 2000
MOST_SOURCES = 12


@dataclass(frozen=True, slots=True)
class DocumentRequest:
    """What a client wants of its document. `lines`: each region's lines and words as well. `question`: None to read."""

    options: ReadOptions
    stream: bool = False
    lines: bool = False
    question: str | None = None
    sources: int = 6

    @classmethod
    def parse(cls, fields: Fields, *, asking: bool) -> Self:
        """From the form's text fields; raises `InputInvalid` with the field's name."""
        left = dict(fields)
        options = _options(left)
        if not asking:
            stream, lines = _flag(left, "stream"), _flag(left, "lines")
            nothing_else(left)
            return cls(options, stream=stream, lines=lines)
        question = (one(left, "question") or "").strip()
        if not question:
            raise InputInvalid("question is missing: say what you want to know of the document.", param="question")
        if len(question) > MOST_QUESTION:
            raise InputInvalid(
                f"question has {len(question)} characters and can have {MOST_QUESTION}.", param="question"
            )
        sources = int(number(left, "sources", 1, MOST_SOURCES, 6))
        nothing_else(left)
        return cls(options, question=question, sources=sources)


def _options(left: Fields) -> ReadOptions:
    from vision_text.documents.chain import ReadOptions

    return ReadOptions(
        pages=_pages(one(left, "pages")),
        dpi=int(number(left, "dpi", 50, 400, 150)),
        ocr=_flag(left, "ocr"),
        password=one(left, "password"),
    )


def _pages(text: str | None) -> tuple[int, int]:
    if not text:
        return 1, 0
    found = re.fullmatch(r"\s*(\d{1,6})\s*(?:(-)\s*(\d{1,6})?\s*)?", text)
    if not found:
        raise InputInvalid(f"pages is {text[:60]!r} but should be like 3, 3-7 or 3-.", param="pages")
    first = int(found[1])
    last = int(found[3]) if found[3] else 0 if found[2] else first
    return first, last


def _flag(left: Fields, name: str) -> bool:
    return choice(left, name, ("true", "false"), "false") == "true"
