"""Batches as they lie in the spool and travel through Redis."""

from __future__ import annotations

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from batch_jobs.queue.scripts import PREFIX
from batch_jobs.spool import Spool
from vision_text.embeddings.space import Space
from vision_text.ingest.pipeline import Made

GROUP = "embedders"
MOST = 64 << 20
"""Bytes of a batch or its vectors."""


def stream(space: Space) -> str:
    """The stream of work for one model: only who has loaded it reads it."""
    return f"{PREFIX}embed:{space.model}:{space.revision}"


def replies(run: str) -> str:
    """The list that a producer hears of its batches by."""
    return f"{PREFIX}embed-done:{run}"


@dataclass(frozen=True, slots=True)
class Order:
    """A batch to be embedded: the blob of its texts, the space of its vectors, who waits for it."""

    batch: str
    space: Space
    run: str

    def fields(self) -> dict[str, str]:
        return {"batch": self.batch, "space": json.dumps(self.space.to_dict()), "run": self.run}

    @classmethod
    def parse(cls, fields: dict[str, str]) -> Order:
        """Raises InputInvalid, KeyError, ValueError."""
        return cls(fields["batch"], Space.from_dict(json.loads(fields["space"])), fields["run"])

    @property
    def result(self) -> str:
        """Where in the spool its vectors are."""
        return f"embeddings/{self.space.fingerprint}/{self.batch}"


def put_texts(spool: Spool, texts: Sequence[str]) -> str:
    """The blob of a batch."""
    return spool.put([json.dumps(list(texts), ensure_ascii=False).encode()])


def texts_of(spool: Spool, batch: str) -> list[str]:
    """Raises BlobMissing."""
    found: list[str] = json.loads(spool.read(batch))
    return found


def save(spool: Spool, order: Order, made: Made) -> None:
    """Keep the vectors of a batch."""
    data = io.BytesIO()
    told: Any = json.dumps({"tokens": made.tokens, "errors": made.errors}).encode()
    np.savez(data, vectors=made.vectors, told=np.frombuffer(told, np.uint8))
    spool.save(order.result, data.getvalue())


def load(spool: Spool, order: Order) -> Made | None:
    """The vectors of a batch; None while there are none."""
    data = spool.load(order.result)
    if data is None:
        return None
    with np.load(io.BytesIO(data), allow_pickle=False) as found:
        told = json.loads(found["told"].tobytes())
        return Made(found["vectors"], told["tokens"], {int(n): reason for n, reason in told["errors"].items()})
