"""Transcripts as documents: what was said, piece by piece, with the seconds to jump to."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vision_text.ingest.checkpoint import Position
from vision_text.ingest.document import Document, Fault, Part, check_document
from vision_text.ingest.sources import Read
from workers.errors import InputInvalid, ServingError

SCHEMA = "speechlane.transcript"
FIELDS = {"file": "text", "language": "text"}
"""The fields of a collection of transcripts."""


@dataclass(frozen=True, slots=True)
class Recording:
    """A transcript that can be had. `id`: of the job, or the name of the file it is in; `file`: of the recording.

    `load` gives the transcript as JSON text. Raises ServingError, OSError.
    """

    id: str
    file: str
    load: Callable[[], str | bytes]


def transcript_document(id: str, file: str, text: str | bytes, revision: str = "") -> Document:
    """Of the JSON form of a transcript. Raises InputInvalid."""
    try:
        body = json.loads(text)
        if not isinstance(body, Mapping) or body.get("schema") != SCHEMA:
            raise InputInvalid("It is no transcript in the form json.")
        parts = tuple(_part(segment) for segment in body["segments"])
        language = body.get("language") or ""
    except (ValueError, KeyError, TypeError) as error:
        raise InputInvalid(f"It cannot be read as a transcript: {type(error).__name__}.") from error
    fields = {"file": file, **({"language": language} if isinstance(language, str) and language else {})}
    return check_document(Document(id, parts, id, fields, revision=revision))


class Transcripts:
    """Finished recordings as a source of documents."""

    def __init__(self, name: str, recordings: Sequence[Recording]) -> None:
        self.name, self._recordings = name, recordings

    @classmethod
    def of_files(cls, paths: Sequence[Path]) -> Transcripts:
        """Result files in the form json; a folder stands for those in it."""
        found: list[Path] = []
        for path in paths:
            found += sorted(path.rglob("*.json")) if path.is_dir() else [path]
        return cls(
            paths[0].name if len(paths) == 1 else f"{len(found)} transcripts",
            [Recording(path.name, path.stem, path.read_bytes) for path in found],
        )

    @property
    def size(self) -> float | None:
        return float(len(self._recordings))

    def digest(self) -> str:
        return hashlib.sha256("\0".join(one.id for one in self._recordings).encode()).hexdigest()

    def read(self, position: Position) -> Iterator[Read]:
        for number, one in enumerate(self._recordings[position.record :], position.record + 1):
            yield Read(self._document(one), Position(number, 0), float(number))

    def sample(self) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def _document(self, one: Recording) -> Document | Fault:
        try:
            return transcript_document(one.id, one.file, one.load())
        except ServingError as error:
            return Fault(one.id, error.message)
        except OSError as error:
            return Fault(one.id, f"It cannot be read: {error.strerror}.")


def _part(segment: Mapping[str, Any]) -> Part:
    text, start, end = segment["text"], segment["start"], segment["end"]
    channel = segment.get("channel", 0)
    if not isinstance(text, str) or not isinstance(start, int | float) or not isinstance(end, int | float):
        raise TypeError("a segment without times")
    return Part(text, float(start), float(end), channel if isinstance(channel, int) else 0)
