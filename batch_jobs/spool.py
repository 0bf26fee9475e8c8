"""Where the bytes of jobs lie: sources, decoded audio and results, in a folder or an S3 bucket that all workers reach.

A *blob* is named by the sha256 of its bytes, so the same file submitted twice is kept once, and a task that runs again
writes what is there already. A *named* thing (a result, a transcript) is small and may be written again. Both appear
whole or not at all. Everything here blocks: call it from a worker thread. Safe for use by many threads and processes.
"""

from __future__ import annotations

import errno
import hashlib
import os
import re
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
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
_FRESH = 3600.0
"""Seconds for which a blob counts as just written, so that a second writer need not renew it; and the age under which
no sweep touches an upload that is not finished."""
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_FULL_STORE = re.compile(r"StorageFull|QuotaExceeded|InsufficientStorage|no space left", re.IGNORECASE)
_BLOB = re.compile(r"[0-9a-f]{64}")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(/[A-Za-z0-9][A-Za-z0-9._-]*)*")
_LONGEST_NAME = 200


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
        self._used, self._measured_at = 0, float("-inf")
        if self._local:
            Path(self._root).mkdir(parents=True, exist_ok=True, mode=0o700)

    # Blobs

    def put(self, chunks: Iterable[bytes | memoryview]) -> str:
        """Keep the bytes, in pieces of any size; their sha256, in hex. Raises SpoolFull, and what `chunks` raises."""
        digest = hashlib.sha256()
        held: list[bytes | memoryview] = []
        size = 0
        pieces = self._counted(chunks, digest.update)
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
        return cast(bytes, self._found(blob, lambda path: self._fs.cat_file(path, start=first_byte, end=last_byte)))

    def open(self, blob: str) -> BinaryIO:
        """The blob as a seekable file, read in parts as they are wanted. Raises BlobMissing."""
        return cast(BinaryIO, self._found(blob, lambda path: self._fs.open(path, "rb")))

    def exists(self, blob: str) -> bool:
        return bool(self._fs.exists(self._blob(blob)))

    def delete(self, blob: str) -> None:
        """Nothing happens when it is not there."""
        self._remove(self._blob(blob))

    # Named things

    def save(self, name: str, data: bytes) -> None:
        """Keep `data` as `name` (segments of letters, digits and ._- divided by /), in place of what was there.

        Raises SpoolFull; ValueError for another name.
        """
        path = self._named(name)
        self._store(self._counted([data], None), lambda: path)

    def load(self, name: str) -> bytes | None:
        """What was saved as `name`, or None."""
        try:
            return cast(bytes, self._fs.cat_file(self._named(name)))
        except FileNotFoundError:
            return None

    def forget(self, name: str) -> None:
        """Delete what was saved as `name` or below it; nothing happens when there is nothing."""
        path = self._named(name)
        for found in self._files(path):
            self._remove(found)
        self._remove(path)

    # Room

    def usage(self) -> int:
        """Bytes of everything in the spool, counted now."""
        used = sum(size for size, _ in self._files(self._root).values())
        with self._lock:
            self._used, self._measured_at = used, time.monotonic()
        return used

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
            if not wanted and age > older_than:
                self._remove(path)
                freed += size
        return freed

    # Files

    def _counted(self, chunks: Iterable[bytes | memoryview], see: Callable[[Any], None] | None) -> Iterator[Any]:
        """The pieces as they come, each only when there is room for it."""
        total = 0
        for chunk in chunks:
            total += len(chunk)
            self._admit(total, len(chunk))
            if see is not None:
                see(chunk)
            yield chunk

    def _admit(self, total: int, more: int) -> None:
        with self._lock:
            fits = self._used + more <= self.limit_bytes
            current = time.monotonic() - self._measured_at < _MEASURED
            if fits and current:
                self._used += more
                return
        used = self.usage()  # with what is written of this file, where it is a local one
        if max(used + more, total) > self.limit_bytes:
            raise SpoolFull(
                f"the spool is full: {used >> 20} MiB of {self.limit_bytes >> 20} MiB are taken;"
                " delete finished jobs (speechlane jobs purge) or give it more room"
            )
        with self._lock:
            self._used += more

    def _store(self, pieces: Iterable[bytes | memoryview], path: Callable[[], str]) -> None:
        """Write the pieces, then give them the name that `path` tells when all have been read."""
        temporary = f"{self._root}/incoming/{uuid4().hex}"
        try:
            if self._local:
                self._store_local(pieces, path, temporary)
            else:
                self._store_remote(pieces, path, temporary)
        except BaseException as error:
            with self._lock:
                self._measured_at = float("-inf")
            with suppress(OSError):
                self._remove(temporary)
            full = isinstance(error, OSError) and (error.errno in _FULL or _FULL_STORE.search(str(error)))
            if full:
                raise SpoolFull(f"there is no space left for the spool in {self._root}: make room there") from error
            raise

    def _store_local(self, pieces: Iterable[bytes | memoryview], path: Callable[[], str], temporary: str) -> None:
        Path(temporary).parent.mkdir(exist_ok=True)
        with open(temporary, "xb") as file:
            for piece in pieces:
                file.write(piece)
            file.flush()
            os.fsync(file.fileno())
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

    def _remove(self, path: str) -> None:
        with suppress(FileNotFoundError):
            if self._local:
                os.unlink(path)
            else:
                self._fs.rm_file(path)

    def _found(self, blob: str, use: Callable[[str], Any]) -> Any:
        try:
            return use(self._blob(blob))
        except FileNotFoundError:
            raise BlobMissing(
                f"the spool in {self._root} does not hold {blob}; it was deleted, or is in another"
            ) from None

    def _blob(self, blob: str) -> str:
        if not _BLOB.fullmatch(blob):
            raise ValueError(f"{blob!r} is no blob: a blob is named by its sha256 in hex")
        return f"{self._root}/blobs/{blob[:2]}/{blob}"

    def _named(self, name: str) -> str:
        if len(name) > _LONGEST_NAME or not _NAME.fullmatch(name):
            raise ValueError(f"{name!r} is no name: use letters, digits and ._- in segments divided by /")
        return f"{self._root}/named/{name}"


def _written(info: dict[str, Any]) -> float:
    when = info.get("mtime") or info["LastModified"]
    return float(when if isinstance(when, int | float) else when.timestamp())
