"""What documents are read from: JSONL, CSV, Parquet, folders. One record after the other, from any place on."""

from __future__ import annotations

import csv
import hashlib
import json
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import pyarrow as pa
import pyarrow.parquet as parquet

from vision_text.ingest.checkpoint import Position
from vision_text.ingest.document import Document, Fault, Part, check_document, split_fields, typed
from vision_text.ingest.pdf import read_pdf
from vision_text.store.rows import FieldKind
from workers.errors import InputInvalid

MAX_LINE = 64 << 20
"""Bytes of a line of JSONL or a field of CSV."""
PARQUET_ROWS = 1000
TEXT_ENDINGS = (".txt", ".md", ".markdown", ".rst", ".text")
CSV_ENDINGS = {".csv": ",", ".tsv": "\t"}
SAMPLE = 200
"""Records that are looked at for the fields of a new collection."""


@dataclass(frozen=True, slots=True)
class Columns:
    """Where a record has its id and its text. An `id` that no record has is replaced by file and number."""

    id: str = "id"
    text: str = "text"
    fields: Mapping[str, FieldKind] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Read:
    """A document, or what is wrong with it; where the next one begins, and how much of the source is behind."""

    found: Document | Fault
    next: Position
    done: float


class Source(Protocol):
    """Where documents come from. `size` is in the unit of `Read.done`; None: not known."""

    name: str

    @property
    def size(self) -> float | None: ...

    def digest(self) -> str:
        """Another one when the source has changed, or is read otherwise."""

    def read(self, position: Position) -> Iterator[Read]:
        """From there on to the end. Raises OSError, InputInvalid for a source that cannot be read at all."""

    def sample(self) -> Iterator[Mapping[str, Any]]:
        """Records as they are, from the beginning, for a look at their fields."""


def open_source(path: Path, columns: Columns) -> Source:
    """By its ending, or a folder. Raises InputInvalid for what cannot be read."""
    if path.is_dir():
        return Folder(path)
    if not path.is_file():
        raise InputInvalid(f"There is no file or folder {path}.", param="source")
    ending = path.suffix.lower()
    if ending in (".jsonl", ".ndjson"):
        return Jsonl(path, columns)
    if ending in CSV_ENDINGS:
        return Csv(path, columns, CSV_ENDINGS[ending])
    if ending in (".parquet", ".pq"):
        return Parquet(path, columns)
    if ending in READERS:
        return Folder(path.parent, only=path)
    raise InputInvalid(
        f"{path.name} is none of .jsonl, .csv, .tsv, .parquet and {', '.join(READERS)}; name a folder of texts, "
        "or finished jobs with --jobs.",
        param="source",
    )


class _File:
    """A file of records."""

    def __init__(self, path: Path, columns: Columns) -> None:
        self.path, self.columns, self.name = path, columns, path.name

    @property
    def size(self) -> float | None:
        return float(self.path.stat().st_size)

    def digest(self) -> str:
        found, columns = self.path.stat(), self.columns
        what = [str(self.path.absolute()), found.st_size, found.st_mtime_ns, columns.id, columns.text]
        return hashlib.sha256(json.dumps([*what, sorted(columns.fields.items())]).encode()).hexdigest()

    def document(self, record: Mapping[str, Any], number: int) -> Document | Fault:
        """Of a record, the `number`th from 1."""
        columns, place = self.columns, f"{self.name}:{number}"
        try:
            id, text = record.get(columns.id), record.get(columns.text)
            if not isinstance(text, str):
                has = ", ".join(sorted(map(str, record)))[:200] or "nothing"
                raise InputInvalid(f"It has no text in {columns.text!r}; it has {has}.")
            if id is None or id == "":
                id = place
            elif isinstance(id, bool) or not isinstance(id, str | int):
                raise InputInvalid(f"{columns.id} is {str(id)[:40]!r}, which is no id.")
            rest = {str(name): value for name, value in record.items() if name not in (columns.id, columns.text)}
            source = rest.pop("source", None)
            fields, extra = split_fields(rest, columns.fields)
            whole = Document(str(id), (Part(text),), source if isinstance(source, str) else self.name, fields, extra)
            return check_document(whole)
        except InputInvalid as error:
            return Fault(place, error.message)


class Jsonl(_File):
    """A JSON object a line."""

    def read(self, position: Position) -> Iterator[Read]:
        with self.path.open("rb") as file:
            file.seek(position.offset)
            number = position.record
            while line := file.readline(MAX_LINE + 1):
                number += 1
                found = self._line(line, number, file)
                if found is not None:
                    yield Read(found, Position(number, file.tell()), float(file.tell()))

    def sample(self) -> Iterator[Mapping[str, Any]]:
        with self.path.open("rb") as file:
            while line := file.readline(MAX_LINE):
                try:
                    record = json.loads(line)
                except ValueError:
                    continue
                if isinstance(record, dict):
                    yield record

    def _line(self, line: bytes, number: int, file: BinaryIO) -> Document | Fault | None:
        """None for an empty one."""
        place = f"{self.name}:{number}"
        if len(line) > MAX_LINE:
            while line and not line.endswith(b"\n"):
                line = file.readline(MAX_LINE)
            return Fault(place, f"The line has over {MAX_LINE >> 20} MiB.")
        if not line.strip():
            return None
        try:
            record = json.loads(line.decode())
        except UnicodeDecodeError as error:
            return Fault(place, f"It is not UTF-8: byte {error.start} of the line.")
        except (ValueError, RecursionError) as error:
            return Fault(place, f"It is no JSON: {str(error)[:200]}.")
        if not isinstance(record, dict):
            return Fault(place, "It is no JSON object.")
        return self.document(record, number)


class Csv(_File):
    """A table with the names of its columns in the first line."""

    def __init__(self, path: Path, columns: Columns, delimiter: str) -> None:
        super().__init__(path, columns)
        self._delimiter = delimiter

    def read(self, position: Position) -> Iterator[Read]:
        csv.field_size_limit(MAX_LINE)
        with self.path.open("r", encoding="utf-8-sig", errors="surrogateescape", newline="") as file:
            lines = _Lines(file)
            table = csv.DictReader(lines, delimiter=self._delimiter)
            number = 0
            while True:
                try:
                    row = next(table, None)
                except csv.Error as error:
                    raise InputInvalid(f"{self.name} cannot be read on after record {number}: {error}.") from error
                if row is None:
                    return
                number += 1
                if number <= position.record:
                    continue
                yield Read(self._row(row, number), Position(number, 0), float(lines.bytes))

    def sample(self) -> Iterator[Mapping[str, Any]]:
        with self.path.open("r", encoding="utf-8-sig", errors="replace", newline="") as file:
            for row in csv.DictReader(file, delimiter=self._delimiter):
                yield {name: value for name, value in row.items() if isinstance(value, str)}

    def _row(self, row: Mapping[str | None, Any], number: int) -> Document | Fault:
        if None in row:
            return Fault(f"{self.name}:{number}", "It has more values than there are columns.")
        kinds = self.columns.fields
        record = {
            name: typed(value, kinds[name]) if name in kinds else value
            for name, value in row.items()
            if name is not None and value not in (None, "")
        }
        return self.document(record, number)


class Parquet(_File):
    """A Parquet file, a group of rows at a time."""

    @property
    def size(self) -> float | None:
        return float(self._open().metadata.num_rows)

    def read(self, position: Position) -> Iterator[Read]:
        number = 0
        file = self._open()
        for group in range(file.num_row_groups):
            rows = file.metadata.row_group(group).num_rows
            if number + rows <= position.record:
                number += rows
                continue
            for batch in file.iter_batches(PARQUET_ROWS, row_groups=[group]):
                for record in batch.to_pylist():
                    number += 1
                    if number > position.record:
                        yield Read(self.document(_plain(record), number), Position(number, 0), float(number))

    def sample(self) -> Iterator[Mapping[str, Any]]:
        for batch in self._open().iter_batches(SAMPLE):
            yield from map(_plain, batch.to_pylist())

    def _open(self) -> parquet.ParquetFile:
        try:
            return parquet.ParquetFile(self.path)
        except (pa.ArrowInvalid, OSError) as error:
            raise InputInvalid(f"{self.name} is no Parquet file: {str(error)[:200]}", param="source") from error


class Folder:
    """The texts below a folder, in the order of their names. Other files are passed over and counted."""

    def __init__(self, path: Path, only: Path | None = None) -> None:
        self._root = path
        self.name = (only or path.absolute()).name
        found = [only] if only is not None else sorted(_files(path))
        self._files = [one for one in found if one.suffix.lower() in READERS]
        self.skipped = len(found) - len(self._files)

    @property
    def size(self) -> float | None:
        return float(len(self._files))

    def digest(self) -> str:
        digest = hashlib.sha256(str(self._root.absolute()).encode())
        for path in self._files:
            found = path.stat()
            digest.update(f"\0{path}\0{found.st_size}\0{found.st_mtime_ns}".encode(errors="surrogateescape"))
        return digest.hexdigest()

    def read(self, position: Position) -> Iterator[Read]:
        for number, path in enumerate(self._files[position.record :], position.record + 1):
            found, missing = self._document(path)
            if missing:  # before the document, so that whoever goes on from here reads both
                yield Read(Fault(_shown(path.name), missing), Position(number - 1, 0), float(number - 1))
            yield Read(found, Position(number, 0), float(number))

    def sample(self) -> Iterator[Mapping[str, Any]]:
        return iter(())

    def _document(self, path: Path) -> tuple[Document | Fault, str]:
        """And what of the file is not in it."""
        name = path.relative_to(self._root).as_posix()
        try:
            parts, missing = READERS[path.suffix.lower()](path)
            return check_document(Document(name, parts, name)), missing
        except InputInvalid as error:
            return Fault(_shown(name), error.message), ""
        except OSError as error:
            return Fault(_shown(name), f"It cannot be read: {error.strerror}."), ""


def read_text(path: Path) -> tuple[tuple[Part, ...], str]:
    """A file of UTF-8. Raises InputInvalid, OSError."""
    if path.stat().st_size > MAX_LINE:
        raise InputInvalid(f"It has over {MAX_LINE >> 20} MiB.")
    try:
        return (Part(path.read_text("utf-8-sig")),), ""
    except UnicodeDecodeError as error:
        raise InputInvalid(f"It is not UTF-8: byte {error.start}.") from None


READERS: dict[str, Callable[[Path], tuple[tuple[Part, ...], str]]] = {
    **dict.fromkeys(TEXT_ENDINGS, read_text),
    ".pdf": read_pdf,
}
"""How a file of a folder becomes text, by its ending, and what of it does not."""


class _Lines:
    """Lines of a file, and how many bytes they had."""

    def __init__(self, file: Iterator[str]) -> None:
        self._file, self.bytes = file, 0

    def __iter__(self) -> Iterator[str]:
        for line in self._file:
            self.bytes += len(line.encode("utf-8", "surrogateescape"))
            yield line


def _files(path: Path) -> Iterator[Path]:
    for root, folders, names in os.walk(path):
        folders[:] = [name for name in folders if not name.startswith(".")]
        yield from (Path(root) / name for name in names if not name.startswith("."))


def _plain(record: Mapping[str, Any]) -> dict[str, Any]:
    """Times and the like of Parquet as text."""
    known = (str, int, float, bool, list, dict, type(None))
    return {name: value if isinstance(value, known) else str(value) for name, value in record.items()}


def _shown(name: str) -> str:
    return name.encode("utf-8", "replace").decode()
