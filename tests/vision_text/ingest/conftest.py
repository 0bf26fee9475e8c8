"""The real model in a loop of its own, loaded once, for tests that are no coroutines themselves."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

import pytest

from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from workers.device import Device

T = TypeVar("T")
MODEL = "all-MiniLM-L6-v2"


@dataclass
class Loaded:
    """An embedder, and what runs coroutines where it lives."""

    embedder: Embedder
    run: Callable[[Coroutine[Any, Any, Any]], Any]


@pytest.fixture(scope="package")
def loaded() -> Iterator[Loaded]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    def run(work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, loop).result(100)

    device = Device("cpu:0")
    embedder = run(Embedder.start([device], EmbeddingSettings(threads=1)))
    device.start()
    yield Loaded(embedder, run)
    run(embedder.close())
    device.close()
    loop.call_soon_threadsafe(loop.stop)
    thread.join()
    loop.close()
