"""All collections below a directory: one directory each, with its rows by generation and a file that says which counts.

NAME--DIGEST/collection.json      everything about it; replaced as a whole, so a switch happens at once
NAME--DIGEST/1/  2/  ...          a LanceDB database for each generation
"""

from __future__ import annotations

import builtins
import hashlib
import json
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from vision_text.embeddings.space import Space
from vision_text.store.errors import CollectionBusy, CollectionExists, CollectionNotFound, StoreUnavailable
from vision_text.store.lance.rows import WAIT, LanceRows
from vision_text.store.rows import CollectionInfo, FieldKind
from vision_text.store.scoring import Calibration

NOTE = "collection.json"
KEPT = 600.0
"""Seconds for which a generation stays that was replaced: searches that began before read on in it."""
OPEN = 64
"""Tables that are kept open."""


class LanceCatalogue:
    """Raises StoreUnavailable when the directory cannot be used."""

    def __init__(self, directory: Path) -> None:
        self._root = directory.absolute()
        self._opened: dict[tuple[str, int, float], LanceRows] = {}
        self._guard = threading.Lock()
        try:
            self._root.mkdir(parents=True, exist_ok=True, mode=0o700)
        except OSError as error:
            raise StoreUnavailable(
                f"The folder of collections cannot be used: {error.strerror}: {error.filename}. Choose another one."
            ) from error

    def create(
        self, name: str, owner: str, space: Space, fields: Mapping[str, FieldKind], ranges: Calibration | None
    ) -> CollectionInfo:
        place = self._place(name, owner)
        with self._changing(place, make=True):
            if (place / NOTE).exists():
                raise CollectionExists(f"There is a collection {name!r} already.", param="collection")
            shutil.rmtree(place / "1", ignore_errors=True)  # of a process that was killed before it noted it
            LanceRows.create(place / "1", space, fields)
            note = {
                "name": name,
                "owner": owner,
                "created": time.time(),
                "fields": dict(fields),
                "generation": 1,
                "last": 1,
                "current": _described(space, ranges),
                "next": None,
                "retired": [],
            }
            _save(place / NOTE, note)
        return _info(note)

    def info(self, name: str, owner: str) -> CollectionInfo:
        return _info(self._note(name, owner))

    def list(self, owner: str | None) -> list[CollectionInfo]:
        found = []
        for path in sorted(self._root.glob(f"*/{NOTE}")):
            with suppress(FileNotFoundError):  # dropped just now
                found.append(_info(_load(path)))
        return sorted(
            (one for one in found if owner is None or one.owner == owner), key=lambda one: (one.name, one.owner)
        )

    def rows(
        self, name: str, owner: str, *, next: bool = False
    ) -> tuple[CollectionInfo, LanceRows, Calibration | None]:
        note = self._note(name, owner)
        if next:
            if note["next"] is None:
                raise CollectionNotFound(f"The collection {name!r} is not being migrated.", param="collection")
            note = note | {"generation": note["next"]["generation"], "current": note["next"], "next": None}
        info, place = _info(note), self._place(name, owner)
        key = (place.name, info.generation, info.created)  # one that is dropped and made again has other files
        with self._guard:
            rows = self._opened.get(key)
            if rows is None:
                rows = self._opened[key] = self._open(place, info)
            while len(self._opened) > OPEN:
                self._opened.pop(builtins.next(iter(self._opened)))
        return info, rows, _ranges(note["current"])

    def drop(self, name: str, owner: str) -> None:
        place = self._place(name, owner)
        with self._changing(place):
            self._note(name, owner)
            aside = place.with_name(f".dropped-{os.getpid()}-{time.time_ns()}")
            place.rename(aside)
        shutil.rmtree(aside, ignore_errors=True)

    def begin(self, name: str, owner: str, space: Space, ranges: Calibration | None) -> None:
        place = self._place(name, owner)
        with self._changing(place):
            note = self._note(name, owner)
            wanted = _described(space, ranges)
            if note["next"] is not None and note["next"]["space"] == wanted["space"]:
                return
            self._forget(place, note)
            generation = note["last"] + 1
            shutil.rmtree(place / str(generation), ignore_errors=True)
            LanceRows.create(place / str(generation), space, note["fields"])
            _save(place / NOTE, note | {"next": wanted | {"generation": generation}, "last": generation})

    def switch(self, name: str, owner: str) -> None:
        place = self._place(name, owner)
        with self._changing(place):
            note = self._note(name, owner)
            if note["next"] is None:
                raise CollectionNotFound(f"The collection {name!r} is not being migrated.", param="collection")
            retired = [*note["retired"], [note["generation"], time.time()]]
            generation, current = note["next"]["generation"], dict(note["next"])
            current.pop("generation")
            changed = {"generation": generation, "current": current, "next": None, "retired": retired}
            _save(place / NOTE, note | changed)

    def give_up(self, name: str, owner: str) -> None:
        place = self._place(name, owner)
        with self._changing(place):
            note = self._note(name, owner)
            self._forget(place, note)
            _save(place / NOTE, note | {"next": None})

    def sweep(self, name: str, owner: str) -> None:
        """Remove generations that were replaced some time ago."""
        place = self._place(name, owner)
        with self._changing(place):
            note = self._note(name, owner)
            gone = [one for one, at in note["retired"] if time.time() - at > KEPT]
            if gone:
                _save(place / NOTE, note | {"retired": [one for one in note["retired"] if one[0] not in gone]})
        for generation in gone:
            shutil.rmtree(place / str(generation), ignore_errors=True)

    def close(self) -> None:
        with self._guard:
            self._opened.clear()

    def _open(self, place: Path, info: CollectionInfo) -> LanceRows:
        def current() -> bool:
            try:
                note = _load(place / NOTE)
            except FileNotFoundError:
                raise CollectionNotFound("The collection was dropped.", param="collection") from None
            return info.generation in (note["generation"], (note["next"] or {}).get("generation"))

        return LanceRows(place / str(info.generation), info.space, info.fields, current)

    def _forget(self, place: Path, note: Mapping[str, Any]) -> None:
        if note["next"] is not None:
            shutil.rmtree(place / str(note["next"]["generation"]), ignore_errors=True)

    def _note(self, name: str, owner: str) -> dict[str, Any]:
        try:
            return _load(self._place(name, owner) / NOTE)
        except FileNotFoundError:
            raise CollectionNotFound(
                f"There is no collection {name!r}; see which there are with speechlane collections list.",
                param="collection",
            ) from None

    def _place(self, name: str, owner: str) -> Path:
        digest = hashlib.sha256(f"{owner}\0{name}".encode()).hexdigest()[:16]
        return self._root / f"{name}--{digest}"

    @contextmanager
    def _changing(self, place: Path, *, make: bool = False) -> Iterator[None]:
        """Nobody else changes the collection's file meanwhile."""
        lock = FileLock(self._root / f".{place.name}.lock", timeout=WAIT, thread_local=False)
        try:
            with lock:
                if make:
                    place.mkdir(exist_ok=True, mode=0o700)
                yield
        except Timeout:
            raise CollectionBusy("Somebody else changes the collection; try again in a minute.") from None


def _described(space: Space, ranges: Calibration | None) -> dict[str, Any]:
    return {"space": space.to_dict(), "ranges": asdict(ranges) if ranges is not None else None}


def _ranges(described: Mapping[str, Any]) -> Calibration | None:
    found = described["ranges"]
    return Calibration(tuple(found["low"]), tuple(found["high"])) if found is not None else None


def _info(note: Mapping[str, Any]) -> CollectionInfo:
    return CollectionInfo(
        note["name"],
        note["owner"],
        Space.from_dict(note["current"]["space"]),
        note["fields"],
        note["created"],
        note["generation"],
        Space.from_dict(note["next"]["space"]) if note["next"] is not None else None,
    )


def _load(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text("utf-8"))
        return found
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise StoreUnavailable(f"{path.parent.name}/{NOTE} cannot be read: {error}") from error


def _save(path: Path, note: Mapping[str, Any]) -> None:
    """In place of what was there, whole or not at all."""
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=".note-")
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            json.dump(note, file, ensure_ascii=False)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        with suppress(OSError):
            os.unlink(temporary)
        raise
