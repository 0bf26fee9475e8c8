"""Where the records of keys are: a JSON file, or a hash in Redis or Valkey. Everything here blocks."""

from __future__ import annotations

import json
import os
import tempfile
from pathlib import Path
from typing import Protocol
from urllib.parse import urlsplit

import redis
from filelock import FileLock, Timeout
from pydantic import TypeAdapter, ValidationError

from gateway.keys.record import Key

HASH = "speechlane:keys"
LOCK_SECONDS = 10.0
_KEYS = TypeAdapter(tuple[Key, ...])


class StoreFailed(Exception):
    """The keys cannot be read or written; the message says why, without a password."""


class KeyStore(Protocol):
    """Records by their id. All methods raise `StoreFailed`."""

    where: str
    """For messages, without a password."""

    def read(self) -> dict[str, Key]: ...

    def put(self, key: Key) -> None:
        """Add a record, or replace the one of the same id."""


class FileKeys:
    """One JSON file, readable by its owner alone. Writers take turns; a reader sees the old file or the new one."""

    def __init__(self, path: Path) -> None:
        self.where = str(path)
        self._path = path

    def read(self) -> dict[str, Key]:
        try:
            data = self._path.read_bytes()
        except FileNotFoundError:
            return {}
        except OSError as error:
            raise StoreFailed(f"{self.where} cannot be read: {error.strerror}") from error
        try:
            return {key.id: key for key in _KEYS.validate_json(data)}
        except ValidationError as error:
            raise StoreFailed(f"{self.where} holds no keys: {_problem(error)}") from None

    def put(self, key: Key) -> None:
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            with FileLock(f"{self._path}.lock", timeout=LOCK_SECONDS):
                self._write(self.read() | {key.id: key})
        except Timeout:
            raise StoreFailed(f"{self.where} is being written by somebody else; try again") from None
        except OSError as error:
            raise StoreFailed(f"{self.where} cannot be written: {error.strerror}") from error

    def _write(self, keys: dict[str, Key]) -> None:
        data = json.dumps([key.model_dump(mode="json") for key in keys.values()], indent=1)
        # mkstemp makes files that only their owner can read.
        number, name = tempfile.mkstemp(dir=self._path.parent, prefix=f".{self._path.name}.")
        try:
            with os.fdopen(number, "w") as file:
                file.write(data + "\n")
                file.flush()
                os.fsync(file.fileno())
            os.replace(name, self._path)
        except BaseException:
            Path(name).unlink(missing_ok=True)
            raise


class RedisKeys:
    """A hash of one server, for several services that share their keys."""

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.where = f"{parts.scheme}://{parts.hostname or parts.path}"
        self._redis = redis.Redis.from_url(url, socket_timeout=5.0, socket_connect_timeout=5.0)

    def read(self) -> dict[str, Key]:
        try:
            records = self._redis.hgetall(HASH)
            return {key.id: key for key in map(Key.model_validate_json, records.values())}
        except redis.RedisError as error:
            raise StoreFailed(f"{self.where} cannot be read: {type(error).__name__}") from error
        except ValidationError as error:
            raise StoreFailed(f"{self.where} holds no keys: {_problem(error)}") from None

    def put(self, key: Key) -> None:
        try:
            self._redis.hset(HASH, key.id, key.model_dump_json())
        except redis.RedisError as error:
            raise StoreFailed(f"{self.where} cannot be written: {type(error).__name__}") from error


def open_store(where: str) -> KeyStore:
    """The store at a path or a redis://, rediss:// or unix:// URL; nothing is opened yet."""
    if where.startswith(("redis://", "rediss://", "unix://")):
        return RedisKeys(where)
    return FileKeys(Path(where).expanduser())


def _problem(error: ValidationError) -> str:
    # Without the values, which are hashes.
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the whole'}: {first['msg']}"
