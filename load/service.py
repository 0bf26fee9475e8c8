"""The service that is measured: one that runs already, or one started for the measurement; its state from outside."""

from __future__ import annotations

import argparse
import json
import os
import platform
import socket
import ssl
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

START_SECONDS = 300.0
"""The first start measures the machine and may take minutes when it is busy."""


@dataclass(frozen=True, slots=True)
class Running:
    """`url` is http://host:port. `process` is None when the service is not on this machine. `key`: one that may see
    the load of a service with keys."""

    url: str
    process: psutil.Process | None
    key: str | None = None
    tls: ssl.SSLContext | None = None
    """What trusts it, when it is on https."""

    def state(self) -> dict[str, Any]:
        """What /readyz says."""
        try:
            headers = {"Authorization": f"Bearer {self.key}"} if self.key else {}
            asked = urllib.request.Request(f"{self.url}/readyz", headers=headers)
            with urllib.request.urlopen(asked, timeout=30, context=self.tls) as answer:
                body: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                body = json.load(error)
        return body

    def held(self) -> tuple[int, int]:
        """(live sessions, streams admitted on devices) now."""
        state = self.state()
        return state["sessions"], sum(device["streams"] for device in state["devices"])

    def capacity(self) -> int:
        """Streams it would take now."""
        return sum(device["free_streams"] for device in self.state()["devices"])

    def memory(self) -> int:
        """Resident bytes; 0 when the process cannot be seen."""
        return self.process.memory_info().rss if self.process is not None else 0


SERVE = ("gateway.cli", "serve")
"""Module and arguments of the service; --port PORT is added."""


@contextmanager
def service(
    url: str | None,
    flags: Sequence[str] = (),
    cpus: Sequence[int] = (),
    key: str | None = None,
    program: Sequence[str] = SERVE,
    tls: ssl.SSLContext | None = None,
) -> Iterator[Running]:
    """The service at `url`, or, with None, one started with `flags` on a free port and stopped at the end.

    `cpus`: the only ones that one may run on; none: all. `key`: for a service with keys. `program`: another one.
    `tls`: what trusts one that is started with a certificate among its `flags`.
    """
    if url is not None:
        yield Running(url.rstrip("/"), _listener(url), key)
        return
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [*pinned(cpus), sys.executable, "-m", *program, "--port", str(port), *flags]
    with tempfile.NamedTemporaryFile(prefix="speechlane-load-", suffix=".log") as log:
        root = Path(__file__).absolute().parent.parent
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT, cwd=root)
        scheme = "http" if tls is None else "https"
        running = Running(f"{scheme}://127.0.0.1:{port}", psutil.Process(process.pid), key, tls)
        try:
            _wait(running, process, Path(log.name))
            yield running
        finally:
            process.terminate()
            try:
                process.wait(60)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def pinned(cpus: Sequence[int]) -> list[str]:
    """What a command begins with to run on these CPUs only."""
    return ["taskset", "--cpu-list", ",".join(map(str, cpus))] if cpus else []


def _wait(running: Running, process: subprocess.Popen[bytes], log: Path) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            if running.state()["status"] == "ready":
                return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > until:
            raise SystemExit(f"the service did not become ready:\n{log.read_text(errors='replace')}")
        time.sleep(0.2)


def _listener(url: str) -> psutil.Process | None:
    """The process on this machine that listens where `url` points."""
    host, _, port = url.rstrip("/").rpartition("/")[2].partition(":")
    if host not in ("127.0.0.1", "localhost"):
        return None
    for connection in psutil.net_connections("tcp"):
        if connection.status == psutil.CONN_LISTEN and connection.laddr.port == int(port or 80) and connection.pid:
            return psutil.Process(connection.pid)
    return None


def machine() -> str:
    """The machine and the versions that a figure depends on, in one line."""
    model = platform.processor() or platform.machine()
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    load = os.getloadavg()[0]
    return (
        f"{model}, {os.cpu_count()} CPUs, load {load:.1f} at the start; {platform.system()} {platform.release()}, "
        f"Python {platform.python_version()}, torch {version('torch')}"
    )


def arguments(description: str | None) -> argparse.ArgumentParser:
    """Options of a measurement that takes a service, or starts one, and may write its figures."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--key", help="its API key")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--json", type=Path, help="write the figures here")
    return parser
