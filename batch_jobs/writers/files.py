"""Files that are whole or not there: nobody ever reads half a transcript."""

from __future__ import annotations

import os
import secrets
from pathlib import Path


def write_file(path: Path, data: bytes) -> None:
    """Put `data` at `path` at once: written beside it, flushed to the disk, renamed. Raises OSError.

    A file that was there is replaced (through a symbolic link, the one it leads to), or stays whole on any failure.
    """
    path = Path(os.path.realpath(path))
    beside = path.with_name(f".{secrets.token_hex(8)}.part")
    try:
        # Not mkstemp: the file shall have the rights that the user's umask gives.
        with open(beside, "xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(beside, path)
    except BaseException:
        beside.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(directory: Path) -> None:
    """Make the new name itself last."""
    descriptor = os.open(directory, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
