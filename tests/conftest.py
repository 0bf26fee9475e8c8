"""What tests of several rooms share: the recordings, and the real service with the real tiny.en, started once."""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import settings

from gateway.telemetry.logs import OWN

ROOT = Path(__file__).resolve().parents[1]
DATA = ROOT / "tests" / "data"
START_SECONDS = 110.0
STOP_SECONDS = 30.0

# The suite tries the same inputs every time, so that a change is to blame for what fails; the long run tries others.
settings.register_profile("suite", derandomize=True)
settings.register_profile("long")
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))

# An application inside a test has no queue of jobs, which would be the one of whoever runs the tests.
os.environ["SPEECHLANE_BATCH"] = "false"
# Two workers and the services they start would wait for each other's threads at every matrix.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# As the engine does when it starts, but before a test uses torch without one.
os.environ.setdefault("LRU_CACHE_CAPACITY", "64")
os.environ.setdefault("ONEDNN_PRIMITIVE_CACHE_CAPACITY", "512")


@dataclass
class RunningService:
    """A service in a process of its own. `url` is http://127.0.0.1:PORT."""

    url: str
    process: subprocess.Popen[bytes]
    output: Path

    def log(self) -> str:
        """Everything it has written so far."""
        return self.output.read_text("utf-8", "replace")

    def stop(self, number: int = signal.SIGTERM) -> int:
        """Ask it to end; the exit status."""
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            return self.process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
        return port


def clean_environment(**variables: str) -> dict[str, str]:
    """This environment without the settings that somebody may have made for a service of their own."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPEECHLANE_")}
    if "SPEECHLANE_CACHE" in os.environ:
        kept["SPEECHLANE_CACHE"] = os.environ["SPEECHLANE_CACHE"]
    # What somebody has measured here says nothing of what a test expects.
    own = {"SPEECHLANE_ADMISSION": "estimated", "SPEECHLANE_THREADS": "1"}
    return {**kept, "PYTHONPATH": str(ROOT), "COLUMNS": "120", "NO_PROXY": "127.0.0.1", **own, **variables}


def launch(directory: Path, *flags: str, **variables: str) -> RunningService:
    """Start `speechlane serve` with the flags and SPEECHLANE_* variables; does not wait until it is ready.

    Without voices, embeddings and models that see or draw unless they are named: they take a few seconds of every core.
    """
    port = free_port()
    for kind in ("--voices", "--embeddings", "--chat-models", "--image-models", "--video-models"):
        if kind not in flags:
            flags = (*flags, kind, "")
    variables = {"SPEECHLANE_BATCH_DIR": str(directory / f"batch-{port}"), **variables}
    output = directory / f"serve-{port}.log"
    with output.open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "gateway.cli", "serve", "--port", str(port), *flags],
            cwd=directory,
            env=clean_environment(**variables),
            stdout=log,
            stderr=subprocess.STDOUT,
        )
    return RunningService(f"http://127.0.0.1:{port}", process, output)


def status_of(url: str) -> int:
    """The HTTP status of a GET; 0 when nobody answers."""
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            status: int = answer.status
            return status
    except urllib.error.HTTPError as error:
        with error:
            return error.code
    except OSError:
        return 0


def wait_until(condition: Callable[[], bool], what: str, service: RunningService) -> None:
    """Wait for something of a service; fails with its log when it ends or takes too long."""
    deadline = time.monotonic() + START_SECONDS
    while not condition():
        if service.process.poll() is not None or time.monotonic() > deadline:
            pytest.fail(f"the service did not become {what}:\n{service.log()}")
        time.sleep(0.05)


def wait_ready(service: RunningService) -> RunningService:
    """The service, once its models are loaded."""
    wait_until(lambda: status_of(f"{service.url}/readyz") == 200, "ready", service)
    return service


@pytest.fixture(autouse=True)
def logging_as_it_was() -> Iterator[None]:
    """A command that a test runs sends the log of this process where that test looks, and is not there to end it."""
    root = logging.getLogger()
    named = [logging.getLogger(name) for name in (*OWN, "aiohttp.access")]
    handlers, level, thread_failed = root.handlers[:], root.level, threading.excepthook
    before = [(logger.level, logger.disabled) for logger in named]
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    for logger, (its_level, disabled) in zip(named, before, strict=True):
        logger.setLevel(its_level)
        logger.disabled = disabled
    threading.excepthook = thread_failed
    logging.captureWarnings(False)


@pytest.fixture(scope="module")
def launch_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., RunningService]]:
    """Start further services with settings of their own; they are stopped when the tests of the file end."""
    directory = tmp_path_factory.mktemp("services")
    started: list[RunningService] = []

    def start(*flags: str, ready: bool = True, **variables: str) -> RunningService:
        service = launch(directory, *flags, **variables)
        started.append(service)
        return wait_ready(service) if ready else service

    yield start
    for service in started:
        service.stop()


@pytest.fixture(scope="session")
def running_service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningService]:
    """The service that tests share: defaults, tiny.en, no key."""
    service = launch(tmp_path_factory.mktemp("shared"), "--voices", "heart", "--embeddings", "all-MiniLM-L6-v2")
    try:
        yield wait_ready(service)
    finally:
        service.stop()


@pytest.fixture(scope="session")
def service(running_service: RunningService) -> str:
    """Base URL of the shared service (http://127.0.0.1:PORT)."""
    return running_service.url


@pytest.fixture(scope="session")
def data() -> Path:
    """The directory of recordings; references.tsv holds what is said in them."""
    return DATA


@pytest.fixture(scope="session")
def references() -> dict[str, str]:
    """What is said in each recording, by file name."""
    rows = (DATA / "references.tsv").read_text("utf-8").splitlines()[1:]
    return dict(row.split("\t", 1) for row in rows if row.strip())
