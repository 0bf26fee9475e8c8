"""Is this file the one the manifest names? Hashed in full once, then recognised by size and modification time."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from speech.models.cache import cache_dir
from speech.models.errors import ModelCorrupt

_BLOCK = 1 << 20  # bytes


def copy_hashed(parts: Iterable[Path], target: BinaryIO | None = None) -> str:
    """The sha256 of the parts one after the other, in hexadecimal; written to `target` on the way when given."""
    digest = hashlib.sha256()
    for part in parts:
        with part.open("rb") as stream:
            while block := stream.read(_BLOCK):
                digest.update(block)
                if target is not None:
                    target.write(block)
    return digest.hexdigest()


def require(path: Path, sha256: str, *, remedy: str) -> None:
    """Refuse a file that is missing or differs. A file hashed before costs one `stat` as long as it looks the same.

    Raises ModelCorrupt with `remedy`, a sentence.
    """
    try:
        status = path.stat()
    except FileNotFoundError:
        raise ModelCorrupt(f"{path} is missing. {remedy}") from None
    record = _record_path(path)
    seen = {"path": str(path), "size": status.st_size, "mtime_ns": status.st_mtime_ns, "sha256": sha256}
    if _read_record(record) == seen:
        return
    found = copy_hashed([path])
    if found != sha256:
        raise ModelCorrupt(f"{path} has sha256 {found}, the manifest says {sha256}; it is not loaded. {remedy}")
    # Without a writable cache the file is hashed again next time; that is slower and still right.
    with contextlib.suppress(OSError):
        _write_record(record, seen)


def _record_path(path: Path) -> Path:
    return cache_dir() / "verified" / f"{hashlib.sha256(str(path).encode()).hexdigest()[:24]}.json"


def _read_record(record: Path) -> object:
    try:
        return json.loads(record.read_text("utf-8"))
    except (OSError, ValueError):
        return None


def _write_record(record: Path, seen: dict[str, object]) -> None:
    record.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=record.parent)
    try:
        with open(handle, "w", encoding="utf-8") as stream:
            json.dump(seen, stream)
        os.replace(name, record)
    except OSError:
        os.unlink(name)
        raise
