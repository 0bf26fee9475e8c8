"""Uploads that can be resumed, on disk: what came is there after the service, or the machine, was restarted.

An upload is two files: NAME.part with the bytes that have come, whose size is the offset, and NAME.json that says what
it will be. A request that writes holds an exclusive lock on the part, which ends with the process. All of this blocks
and belongs in a thread.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import logging
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

from batch_jobs.wire import dump, load
from gateway.batch.errors import (
    ChecksumMismatch,
    StorageFull,
    UploadBusy,
    UploadExpired,
    UploadNotFound,
)
from gateway.batch.places import share
from workers.errors import Overloaded

PIECE_BYTES = 1024 * 1024
SYNC_BYTES = 64 * 1024 * 1024
"""Bytes after which a long request's file is synchronised, so that the last one is quick."""
CHECKSUMS = {"sha1": hashlib.sha1, "sha256": hashlib.sha256, "md5": hashlib.md5}

log = logging.getLogger("speechlane.batch")

UPLOAD_ID = "[0-9a-f]{32}"
_NAME = re.compile(UPLOAD_ID)
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


@dataclass(frozen=True, slots=True)
class Upload:
    """What an upload will be. `length` in bytes; `metadata` is the header as it came."""

    name: str
    length: int
    metadata: str
    owner: str
    unproven: int | None = None
    """Offset behind which bytes wait for their checksum; they do not count until it was right."""
    job: str | None = None
    """The job that was made of it; the bytes are gone then."""

    @property
    def job_id(self) -> str:
        """The id of the job that is made of it, each time that one is."""
        return hashlib.sha256(f"job of upload {self.name}".encode()).hexdigest()[:22]


@dataclass(frozen=True, slots=True)
class Checksum:
    """What the bytes of one request must hash to."""

    algorithm: str
    digest: bytes


class UploadStore:
    """The uploads of one directory. Sizes in bytes, times in seconds."""

    def __init__(
        self,
        directory: Path,
        *,
        max_uploads: int,
        max_bytes: int,
        keep: float,
        keep_empty: float,
        keys: int = 0,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """At most `max_uploads` of together `max_bytes` announced, of which one of several `keys` has its share; each
        lives for `keep` after its last byte, and for `keep_empty` while it has none."""
        self._directory = directory
        self._max_uploads, self._max_bytes = max_uploads, max_bytes
        self._keep, self._keep_empty, self._keys = keep, keep_empty, keys
        self._clock = clock
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)

    def create(self, length: int, metadata: str, owner: str) -> Upload:
        """A new upload at offset 0; raises `Overloaded` or `StorageFull` when there is no room for it."""
        pending = [upload for upload in self._all() if upload.job is None and self._lives(upload)]
        own = [upload for upload in pending if upload.owner == owner]
        for those, most in ((pending, self._max_uploads), (own, share(self._max_uploads, self._keys))):
            if len(those) >= most:
                raise Overloaded(f"{most} uploads are open already; finish or delete one first.", retry_after=60.0)
        missing = length
        for upload in pending:
            with suppress(UploadNotFound):  # just deleted
                missing += upload.length - self.offset(upload)
        announced, mine = (length + sum(upload.length for upload in those) for those in (pending, own))
        full = announced > self._max_bytes or missing > shutil.disk_usage(self._directory).free
        # The share is of what others want as well: a file that may be sent at all may be sent alone.
        if full or (own and mine > share(self._max_bytes, self._keys)):
            raise StorageFull("There is no room for a file of this size now; try again when other jobs have ended.")
        upload = Upload(secrets.token_hex(16), length, metadata, owner)
        part = os.open(self._part(upload.name), os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        os.utime(part, (self._clock(), self._clock()))
        os.close(part)
        self._save(upload)
        return upload

    def get(self, name: str, owner: str) -> Upload:
        """Raises `UploadNotFound`, also for somebody else's, or `UploadExpired`."""
        upload = self._load(name) if _NAME.fullmatch(name) else None
        if upload is None or upload.owner != owner:
            raise UploadNotFound("There is no such upload; create one with POST /v1/batch/uploads.", param="upload")
        if self.expires(upload) <= self._clock():
            raise UploadExpired("The upload was not continued in time; create a new one.", param="upload")
        return upload

    def offset(self, upload: Upload) -> int:
        """Bytes that have come and count; the announced length when a job was made of them."""
        if upload.job is not None:
            return upload.length
        size = self._stat(upload).st_size
        return size if upload.unproven is None else min(size, upload.unproven)

    def expires(self, upload: Upload) -> float:
        """Unix time at which it goes when nothing more comes."""
        state = self._stat(upload)
        return state.st_mtime + (self._keep if state.st_size or upload.job else self._keep_empty)

    def _lives(self, upload: Upload) -> bool:
        with suppress(UploadNotFound):
            return self.expires(upload) > self._clock()
        return False

    def open(self, name: str, owner: str) -> Writer:
        """The upload, locked; raises what `get` raises and `UploadBusy`."""
        self.get(name, owner)
        try:
            file = os.open(self._part(name), os.O_RDWR | os.O_APPEND)
        except FileNotFoundError:
            raise UploadNotFound("There is no such upload any more.", param="upload") from None
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise UploadBusy("Another request is using this upload; try again when it has ended.") from None
        try:
            # Only now is it known what the one who held the lock has left.
            left = self._load(name)
            if left is None:
                raise UploadNotFound("There is no such upload any more.", param="upload")
            if left.unproven is not None:
                os.ftruncate(file, min(left.unproven, os.fstat(file).st_size))
                left = replace(left, unproven=None)
                self._save(left)
            return Writer(self, left, file)
        except BaseException:
            os.close(file)
            raise

    def sweep(self) -> None:
        """Delete what has expired, and what a crash left half made or half deleted."""
        for upload in self._all():
            with suppress(UploadNotFound):
                if self.expires(upload) <= self._clock():
                    self.remove(upload)
        for path in list(self._directory.iterdir()):
            with suppress(FileNotFoundError):
                whole = self._load(path.stem) is not None and self._part(path.stem).exists()
                if not whole and path.stat().st_mtime + self._keep <= self._clock():
                    path.unlink()

    def remove(self, upload: Upload) -> None:
        """Delete its files."""
        self._info(upload.name).unlink(missing_ok=True)
        self._part(upload.name).unlink(missing_ok=True)

    def _save(self, upload: Upload) -> None:
        path = self._info(upload.name)
        fresh = path.with_suffix(f".{secrets.token_hex(4)}.new")
        with fresh.open("w", encoding="utf-8") as file:
            file.write(dump(upload))
            file.flush()
            os.fsync(file.fileno())
        fresh.replace(path)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _load(self, name: str) -> Upload | None:
        """None when there is none, or when its file is damaged: one upload less, and the others go on."""
        try:
            upload = load(Upload, self._info(name).read_bytes())
        except FileNotFoundError:
            return None
        except ValueError:
            log.warning("the upload %s cannot be read any more and will be deleted", name)
            return None
        return upload if upload.name == name else None

    def _all(self) -> Iterator[Upload]:
        for path in self._directory.glob("*.json"):
            upload = self._load(path.stem)
            if upload is not None:
                yield upload

    def _stat(self, upload: Upload) -> os.stat_result:
        try:
            return self._part(upload.name).stat()
        except FileNotFoundError:
            raise UploadNotFound("There is no such upload any more.", param="upload") from None

    def _info(self, name: str) -> Path:
        return self._directory / f"{name}.json"

    def _part(self, name: str) -> Path:
        return self._directory / f"{name}.part"


class Writer:
    """One upload, held by one request. A context manager that lets go of it."""

    def __init__(self, store: UploadStore, upload: Upload, file: int) -> None:
        self.upload = upload
        self.offset = os.fstat(file).st_size
        self._store, self._file = store, file
        self._checksum: Checksum | None = None
        self._unsynced = 0

    def expect(self, checksum: Checksum) -> None:
        """What is written from here on counts only when `prove` finds that its checksum is right."""
        self._checksum = checksum
        self._hash = CHECKSUMS[checksum.algorithm](usedforsecurity=False)
        self._change(unproven=self.offset)

    def write(self, piece: bytes) -> None:
        """Append; raises `StorageFull` when the disk is, which leaves what fitted."""
        left = memoryview(piece)
        try:
            while left:
                done = os.write(self._file, left)
                self.offset += done
                left = left[done:]
        except OSError as error:
            if error.errno in _NO_ROOM:
                raise StorageFull("The disk is full; go on with this upload when there is room.") from error
            raise
        if self._checksum is not None:
            self._hash.update(piece)
        self._unsynced += len(piece)
        if self._unsynced >= SYNC_BYTES:
            self._sync()

    def prove(self) -> None:
        """All has come; raises `ChecksumMismatch`, after which the bytes of this request are gone."""
        if self._checksum is None:
            return
        if self._hash.digest() != self._checksum.digest:
            raise ChecksumMismatch("The bytes do not have this checksum; send them again.", param="Upload-Checksum")
        self._sync()
        self._change(unproven=None)

    def pieces(self) -> Iterator[bytes]:
        """The bytes from the start."""
        at = 0
        while piece := os.pread(self._file, PIECE_BYTES, at):
            at += len(piece)
            yield piece

    def became(self, job: str) -> None:
        """A job was made of it: the bytes go, and whoever asks again is told the job."""
        self._change(job=job)
        os.ftruncate(self._file, 0)
        self.offset = 0

    def remove(self) -> None:
        """Delete the upload."""
        self._store.remove(self.upload)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the upload; bytes whose checksum was not proven are gone."""
        try:
            if self.upload.unproven is not None:
                os.ftruncate(self._file, self.upload.unproven)
                self._change(unproven=None)
            self._sync()
        finally:
            os.close(self._file)

    def _sync(self) -> None:
        if self._unsynced:
            os.fsync(self._file)
            self._unsynced = 0

    def _change(self, **fields: int | str | None) -> None:
        self.upload = replace(self.upload, **fields)  # type: ignore[arg-type]
        self._store._save(self.upload)
