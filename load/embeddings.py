"""Embeddings measured: bulk and online, alone and together, beside others, beside live speech.

    python -m load.embeddings bulk     documents/s beside sentence-transformers' encode: at least 1.15 times
    python -m load.embeddings lanes    online p99 while bulk runs: at most 1.5 times; bulk keeps at least 80 %
    python -m load.embeddings peers --infinity PYTHON
                                       beside infinity-emb, installed for that Python: bulk at least as fast, online p99
                                       at most as late
    python -m load.embeddings live     live transcription beside a bulk embed: its p95 moves by at most a tenth
    python -m load.embeddings order    2,000 texts in one call, each compared with itself alone

Everything that is compared runs in turns, --rounds times. Exit status 1 when a bar is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import shlex
import socket
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from load import embedding_bulk, report
from load.beside_live import compared
from load.embedding_texts import queries, texts
from load.embedding_wire import Asked, Flood, Target
from load.live import HEAD, Step, measure
from load.service import Running, machine, service

FASTER, LATER, KEPT = 1.15, 1.5, 0.8
MODEL = "all-MiniLM-L6-v2"
FLAGS = ("--voices", "", "--no-batch")
"""Of the service: nothing that a peer does not do."""


def ours(running: Running) -> Target:
    _wait(f"{running.url}/v1/embeddings", {"input": ["a"], "model": MODEL})
    return Target("speechlane", f"{running.url}/v1/embeddings", MODEL, lane="bulk", truncate=True)


def _wait(url: str, body: Any, seconds: float = 300.0) -> None:
    until = time.monotonic() + seconds
    while True:
        request = urllib.request.Request(url, json.dumps(body).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60):
                return
        except OSError as error:
            if time.monotonic() > until:
                raise SystemExit(f"{url} does not answer: {error}") from error
            time.sleep(0.5)


def lanes(options: argparse.Namespace) -> int:
    """Three turns a round: questions alone, bulk alone, both."""
    out, documents, asking = report.console(), texts(4000), queries()
    rows, alone, beside = [], [], []
    floods: dict[str, list[Flood]] = {"alone": [], "both": []}
    with service(options.url, [*FLAGS, *shlex.split(options.flags)]) as running:
        target = ours(running)

        async def turn(n: int) -> tuple[Asked, Flood, Asked, Flood]:
            first = await target.ask(asking, options.rate, options.seconds, n)
            flood = await target.flood(documents, options.seconds)
            stop = asyncio.Event()
            both = asyncio.create_task(target.flood(documents, 10 * options.seconds, stop=stop))
            await asyncio.sleep(1.0)
            second = await target.ask(asking, options.rate, options.seconds, n)
            stop.set()
            return first, flood, second, await both

        asyncio.run(target.ask(asking, options.rate, 3.0, 99))
        for n in range(options.rounds):
            with out.status(f"round {n + 1}"):
                first, flood, second, both = asyncio.run(turn(n))
            alone.append(first)
            beside.append(second)
            floods["alone"].append(flood)
            floods["both"].append(both)
            for name, asked, made in (("alone", first, flood), ("together", second, both)):
                figures = [f"{asked.percentile(percent):.1f}" for percent in (50, 95, 99)]
                rows.append((str(n + 1), name, *figures, f"{made.rate:.0f}"))
                out.print(rows[-1], highlight=False)
    out.print(machine(), highlight=False, style="dim")
    head = ("round", "", "online p50 ms", "p95 ms", "p99 ms", "bulk documents/s")
    out.print(report.table(f"{options.rate:g} questions a second", head, rows))
    before, after = _together(alone).percentile(99), _together(beside).percentile(99)
    rate = {name: float(np.mean([one.rate for one in found])) for name, found in floods.items()}
    out.print(f"online p99 of all rounds: {before:.1f} → {after:.1f} ms ({after / before:.2f} times; bar {LATER})")
    kept = rate["both"] / rate["alone"]
    out.print(f"bulk: {rate['alone']:.0f} → {rate['both']:.0f} documents/s ({kept:.0%}; bar {KEPT:.0%})")
    missed = _errors([*alone, *beside], [*floods["alone"], *floods["both"]])
    if after > LATER * before:
        missed.append(f"online p99 is {after / before:.2f} times as late while bulk runs")
    if kept < KEPT:
        missed.append(f"bulk keeps {kept:.0%} of its rate")
    return report.verdict(out, missed)


@contextmanager
def infinity(python: Path, model: Path) -> Iterator[Target]:
    """infinity-emb, serving the same files on a free port."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    flags = ["v2", "--model-id", str(model), "--served-model-name", MODEL, "--port", str(port), "--engine", "torch"]
    command = [str(python.with_name("infinity_emb")), *flags, "--device", "cpu", "--no-bettertransformer"]
    with tempfile.NamedTemporaryFile(prefix="infinity-", suffix=".log") as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            _wait(f"http://127.0.0.1:{port}/embeddings", {"input": ["a"], "model": MODEL})
            yield Target("infinity-emb", f"http://127.0.0.1:{port}/embeddings", MODEL)
        except SystemExit:
            report.console().print(Path(log.name).read_text(errors="replace")[-3000:])
            raise
        finally:
            process.terminate()
            process.wait(30)


def peers(options: argparse.Namespace) -> int:
    """Bulk and questions at both services, in turns; the one that waits is idle."""
    from vision_text.models import resolve

    out, documents, asking = report.console(), texts(4000), queries()
    floods: dict[str, list[Flood]] = {}
    asked: dict[str, list[Asked]] = {}
    rows = []
    with (
        service(options.url, [*FLAGS, *shlex.split(options.flags)]) as running,
        infinity(options.infinity, resolve(MODEL).directory) as peer,
    ):
        targets = [ours(running), peer]
        for target in targets:
            asyncio.run(target.flood(documents, 3.0))
        for n in range(options.rounds):
            for target in targets if n % 2 == 0 else targets[::-1]:
                with out.status(f"{target.name}, round {n + 1}"):
                    flood = asyncio.run(target.flood(documents, options.seconds))
                    found = asyncio.run(target.ask(asking, options.rate, options.seconds, n))
                floods.setdefault(target.name, []).append(flood)
                asked.setdefault(target.name, []).append(found)
                figures = [f"{found.percentile(percent):.1f}" for percent in (50, 95, 99)]
                rows.append((str(n + 1), target.name, f"{flood.rate:.0f}", *figures))
                out.print(rows[-1], highlight=False)
    out.print(machine(), highlight=False, style="dim")
    head = ("round", "", "bulk documents/s", "online p50 ms", "p95 ms", "p99 ms")
    out.print(report.table(f"bulk, then {options.rate:g} questions a second", head, rows))
    mine, theirs = [float(np.mean([one.rate for one in floods[target.name]])) for target in targets]
    own, other = (_together(asked[target.name]).percentile(99) for target in targets)
    out.print(f"bulk: {mine:.0f} beside {theirs:.0f} documents/s ({mine / theirs:.2f} times)")
    out.print(f"online p99 of all rounds: {own:.1f} beside {other:.1f} ms ({own / other:.2f} times)")
    missed = _errors(
        [one for found in asked.values() for one in found], [one for all in floods.values() for one in all]
    )
    if mine < theirs:
        missed.append("bulk is slower")
    if own > other:
        missed.append("online p99 is later")
    return report.verdict(out, missed)


def live(options: argparse.Namespace) -> int:
    """Streams of speech, alone and beside a flood of documents."""
    out, documents = report.console(), texts(4000)
    steps: dict[str, list[Step]] = {"alone": [], "beside bulk": []}
    rows, floods = [], []
    with service(options.url, [*FLAGS, *shlex.split(options.flags)]) as running:
        target = ours(running)

        async def turn(n: int, kind: str) -> Step:
            if kind == "alone":
                return await measure(running, options.streams, options.seconds, seed=n)
            stop = asyncio.Event()
            bulk = asyncio.create_task(target.flood(documents, 10 * options.seconds, stop=stop))
            await asyncio.sleep(1.0)
            step = await measure(running, options.streams, options.seconds, seed=n)
            stop.set()
            floods.append(await bulk)
            return step

        for n in range(options.rounds):
            for kind, found in steps.items():
                with out.status(f"{options.streams} streams {kind}, round {n + 1}"):
                    found.append(asyncio.run(turn(n, kind)))
                rows.append((kind, *found[-1].row()[1:]))
                out.print(rows[-1], highlight=False)
    out.print(machine(), highlight=False, style="dim")
    out.print(report.table("milliseconds, p50 / p95", HEAD, rows))
    missed = _errors([], floods) + compared(out, steps["alone"], steps["beside bulk"], "bulk")
    out.print(f"meanwhile bulk was embedded at {np.mean([one.rate for one in floods]):.0f} documents/s")
    return report.verdict(out, missed)


def order(options: argparse.Namespace) -> int:
    """One call, then every text by itself."""
    out, documents = report.console(), texts(2000)
    with service(options.url, [*FLAGS, *shlex.split(options.flags)]) as running:
        ours(running)
        whole = _vectors(running, documents)
        with out.status("one by one"):
            single = np.concatenate([_vectors(running, [text]) for text in documents])
    cosines = (whole * single).sum(1)
    nearest = int(((whole @ single.T).argmax(1) == np.arange(len(documents))).sum())
    out.print(machine(), highlight=False, style="dim")
    out.print(
        f"{len(documents)} texts: cosine with itself alone at least {cosines.min():.7f}; {nearest} nearest itself"
    )
    missed = [] if cosines.min() > 0.9999 else ["a vector depends on its batch, or on its place"]
    return report.verdict(out, missed)


def _vectors(running: Running, documents: list[str]) -> Any:
    body = {"input": documents, "model": MODEL, "encoding_format": "base64", "truncate": True}
    url, kind = f"{running.url}/v1/embeddings", {"Content-Type": "application/json"}
    request = urllib.request.Request(url, json.dumps(body).encode(), kind)
    with urllib.request.urlopen(request, timeout=600) as answer:
        data = json.load(answer)["data"]
    return np.stack([np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in data])


def _together(asked: list[Asked]) -> Asked:
    return Asked([seconds for one in asked for seconds in one.latencies])


def _errors(asked: list[Asked], floods: list[Flood]) -> list[str]:
    errors = [error for one in asked for error in one.errors] + [error for one in floods for error in one.errors]
    return [f"{len(errors)} requests failed, the first with: {errors[0]}"] if errors else []


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("bulk", "lanes", "peers", "live", "order"))
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=30.0, help="length of a turn (default %(default)g)")
    parser.add_argument("--rate", type=float, default=10.0, help="questions a second (default %(default)g)")
    parser.add_argument("--streams", type=int, default=2, help="live streams (default %(default)s)")
    parser.add_argument("--texts", type=int, default=2000, help="documents of bulk (default %(default)s)")
    parser.add_argument("--threads", type=int, default=None, help="of torch, in bulk (default: all cores)")
    parser.add_argument("--infinity", type=Path, help="Python that infinity-emb is installed for")
    options = parser.parse_args()
    if options.what == "peers" and options.infinity is None:
        parser.error("peers needs --infinity PYTHON")
    if options.what == "bulk":
        return embedding_bulk.run(options.texts, options.rounds, options.threads, FASTER)
    return int({"lanes": lanes, "peers": peers, "live": live, "order": order}[options.what](options))


if __name__ == "__main__":
    raise SystemExit(main())
