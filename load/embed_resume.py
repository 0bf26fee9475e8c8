"""Kill an ingest at random moments until it is done: every document has to be in the collection once, none missing.

    python -m load.embed_resume --kills 20 --documents 3000

Each time the same command is started again. It is killed with SIGKILL, so nothing of it can tidy up. With --workers the
vectors come from two `speechlane embed-worker`, one of which is killed each time as well.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from vision_text.store.store import Store

WORDS = ("river", "stone", "bridge", "winter", "letter", "garden", "market", "engine", "morning", "window", "harbour")
BATCH = 50
"""Pieces of a write here; small, so that a short run has many of them to be killed in."""
START = (
    "import vision_text.ingest.pipeline as pipeline; pipeline.BATCH_PIECES = {batch}; "
    "from gateway.cli import app; app()"
)


def documents(path: Path, count: int) -> dict[str, str]:
    """A file of JSONL with so many documents, some of them broken; the texts of the good ones by id."""
    chance = random.Random(5)
    good = {}
    with path.open("w", encoding="utf-8") as file:
        for n in range(count):
            text = " ".join(chance.choices(WORDS, k=chance.randint(4, 24))) + f" {n}"
            good[f"d{n}"] = text
            file.write(json.dumps({"id": f"d{n}", "text": text, "number": n}) + "\n")
            if n % 97 == 0:
                file.write("broken\n")
    return good


def command(*arguments: str) -> list[str]:
    """The command line of Speechlane with small batches."""
    return [sys.executable, "-W", "ignore", "-c", START.format(batch=BATCH), *arguments]


class Trial:
    """One ingest that is killed and started again."""

    def __init__(self, directory: Path, count: int, *, workers: bool) -> None:
        self.directory, self.source = directory, directory / "documents.jsonl"
        self.good = documents(self.source, count)
        self.faults = directory / "faults.jsonl"
        self._workers = workers
        self.environment = {
            **os.environ,
            "SPEECHLANE_COLLECTIONS": str(directory / "collections"),
            "SPEECHLANE_CACHE": str(directory / "cache"),
            "SPEECHLANE_BATCH_DIR": str(directory / "batch"),
            "PYTHONPATH": os.getcwd(),
        }

    def ingest(self) -> subprocess.Popen[bytes]:
        arguments = ["embed", str(self.source), "--into", "trial", "--threads", "1", "--errors", str(self.faults)]
        return self._start(*arguments, *(["--workers"] if self._workers else []))

    def worker(self) -> subprocess.Popen[bytes]:
        return self._start("embed-worker", "--threads", "1")

    def stored(self) -> int:
        """Pieces that are there now."""
        try:
            with Store.open(self.directory / "collections") as store:
                return store.collection("trial").count()
        except Exception:
            return 0

    def verdict(self) -> list[str]:
        """What is wrong; nothing when every document is there once, with its text, and every fault is told once."""
        with Store.open(self.directory / "collections") as store:
            found = [piece for pieces, _ in store.collection("trial").rows() for piece in pieces]
        counted = Counter(piece.document for piece in found)
        wrong = [f"{id} is there {times} times" for id, times in counted.items() if times != 1]
        wrong += [f"{id} is missing" for id in self.good.keys() - counted.keys()]
        wrong += [
            f"{piece.document} has another text" for piece in found if self.good.get(piece.document) != piece.text
        ]
        told = Counter(json.loads(line)["where"] for line in self.faults.read_text("utf-8").splitlines())
        wrong += [f"the fault {where} is told {times} times" for where, times in told.items() if times != 1]
        if len(told) != (len(self.good) + 96) // 97:
            wrong.append(f"{len(told)} faults are told")
        return wrong

    def _start(self, *arguments: str) -> subprocess.Popen[bytes]:
        log = (self.directory / "log.txt").open("ab")
        return subprocess.Popen(command(*arguments), env=self.environment, stdout=log, stderr=log)


def run(trial: Trial, kills: int, *, workers: bool, seed: int = 1, patience: float = 600.0) -> list[str]:
    """Kill so many times, each after some of the documents have been stored, then let it end."""
    chance = random.Random(seed)
    helpers = [trial.worker() for _ in range(2 if workers else 0)]
    try:
        for number in range(1, kills + 1):
            before, process = trial.stored(), trial.ingest()
            # A share of what is left, so that the last kill still finds something to do; then a random moment.
            aim = before + (len(trial.good) - before) // (kills - number + 3)
            deadline = time.monotonic() + patience
            while process.poll() is None and trial.stored() < aim and time.monotonic() < deadline:
                time.sleep(0.05)
            time.sleep(chance.random() * 0.5)
            ended = process.poll() is not None
            process.send_signal(signal.SIGKILL)
            process.wait()
            if helpers:
                helpers[0].kill()
                helpers[0].wait()
                helpers = [helpers[1], trial.worker()]
            print(f"kill {number}: {before} -> {trial.stored()} stored{', it had ended' if ended else ''}", flush=True)
        last = trial.ingest()
        code = last.wait(patience)
        if code != 3:  # some documents could not be stored
            return [f"the last run ended with {code}: {(trial.directory / 'log.txt').read_text('utf-8')[-2000:]}"]
        return trial.verdict()
    finally:
        for helper in helpers:
            helper.kill()
            helper.wait()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--documents", type=int, default=3000)
    parser.add_argument("--workers", action="store_true")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as directory:
        trial = Trial(Path(directory), options.documents, workers=options.workers)
        wrong = run(trial, options.kills, workers=options.workers, seed=options.seed)
        print(f"{len(trial.good)} documents, killed {options.kills} times: {len(wrong)} wrong")
        for line in wrong[:20]:
            print(f"  {line}")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
