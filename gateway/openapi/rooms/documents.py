"""PDFs and pictures: what they say and where, and answers to questions about them."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.documents.request import MOST_QUESTION, MOST_SOURCES
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, size
from gateway.openapi.shapes import Json, answered

TAG = "Documents"
Box = Annotated[list[float], Field(min_length=4, max_length=4)]
Share = Annotated[float, Field(ge=0, le=1)]


class DocumentWord(TypedDict):
    """A word and where it stands."""

    text: str
    box: Box
    confidence: Share


class DocumentLine(TypedDict):
    """A line and its words."""

    text: str
    box: Box
    words: list[DocumentWord]


class DocumentRegion(TypedDict):
    """A paragraph or a table."""

    kind: Literal["text", "table"]
    box: Box
    text: str
    confidence: Share
    rows: NotRequired[list[list[DocumentLine]]]


class DocumentPage(TypedDict):
    """A page. Boxes are left, top, right, bottom, from its top left corner, in `unit`."""

    number: int
    width: float
    height: float
    unit: Literal["point", "pixel"]
    source: Literal["text layer", "ocr"]
    turned: int
    skew: float
    text: str
    regions: list[DocumentRegion]


class UnreadPage(TypedDict):
    """A page that could not be read, and why."""

    number: int
    error: str


class ReadDocument(TypedDict):
    """All pages."""

    object: Literal["document"]
    pages: list[DocumentPage]
    unread: list[UnreadPage]


class DocumentSource(TypedDict):
    """A passage that the answer rests on; it is cited by `index`."""

    index: int
    page: int
    box: Box
    unit: Literal["point", "pixel"]
    text: str
    score: float


class DocumentAnswer(TypedDict):
    """The answer; `model` is `extractive` where there is no language model, and it is the nearest passage."""

    object: Literal["document.answer"]
    answer: str
    model: str
    sources: list[DocumentSource]
    unread: list[UnreadPage]


def room(here: Here) -> Room:
    """The routes."""
    file: Json = {"type": "string", "format": "binary", "description": "A PDF or a picture."}
    read: Json = {
        "pages": {"type": "string", "pattern": "^([0-9]{1,6}|[0-9]{1,6}-[0-9]{0,6})?$",
            "description": "Which: `3`, `3-7` or `3-`; else all."},
        "dpi": {"type": "integer", "minimum": 50, "maximum": 400, "default": 150,
            "description": "Of pages read from their picture."},
        "ocr": {"type": "boolean", "default": False, "description": "Read the picture though there is text."},
        "password": {"type": "string", "description": "Of a PDF that has one."},
    }  # fmt: skip
    more: Json = {
        "stream": {"type": "boolean", "default": False, "description": "Pages as events, as soon as they are read."},
        "lines": {"type": "boolean", "default": False, "description": "Lines and words of each region as well."},
    }
    asking: Json = {
        "question": {"type": "string", "minLength": 1, "maxLength": MOST_QUESTION, "pattern": "\\S",
            "description": "What you want to know."},
        "sources": {"type": "integer", "minimum": 1, "maximum": MOST_SOURCES, "default": 6,
            "description": "Passages that are looked at."},
    }  # fmt: skip
    events: Json = {"text/event-stream": {"schema": {"description": "`document.page`, `document.unread`, at last "
        "`document.done`; an error ends it."}}}  # fmt: skip
    pages = answer("What it says.", answered(ReadDocument))
    pages["content"] |= events
    fails = (400, 404, 408, 413, 429, 500, 501, 503)
    return Room(
        tag=TAG,
        about="What a PDF or a picture says and where: its text layer, or read from its picture; and answers to "
        f"questions about it, with their places. Files up to {size(here.settings.max_upload_bytes)}.",
        operations=[
            Operation(
                method="POST", path="/v1/documents", id="readDocument", tag=TAG, summary="Read a document",
                body=body(_form({"file": file, **read, **more}, "file"), "multipart/form-data"),
                answers={200: pages}, fails=fails, curl="-F file=@page.png",
            ),
            Operation(
                method="POST", path="/v1/documents/ask", id="askDocument", tag=TAG, summary="Ask about a document",
                body=body(_form({"file": file, **read, **asking}, "file", "question"), "multipart/form-data"),
                answers={200: answer("The answer.", answered(DocumentAnswer))}, fails=fails,
                curl="-F file=@page.png -F question='Who lives there?'",
            ),
        ],
    )  # fmt: skip


def _form(fields: Json, *required: str) -> Json:
    return {"type": "object", "properties": fields, "required": [*required], "additionalProperties": False}
