"""Where the bytes of jobs lie: sources, decoded audio and results, in a folder or an S3 bucket that all workers reach.

A *blob* is named by the sha256 of its bytes, so the same file submitted twice is kept once, and a task that runs again
writes what is there already. A *named* thing (a result, a transcript) is small and may be written again. Both appear
whole or not at all. Everything here blocks: call it from a worker thread. Safe for use by many threads and processes.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import math
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from itertools import chain
from pathlib import Path
from typing import Any, BinaryIO, cast
from uuid import uuid4

import fsspec
from fsspec.implementations.local import LocalFileSystem

from workers.errors import ServingError

_IN_MEMORY = 24 << 20
"""Bytes up to which a new blob is held until its name is known; a longer one is first written under another name."""
_MEASURED = 30.0
"""Seconds for which a measurement of the usage is believed. What other processes write meanwhile may pass the limit."""
_FRESH = 1800.0
"""Seconds for which a blob counts as just written, so that a second writer need not renew it; and the age under which
no sweep touches an upload that is not finished."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_STORE = re.compile(r"StorageFull|QuotaExceeded|InsufficientStorage|no space left", re.IGNORECASE)
_BLOB = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_LONGEST_NAME = 200
_log = logging.getLogger(__name__)


class SpoolFull(ServingError):
    """There is no room for the file; nothing of it was kept."""

    code = "spool_full"
    status = 507


class BlobMissing(ServingError):
    """The spool does not hold the blob (any more)."""

    code = "file_missing"
    status = 410


class Spool:
    """`place` is a folder or an fsspec URL (s3://bucket/prefix; its key and endpoint come from the AWS environment).

    `limit_bytes` bounds all that lies in it together.
    """

    def __init__(self, place: str | os.PathLike[str], limit_bytes: int) -> None:
        self.limit_bytes = limit_bytes
        # Other processes write there too: a listing that is kept would hide what they wrote.
        self._fs, root = fsspec.core.url_to_fs(os.fspath(place), use_listings_cache=False)
        self._root = root.rstrip("/")
        self._local = isinstance(self._fs, LocalFileSystem)
        self._lock = threading.Lock()
        self._incoming = f"{self._root}/incoming/"
        self._used = self._writing = 0
        self._measured_at = float("-inf")
        if self._local:
            Path(self._root).mkdir(parents=True, exist_ok=True, mode=0o700)

    # Blobs

    def put(self, chunks: Iterable[bytes | memoryview]) -> str:
        """Keep the bytes, in pieces of any size; their sha256, in hex. Raises SpoolFull, and what `chunks` raises."""
        digest = hashlib.sha256()
        held: list[bytes | memoryview] = []
        size = 0
        with self._room() as admit:
            pieces = _counted(chunks, admit, digest.update)
            for piece in pieces:
                held.append(piece)
                size += len(piece)
                if size > _IN_MEMORY:
                    break
            else:
                if self._renew(self._blob(digest.hexdigest())):
                    return digest.hexdigest()
            self._store(chain(held, pieces), lambda: self._blob(digest.hexdigest()))
            return digest.hexdigest()

    def size(self, blob: str) -> int:
        """Bytes of the blob. Raises BlobMissing."""
        return int(self._found(blob, lambda path: self._fs.size(path)))

    def read(self, blob: str, first_byte: int = 0, last_byte: int | None = None) -> bytes:
        """Bytes [first_byte, last_byte) of the blob, to its end when `last_byte` is None. Raises BlobMissing."""
        start = first_byte or None  # a range of an empty object is an error in S3
        return cast(bytes, self._found(blob, lambda path: self._fs.cat_file(path, start=start, end=last_byte)))

    def open(self, blob: str) -> BinaryIO:
        """The blob as a seekable file, read in parts as they are wanted. Raises BlobMissing."""
        return cast(BinaryIO, self._found(blob, lambda path: self._fs.open(path, "rb")))

    def exists(self, blob: str) -> bool:
        return bool(self._fs.exists(self._blob(blob)))

    def delete(self, blob: str, idle: float = -math.inf) -> bool:
        """Delete it, unless it was put within the last `idle` seconds (in S3, where putting again leaves the age of
        what is young, half an hour more); False then. Who puts it at the same moment has it all the same."""
        return self._remove_idle(self._blob(blob), idle)

    # Named things

    def save(self, name: str, data: bytes) -> None:
        """Keep `data` as `name` (segments of letters, digits and ._- divided by /), in place of what was there.

        Raises SpoolFull; ValueError for another name.
        """
        path = self._named(name)
        with self._room() as admit:
            admit(len(data))
            self._store([data], lambda: path)

    def load(self, name: str) -> bytes | None:
        """What was saved as `name`, or None."""
        try:
            return cast(bytes, self._fs.cat_file(self._named(name)))
        except FileNotFoundError:
            return None

    def forget(self, name: str, idle: float = -math.inf) -> bool:
        """Delete what was saved as `name` or below it, unless it was saved within the last `idle` seconds."""
        removed = [self._remove_idle(found, idle) for found in self._files(self._named(name))]
        return all(removed)

    # Room

    def usage(self) -> int:
        """Bytes of everything in the spool, counted now."""
        return sum(size for size, _ in self._files(self._root).values())

    def sweep(self, keep: Collection[str], older_than: float) -> int:
        """Delete what was last written, or put again, over `older_than` seconds ago; the bytes that this freed.

        `keep` are blobs and names that stay whatever their age; a name stands for all below it.
        """
        kept = frozenset(keep)
        freed = 0
        for path, (size, written) in self._files(self._root).items():
            kind, _, name = path[len(self._root) + 1 :].partition("/")
            age = time.time() - written
            if kind == "blobs":
                wanted = name.rpartition("/")[2] in kept
            elif kind == "named":
                parts = name.split("/")
                wanted = any("/".join(parts[: n + 1]) in kept for n in range(len(parts)))
            else:
                wanted = age <= _FRESH
            # Looked at again, because it may have been put once more since the listing.
            if not wanted and age > older_than and self._age(path) > older_than:
                self._remove(path)
                freed += size
        return freed

    def _age(self, path: str) -> float:
        """Seconds since a file was written; 0 when it is gone."""
        try:
            return time.time() - _written(self._fs.info(path))
        except FileNotFoundError:
            return 0.0

    # Files

    @contextmanager
    def _room(self) -> Iterator[Callable[[int], None]]:
        """Gives a function that takes bytes of what is left, or raises SpoolFull; they count as used if all goes well.

        What is being written counts beside what lies there, so unfinished files are not measured with it.
        """
        taken = 0

        def admit(more: int) -> None:
            nonlocal taken
            with self._lock:
                current = time.monotonic() - self._measured_at < _MEASURED
                fits = self._used + self._writing + more <= self.limit_bytes
            if not (current and fits):
                files = self._files(self._root)
                used = sum(size for path, (size, _) in files.items() if not path.startswith(self._incoming))
                with self._lock:
                    self._used, self._measured_at = used, time.monotonic()
            with self._lock:
                if self._used + self._writing + more > self.limit_bytes:
                    raise SpoolFull(
                        f"the spool is full: {self._used >> 20} MiB of {self.limit_bytes >> 20} MiB are taken;"
                        " delete finished jobs (speechlane jobs purge) or give it more room"
                    )
                self._writing += more
                taken += more

        kept = False
        try:
            yield admit
            kept = True
        finally:
            with self._lock:
                self._writing -= taken
                self._used += taken if kept else 0

    def _store(self, pieces: Iterable[bytes | memoryview], path: Callable[[], str]) -> None:
        """Write the pieces, then give them the name that `path` tells when all have been read."""
        temporary = self._incoming + uuid4().hex
        try:
            if self._local:
                self._store_local(pieces, path, temporary)
            else:
                self._store_remote(pieces, path, temporary)
        except BaseException as error:
            with suppress(OSError):
                self._remove(temporary)
            full = isinstance(error, OSError) and (error.errno in _FULL or _FULL_STORE.search(str(error)))
            if full:
                _log.error("there is no space left for the spool in %s: make room there", self._root)
                raise SpoolFull("there is no space left for the spool of files: make room on its disk") from error
            raise

    def _store_local(self, pieces: Iterable[bytes | memoryview], path: Callable[[], str], temporary: str) -> None:
        Path(temporary).parent.mkdir(exist_ok=True)
        with open(temporary, "xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
        try:
            Path(path()).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, path())
        except FileNotFoundError:  # somebody has just deleted the last file of that folder, and the folder
            Path(path()).parent.mkdir(parents=True, exist_ok=True)
            os.replace(temporary, path())

    def _store_remote(self, pieces: Iterable[bytes | memoryview], path: Callable[[], str], temporary: str) -> None:
        held: list[bytes | memoryview] = []
        size = 0
        pieces = iter(pieces)
        for piece in pieces:
            held.append(piece)
            size += len(piece)
            if size > 2 * _IN_MEMORY:
                break
        else:
            self._fs.pipe_file(path(), b"".join(held))  # one request: whole or not at all
            return
        file = self._fs.open(temporary, "wb", block_size=_IN_MEMORY)
        try:
            for piece in chain(held, pieces):
                file.write(piece)
        except BaseException:
            file.discard()
            file.closed = True  # else its finaliser would complete the upload
            raise
        file.close()
        if self._renew(path()):
            self._remove(temporary)
        else:
            self._fs.mv(temporary, path())

    def _renew(self, path: str) -> bool:
        """Whether the blob is there already and counts as written now, so that no sweep takes it for old."""
        if self._local:
            try:
                os.utime(path)
            except FileNotFoundError:
                return False
            return True
        try:
            return time.time() - _written(self._fs.info(path)) < _FRESH
        except FileNotFoundError:
            return False

    def _files(self, below: str) -> dict[str, tuple[int, float]]:
        """All files there: path -> (bytes, Unix time when it was written)."""
        found = self._fs.find(below, detail=True) if self._fs.exists(below) else {}
        return {path: (int(info["size"]), _written(info)) for path, info in found.items()}

    def _remove(self, path: str, known_as: str | None = None) -> None:
        with suppress(FileNotFoundError):
            if not self._local:
                self._fs.rm_file(path)
                return
            os.unlink(path)
            if (known_as or path).startswith(f"{self._root}/named/"):
                with suppress(OSError):  # others are in it
                    os.rmdir(os.path.dirname(known_as or path))

    def _remove_idle(self, path: str, idle: float) -> bool:
        """False when it is not idle for so long."""
        if idle > 0 and self._age(path) <= (idle if self._local else idle + _FRESH):
            return not self._fs.exists(path)
        if not self._local:
            self._remove(path)
            return True
        # Taken aside before the last look, so that nobody finds it between that and the end.
        aside = self._incoming + uuid4().hex
        Path(aside).parent.mkdir(exist_ok=True)
        with suppress(FileNotFoundError):
            os.rename(path, aside)
            if self._age(aside) <= idle:
                Path(path).parent.mkdir(parents=True, exist_ok=True)
                os.replace(aside, path)
                return False
            self._remove(aside, path)
        return True

    def _found(self, blob: str, use: Callable[[str], Any]) -> Any:
        try:
            return use(self._blob(blob))
        except FileNotFoundError:
            raise BlobMissing(f"the spool does not hold {blob}; it was deleted, or is in another spool") from None

    def _blob(self, blob: str) -> str:
        if not _BLOB.fullmatch(blob):
            raise ValueError(f"{blob!r} is no blob: a blob is named by its sha256 in hex")
        return f"{self._root}/blobs/{blob[:2]}/{blob}"

    def _named(self, name: str) -> str:
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: use letters, digits and ._- in segments divided by /")
        return f"{self._root}/named/{name}"


def _counted(
    chunks: Iterable[bytes | memoryview], admit: Callable[[int], None], see: Callable[[Any], None]
) -> Iterator[bytes | memoryview]:
    """The pieces as they come, each when there is room for it."""
    for chunk in chunks:
        admit(len(chunk))
        see(chunk)
        yield chunk


def _written(info: dict[str, Any]) -> float:
    when = info.get("mtime") or info["LastModified"]
    return float(when if isinstance(when, int | float) else when.timestamp())
