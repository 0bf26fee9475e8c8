"""Every fuzzer for so many minutes, one after the other, and a table of what came of it.

    python -m tests.fuzz.run --all --minutes 10
    python -m tests.fuzz.run --target wyoming --target media --minutes 2

Needs atheris (`pip install -c constraints.txt atheris`). Inputs that reached something new stay in DIR/corpus/TARGET,
where the next run begins; those that a target failed on are DIR/faults/*.input, each with its traceback in .txt. An
input on which the process itself ended (a crash of a library, too much time or memory) is there as well, as libFuzzer
names it (crash-, timeout-, oom-). The status is 1 when there was any fault.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

MEMORY_MB = 3000
"""Of a fuzzer's process, in which torch is loaded."""
SECONDS_EACH = 20
"""That one input may take; far more than any does, because a machine may be busy."""
PATIENCE = 180
"""Seconds for loading everything, and for the input at hand."""


@dataclass(frozen=True)
class Outcome:
    """What came of one fuzzer. `reached`: edges of our own code."""

    target: str
    executions: int
    reached: int
    corpus: int
    faults: int
    seconds: float


def fuzz(name: str, longest: int, minutes: float, directory: Path) -> Outcome:
    """Run one fuzzer in a process of its own; begun anew when it was ended by an input, for the time that is left."""
    corpus, faults, log = directory / "corpus" / name, directory / "faults", directory / "logs" / f"{name}.log"
    for made in (corpus, faults, log.parent):
        made.mkdir(parents=True, exist_ok=True)
    before = set(faults.iterdir())
    began, executions, reached, left = time.monotonic(), 0, 0, minutes * 60
    log.write_bytes(b"")
    while left > 1:
        command = [
            *(sys.executable, "-m", "tests.fuzz.guided", name, "--corpus", str(corpus), "--faults", str(faults)),
            *(f"-max_total_time={round(left)}", f"-max_len={longest}", f"-rss_limit_mb={MEMORY_MB}"),
            *(f"-timeout={SECONDS_EACH}", f"-artifact_prefix={faults}/{name}-"),
        ]  # fmt: skip
        started = time.monotonic()
        with log.open("ab") as out:
            at = out.tell()
            environment = {**os.environ, "OMP_NUM_THREADS": "1", "SPEECHLANE_BATCH": "false"}
            process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, env=environment)
            status = _ended(process, left + PATIENCE)
            if status is None:
                (faults / f"{name}-hung-{int(time.time())}").write_text("the process did not end")
                status = 0
        told = log.read_bytes()[at:].decode("utf-8", "replace")
        executions += max(map(int, re.findall(r"(?m)^#(\d+)", told)), default=0)
        reached = max([reached, *map(int, re.findall(r"cov: (\d+)", told))])
        left -= time.monotonic() - started
        if status == 0:
            break
        if not executions:
            (faults / f"{name}-failed-{int(time.time())}").write_text(told[-3000:])
            break
    found = {path for path in set(faults.iterdir()) - before if path.suffix != ".txt"}
    return Outcome(name, executions, reached, len(list(corpus.iterdir())), len(found), time.monotonic() - began)


def _ended(process: subprocess.Popen[bytes], seconds: float) -> int | None:
    """The status of a process that ends in time. Twice: when the machine was stopped meanwhile, it ends right after."""
    for patience in (seconds, PATIENCE):
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            continue
    process.kill()
    process.wait()
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--target", action="append", default=[], help="a fuzzer; may be given several times")
    parser.add_argument("--all", action="store_true", help="all of them")
    parser.add_argument("--minutes", type=float, default=10.0, help="for each")
    parser.add_argument("--directory", type=Path, default=Path(".cache/fuzz"), help="for corpora, faults and logs")
    asked = parser.parse_args()
    from tests.fuzz.everything import targets

    known = targets()
    names = list(known) if asked.all else asked.target
    if not names or (unknown := set(names) - known.keys()):
        parser.error(f"name one of {', '.join(known)}, or --all" if not names else f"there is no {', '.join(unknown)}")
    outcomes = []
    for number, name in enumerate(names, 1):
        print(f"{number}/{len(names)} {name} …", file=sys.stderr, flush=True)
        outcomes.append(fuzz(name, known[name].longest, asked.minutes, asked.directory))
        print(row(outcomes[-1]), file=sys.stderr, flush=True)
    print("| target | executions | edges | corpus | faults | seconds |\n| --- | --- | --- | --- | --- | --- |")
    for outcome in outcomes:
        print(row(outcome))
    raise SystemExit(1 if any(outcome.faults for outcome in outcomes) else 0)


def row(outcome: Outcome) -> str:
    """One line of the table."""
    cells = (outcome.target, f"{outcome.executions:,}", outcome.reached, outcome.corpus, outcome.faults)
    return f"| {' | '.join(map(str, cells))} | {outcome.seconds:.0f} |"


if __name__ == "__main__":
    main()
