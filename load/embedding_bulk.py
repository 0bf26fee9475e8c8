"""Documents a second in one process: our embedder's bulk lane beside sentence-transformers' encode, in turns."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from load import report
from load.embedding_texts import texts
from load.service import machine
from vision_text.embeddings.embedder import Embedder, EmbeddingSettings
from vision_text.models import resolve
from workers.device import Device
from workers.task import Lane

BATCHES = (4, 8, 16, 32, 64, 128)
MODEL = "all-MiniLM-L6-v2"


def run(count: int, rounds: int, threads: int | None, faster: float) -> int:
    """The table; 1 when the bar is missed."""
    from sentence_transformers import SentenceTransformer

    out, documents = report.console(), texts(count)
    if threads is not None:
        torch.set_num_threads(threads)
    peer = SentenceTransformer(str(resolve(MODEL).directory), device="cpu")
    best = _best(peer, documents[: max(64, count // 4)], out)
    device = Device("cpu")
    exact = asyncio.run(Embedder.start([device], EmbeddingSettings()))
    short = Device("cpu bfloat16", "cpu")
    fast = asyncio.run(Embedder.start([short], EmbeddingSettings(arithmetic="bfloat16")))
    device.start()
    short.start()

    counted: list[int] = []

    def ours(embedder: Embedder) -> Callable[[], Any]:
        def way() -> Any:
            made = asyncio.run(embedder.embed(documents, lane=Lane.BULK, truncate=True))
            counted.append(sum(made.tokens))
            return made.vectors

        return way

    ways: dict[str, Callable[[], Any]] = {
        f"sentence-transformers, batches of {best}": lambda: peer.encode(documents, batch_size=best),
        "speechlane, float32": ours(exact),
        "speechlane, bfloat16": ours(fast),
    }
    seconds: dict[str, list[float]] = {name: [] for name in ways}
    processor: dict[str, list[float]] = {name: [] for name in ways}
    vectors: dict[str, Any] = {}
    for n in range(rounds):
        for name, way in list(ways.items())[:: 1 if n % 2 == 0 else -1]:
            with out.status(f"{name}, round {n + 1}"):
                began, used = time.perf_counter(), time.process_time()
                vectors[name] = way()
                seconds[name].append(time.perf_counter() - began)
                processor[name].append(time.process_time() - used)
            out.print(f"{name}: {count / seconds[name][-1]:.1f} documents/s", highlight=False)
    device.close()
    short.close()
    reference, *others = ways
    tokens = counted[-1]
    rows = []
    for name in ways:
        took, cosine = float(np.median(seconds[name])), (vectors[name] * vectors[reference]).sum(1).min()
        times = float(np.median(seconds[reference])) / took
        used = float(np.median(processor[name]))
        rows.append(
            (name, f"{count / took:.1f}", f"{tokens / took:.0f}", f"{used:.1f}", f"{times:.2f}", f"{cosine:.6f}")
        )
    out.print(machine() + f"; {torch.get_num_threads()} threads", highlight=False, style="dim")
    head = ("", "documents/s", "tokens/s", "CPU s", "times", "least cosine")
    out.print(report.table(f"{count} documents, {tokens} tokens, medians of {rounds} rounds", head, rows))
    times = float(np.median(seconds[reference]) / np.median(seconds[others[0]]))
    missed = [] if times >= faster else [f"{times:.2f} times as fast as sentence-transformers; the bar is {faster}"]
    return report.verdict(out, missed)


def _best(peer: Any, documents: list[str], out: Any) -> int:
    """The batch size with which encode is fastest here."""
    found = {}
    peer.encode(documents[:32])
    for size in BATCHES:
        began = time.perf_counter()
        peer.encode(documents, batch_size=size)
        found[size] = len(documents) / (time.perf_counter() - began)
        out.print(f"encode in batches of {size}: {found[size]:.1f} documents/s", highlight=False)
    return max(found, key=lambda size: found[size])
