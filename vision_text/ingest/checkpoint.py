"""How far a source has gone into a collection, on the disk: noted after the rows are stored, never before.

A process that dies between the two finds its last batch stored already, document by document, and stores nothing twice.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from filelock import FileLock, Timeout

from vision_text.ingest.document import Fault
from workers.errors import ServingError


class IngestTaken(ServingError):
    """The same source goes into the same collection in another process."""

    code = "ingest_taken"
    status = 409


@dataclass(frozen=True, slots=True)
class Position:
    """Records of the source that are behind, and the byte (or row) at which the next one begins."""

    record: int = 0
    offset: int = 0


START = Position()


@dataclass(frozen=True, slots=True)
class Counts:
    """What became of a source's documents so far. `faulted` could not be stored."""

    added: int = 0
    replaced: int = 0
    unchanged: int = 0
    faulted: int = 0
    pieces: int = 0
    tokens: int = 0

    @property
    def documents(self) -> int:
        return self.added + self.replaced + self.unchanged + self.faulted


@dataclass(frozen=True, slots=True)
class Note:
    """What a checkpoint holds. `faults` is the length of the file of faults in bytes."""

    source: str
    position: Position = Position()
    counts: Counts = Counts()
    faults: int = 0
    done: bool = False


class Checkpoint:
    """One source's way into one collection; held by one process at a time."""

    def __init__(self, directory: Path, key: str) -> None:
        name = hashlib.sha256(key.encode()).hexdigest()[:24]
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        self._path = directory / f"{name}.json"
        self._lock = FileLock(directory / f"{name}.lock", timeout=0, thread_local=False)

    def __enter__(self) -> Checkpoint:
        try:
            self._lock.acquire()
        except Timeout:
            raise IngestTaken("The same source is going into this collection already; wait for it.") from None
        return self

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def load(self, source: str) -> Note:
        """How far it was. From the beginning when it is another source by now, or had been done."""
        try:
            found = json.loads(self._path.read_text("utf-8"))
            note = Note(
                found["source"],
                Position(**found["position"]),
                Counts(**found["counts"]),
                found["faults"],
                found["done"],
            )
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return Note(source)
        return note if note.source == source and not note.done else Note(source)

    def save(self, note: Note) -> None:
        """In place of what was there, whole or not at all."""
        handle, temporary = tempfile.mkstemp(dir=self._path.parent, prefix=".note-")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as file:
                json.dump(asdict(note), file)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, self._path)
        except BaseException:
            with suppress(OSError):
                os.unlink(temporary)
            raise


class FaultFile:
    """A JSON object a line for each document that could not be stored; there is no file while there is none."""

    def __init__(self, path: Path, length: int) -> None:
        """What is behind `length` bytes was written by a run that died before it noted so, and comes again."""
        self.path, self.length = path, length
        if path.exists():
            if length == 0:
                path.unlink()
            elif path.stat().st_size > length:
                os.truncate(path, length)
        elif length:
            self.length = 0

    def add(self, faults: list[Fault]) -> None:
        if not faults:
            return
        with self.path.open("ab") as file:
            for fault in faults:
                file.write(json.dumps(asdict(fault), ensure_ascii=True).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
            self.length = file.tell()
