"""What the batch lane needs to know of its machine: where the queue and the spool are, and every limit."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from speech.models import cache_dir

GIB = 1 << 30


def data_dir() -> Path:
    """Where the embedded queue and the local spool live (beside the model cache, but never deleted as a cache is)."""
    return cache_dir() / "batch"


@dataclass(frozen=True, slots=True)
class BatchSettings:
    """Times in seconds, sizes in bytes.

    `redis_url` None starts the embedded server in `directory`. `spool_url` None is a folder in `directory`; else any
    fsspec URL (s3://bucket/prefix) that all workers reach.
    """

    directory: Path = field(default_factory=data_dir)
    redis_url: str | None = None
    spool_url: str | None = None
    lease: float = 15.0
    """A worker that is silent this long has lost its task to others."""
    deliveries: int = 3
    """Times that a task may kill its worker before it becomes a dead letter."""
    attempts: int = 3
    """Times that a task may fail with an error that may pass, each later than the one before."""
    patience: float = 3600.0
    """A task that finds no room in the spool is tried again for this long before it is a dead letter."""
    max_jobs: int = 10_000
    """Jobs not yet finished; more are refused."""
    max_file_bytes: int = 16 * GIB
    max_seconds: float = 48 * 3600.0
    spool_bytes: int = 64 * GIB
    """Sources, decoded audio and results together; a new file that does not fit is refused."""
    keep: float = 7 * 86_400.0
    """Finished jobs and their files go after this long."""
