"""Fuzz every HTTP route of a service from the OpenAPI document that it publishes, and look that nothing is left over.

A service of its own is started, with keys and small limits. schemathesis sends it requests that the document allows and
requests that it forbids, and checks every answer against the document: no 5xx, no status, type, header or schema that
is not described, nothing wrong accepted and nothing right refused, no route that forgets to ask for a key. At the end
what was made is deleted, and no session, place, upload or temporary file may be left.

    python -m load.api_fuzz --minutes 10
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from load.service import Running, service

HERE = Path(__file__).absolute().parent
LIMITS = (
    "--trusted-proxies=127.0.0.1",
    "--max-upload-bytes=200000",
    "--max-audio-seconds=20",
    "--batch-max-file-bytes=200000",
    "--batch-max-seconds=20",
)
SETTLE_SECONDS = 60.0
GAUGES = ("speechlane_sessions", "speechlane_sessions_parked", "speechlane_files", "speechlane_speakers",
    "speechlane_queue_tasks", "speechlane_device_streams")  # fmt: skip


OF_PROCESS = ("speechlane-videos-", "torchinductor_")
"""Folders that go with the process: that of videos, and torch's own."""


@dataclass(frozen=True)
class Fuzzed:
    """A service that is fuzzed, and where it keeps its files."""

    running: Running
    uploads: Path
    temporary: Path

    def ask(self, method: str, path: str, headers: dict[str, str] | None = None) -> tuple[int, bytes]:
        """Status and body of a request with the key."""
        asked = urllib.request.Request(
            f"{self.running.url}{path}",
            method=method,
            headers={"Authorization": f"Bearer {self.running.key}", **(headers or {})},
        )
        try:
            with urllib.request.urlopen(asked, timeout=30) as answer:
                return answer.status, answer.read()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read()

    def figures(self) -> dict[str, float]:
        """/metrics: the value of each series."""
        lines = self.ask("GET", "/metrics")[1].decode().splitlines()
        pairs = (line.rpartition(" ") for line in lines if line and not line.startswith("#"))
        return {series: float(value) for series, _, value in pairs}

    def answers(self) -> dict[str, float]:
        """How many requests were answered, by route and status."""
        return {name: value for name, value in self.figures().items() if name.startswith("speechlane_http_requests_")}


@dataclass
class Verdict:
    """What came of it. `left` names what should have gone; `failed` are answers with 5xx by series."""

    report: str
    code: int
    left: list[str] = field(default_factory=list)
    failed: dict[str, float] = field(default_factory=dict)
    requests: int = 0

    @property
    def clean(self) -> bool:
        """No fault was found, nothing is left."""
        return not (self.code or self.left or self.failed)


@contextmanager
def fuzzed_service(directory: Path, flags: Sequence[str] = ()) -> Iterator[Fuzzed]:
    """A service with a store of keys, of which it has one, and small limits; everything it writes is in `directory`."""
    temporary, batch = directory / "tmp", directory / "batch"
    temporary.mkdir()
    store = directory / "keys.json"
    made = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "keys", "create", "fuzz", "--key-store", str(store),
            *(f"--scope={scope}" for scope in ("live", "speech", "batch", "embed", "documents", "vision", "admin"))],
        capture_output=True, text=True, check=True, cwd=HERE.parent,
    )  # fmt: skip
    key = next(word for word in made.stdout.split() if word.startswith("sl_") and len(word) > 40)
    before = dict(os.environ)
    os.environ |= {"SPEECHLANE_BATCH": "true", "SPEECHLANE_BATCH_DIR": str(batch), "TMPDIR": str(temporary)}
    os.environ |= {"SPEECHLANE_KEY_STORE": str(store), "SPEECHLANE_COLLECTIONS": str(directory / "collections")}
    try:
        with service(None, [*LIMITS, *flags], key=key) as running:
            yield Fuzzed(running, batch / "uploads", temporary)
    finally:
        os.environ.clear()
        os.environ.update(before)


def fuzz(fuzzed: Fuzzed, *options: str) -> Verdict:
    """Run schemathesis with these options, then tidy up and look at what is left."""
    url, key = fuzzed.running.url, fuzzed.running.key
    command = [
        sys.executable, "-m", "schemathesis.cli", "--config-file", str(HERE / "api_fuzz.toml"), "--no-color",
        "run", f"{url}/openapi.json", "-H", f"Authorization: Bearer {key}", "--warnings=off", *options,
    ]  # fmt: skip
    environment = {**os.environ, "SCHEMATHESIS_HOOKS": "load.api_hooks", "PYTHONPATH": str(HERE.parent)}
    before = fuzzed.answers()
    ran = subprocess.run(command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    tidy(fuzzed)
    verdict = Verdict(ran.stdout.replace(str(key), "KEY"), ran.returncode)
    verdict.left = left_over(fuzzed)
    answers = {name: value - before.get(name, 0) for name, value in fuzzed.answers().items()}
    answers = {name: value for name, value in answers.items() if value}
    verdict.requests = int(sum(answers.values()))
    verdict.failed = {name: value for name, value in answers.items() if 'status="5' in name}
    return verdict


def tidy(fuzzed: Fuzzed) -> None:
    """Delete the jobs, collections and uploads that were made, as their owner would."""
    while True:
        jobs = json.loads(fuzzed.ask("GET", "/v1/batch/jobs?limit=200")[1])["data"]
        for job in jobs:
            fuzzed.ask("DELETE", f"/v1/batch/jobs/{job['id']}")
        if not jobs:
            break
    for collection in json.loads(fuzzed.ask("GET", "/v1/collections")[1])["data"]:
        fuzzed.ask("DELETE", f"/v1/collections/{collection['name']}")
    for upload in fuzzed.uploads.glob("*.json"):
        fuzzed.ask("DELETE", f"/v1/batch/uploads/{upload.stem}", {"Tus-Resumable": "1.0.0"})


def left_over(fuzzed: Fuzzed) -> list[str]:
    """What is still held after a while of rest, in words; [] when everything has gone back."""
    until = time.monotonic() + SETTLE_SECONDS
    while True:
        figures = fuzzed.figures()
        found = [f"{name} {value:g}" for name, value in figures.items() if name.split("{")[0] in GAUGES and value]
        state: dict[str, Any] = fuzzed.running.state()
        found += [] if state["status"] == "ready" else [f"it is {state['status']}"]
        found += [f"upload {path.name}" for path in fuzzed.uploads.iterdir()]
        found += [
            f"temporary file {path.name}" for path in fuzzed.temporary.iterdir() if not path.name.startswith(OF_PROCESS)
        ]
        if not found or time.monotonic() > until:
            return found
        time.sleep(0.5)


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0, help="how long to go on (default: 10)")
    parser.add_argument("--seed", type=int, help="to do the same again")
    parser.add_argument("--workers", type=int, default=1, help="requests at once (default: 1)")
    parser.add_argument("--only", help="operations whose path matches this pattern")
    options = parser.parse_args()
    chosen = [f"--max-time={int(options.minutes * 60)}", f"--workers={options.workers}"]
    chosen += [f"--seed={options.seed}"] if options.seed is not None else []
    chosen += [f"--include-path-regex={options.only}"] if options.only else []
    with tempfile.TemporaryDirectory(prefix="speechlane-fuzz-") as directory:
        print("starting a service with keys and small limits", flush=True)
        with fuzzed_service(Path(directory)) as fuzzed:
            print(f"fuzzing {fuzzed.running.url} for {options.minutes:g} min", flush=True)
            verdict = fuzz(fuzzed, *chosen)
    print(verdict.report)
    print(
        f"{verdict.requests} requests answered, with 5xx: {verdict.failed or 'none'}; "
        f"left over: {verdict.left or 'nothing'}"
    )
    raise SystemExit(0 if verdict.clean else 1)


if __name__ == "__main__":
    main()
