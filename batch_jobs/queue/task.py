"""What the queue carries: tasks, the lease under which a worker runs one, and dead letters."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from enum import StrEnum

MAX_PAYLOAD = 64 * 1024
"""Bytes of a payload: audio travels by reference."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,127}")


class Kind(StrEnum):
    """What is to be done. A job cannot do without its SPLIT, STITCH and WRITE; one CHUNK or REPAIR it can lose."""

    SPLIT = "split"
    CHUNK = "chunk"
    STITCH = "stitch"
    REPAIR = "repair"
    WRITE = "write"


@dataclass(frozen=True, slots=True)
class Task:
    """A piece of work of a job. `id` is unique within the job; `payload` is JSON text. `covers`: seconds of audio that
    count as `Job.covered` when it is given up; not read back.

    Raises ValueError when an id has other characters than letters, digits and `._:-`, or the payload is too long.
    """

    job: str
    id: str
    kind: Kind
    payload: str = ""
    covers: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        for name in (self.job, self.id):
            if not _NAME.fullmatch(name):
                raise ValueError(f"{name!r} is no name for a job or task: use at most 128 letters, digits and ._:-")
        if len(self.payload.encode()) > MAX_PAYLOAD:
            raise ValueError(f"The payload of task {self.id} is longer than {MAX_PAYLOAD} bytes: pass it by reference")

    @property
    def text(self) -> str:
        """Kind and payload as the store keeps them."""
        return f"{self.kind} {self.payload}"

    @classmethod
    def parse(cls, job: str, id: str, text: str) -> Task:
        kind, _, payload = text.partition(" ")
        return cls(job, id, Kind(kind), payload)


@dataclass(frozen=True, slots=True)
class Dead:
    """A task that was given up. `at` is Unix time; `deliveries` counts how often it was tried."""

    job: str
    task: str
    kind: Kind
    reason: str
    deliveries: int
    at: float


@dataclass(slots=True, eq=False)
class Lease:
    """The right to run a task, kept alive by the queue's renewal thread until it is committed, failed or given back.

    Look at `lost` between two pieces of work: when it is set, nothing that follows can count.
    """

    task: Task
    attempt: int
    """From 1; grows when the task failed and is tried again."""
    deliveries: int
    """From 1; grows when a worker died with it."""
    stream: str
    """Name of the stream it waits in."""
    message: str
    """Id of the stream entry."""
    run: str
    """Which run of the job it belongs to: a retry of the job starts a new one."""
    lost: bool = False
    """It is no longer ours, or the job was cancelled."""
    cancelled: bool = False
    over: bool = False
    """Committed, failed or given back."""
    fanned_out: list[tuple[list[tuple[str, str, float]], dict[str, str]]] = field(default_factory=list)
    """Tasks that were added under it, with what they increased; the commit makes sure of them."""
