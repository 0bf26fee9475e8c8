"""Vectors that depend on nothing but the text, from a model whose steps take a fixed time."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from vision_text.embeddings.embedder import Embedded
from vision_text.embeddings.space import Space
from workers.backend import Limits, Spec
from workers.device import Device
from workers.onestep import OneStep
from workers.pool import Pool
from workers.task import Lane

DIMENSIONS = 16
SPACE = Space("hashes", "0", "none", "", True, DIMENSIONS, "float32")


class Hashes(OneStep):
    """The model."""

    def __init__(self, seconds: float) -> None:
        self.spec = Spec(task="embed", model="hashes")
        self.limits = Limits(items=64)
        self._seconds = seconds

    def run(self, payloads: Sequence[Any]) -> Sequence[Any]:
        time.sleep(self._seconds)
        return [vector(text) for text in payloads]


def vector(text: str) -> np.ndarray:
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    found = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
    return found / np.linalg.norm(found)


class Embedder:
    """What the service has of an embedder."""

    def __init__(self, seconds: float) -> None:
        self._device = Device("hashes")
        self._device.add(Hashes(seconds))
        self._device.start()
        self._pool = Pool("hashes", [self._device])

    def resolve(self, name: str | None) -> str:
        return "hashes"

    def models(self) -> list[Any]:
        return []

    async def embed(self, inputs: Sequence[Any], **how: Any) -> Embedded:
        deadline = time.monotonic() + 1.0
        handles = [self._pool.submit(text, lane=Lane.INTERACTIVE, deadline=deadline) for text in inputs]
        vectors = np.stack([await handle.result() for handle in handles])
        return Embedded(vectors, [1] * len(inputs), [False] * len(inputs), {}, SPACE)

    async def close(self) -> None:
        self._device.close()
