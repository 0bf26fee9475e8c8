"""The one shape of a server that is compared: how it is started, and what a client of it was shown, and when.

A client is a microphone that stays open: audio in frames at the speed of speech, and silence behind the last
recording for as long as the client listens.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Protocol

import numpy as np
import psutil

from load.client import Heard
from load.listeners import free_port
from load.script import Script
from load.service import pinned
from speech.models import resolve

FRAME = 0.1
RATE = 16_000
"""Of all audio on the wire, in Hz."""
QUIET = 4.0
"""Seconds without another word, behind the last recording, after which a client takes the text as settled."""
PATIENCE = 12.0
"""Seconds behind the last recording after which a client listens no longer."""
_READY = 120.0


@dataclass(slots=True)
class Said(Heard):
    """One stream. `shown`: (when, all text of the stream that was shown as final, or, where a protocol has no such
    word, shown at all). Times are seconds of this process's monotonic clock.
    """

    shown: list[tuple[float, str]] = field(default_factory=list)
    refused: bool = False

    def show(self, text: str) -> None:
        """Note what is shown from now on."""
        if not self.shown or self.shown[-1][1] != text:
            self.shown.append((time.monotonic(), text))


@dataclass(frozen=True, slots=True)
class Serving:
    """A server that runs: where it listens, and its process, whose children count with it."""

    port: int
    process: psutil.Process

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


class Peer(Protocol):
    """A server in one of its modes. `environment`: the virtual environment that it needs, of environments.toml.
    `note`: its settings, and what is taken as its final. `same_weights`: whether it has tiny.en like the others.
    """

    @property
    def name(self) -> str: ...

    @property
    def environment(self) -> str | None: ...

    @property
    def note(self) -> str: ...

    @property
    def same_weights(self) -> bool: ...

    def serve(self, environments: Path, cpus: Sequence[int]) -> AbstractContextManager[Serving]:
        """It, ready, on these CPUs alone (none: all); stopped at the end."""
        ...

    async def say(self, serving: Serving, script: Script) -> Said:
        """Say `script` to it, from now on. What goes wrong is in the answer."""
        ...


@cache
def weights() -> Path:
    """The folder with tiny.en as CTranslate2 reads it: what every server is given that can read it."""
    return Path(resolve("tiny.en").directory)


@contextmanager
def started(
    command: Callable[[int], Sequence[str]],
    ready: Callable[[int], bool],
    cpus: Sequence[int],
    variables: Mapping[str, str] | None = None,
) -> Iterator[Serving]:
    """The server of `command(port)`, once `ready(port)` holds. Raises SystemExit with its last words when it ends."""
    port = free_port()
    environment = {**os.environ, "HF_HUB_OFFLINE": "1", **(variables or {})}
    with tempfile.NamedTemporaryFile(prefix="speechlane-peer-", suffix=".log") as log:
        process = subprocess.Popen(
            [*pinned(cpus), *command(port)], stdout=log, stderr=subprocess.STDOUT, env=environment,
            cwd=tempfile.gettempdir(),
        )  # fmt: skip
        try:
            until = time.monotonic() + _READY
            while not _holds(ready, port):
                if process.poll() is not None or time.monotonic() > until:
                    raise SystemExit(f"it did not become ready:\n{Path(log.name).read_text(errors='replace')[-3000:]}")
                time.sleep(0.2)
            yield Serving(port, psutil.Process(process.pid))
        finally:
            children = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
            process.terminate()
            try:
                process.wait(5)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            for child in children:
                if child.is_running():
                    child.kill()


def listens(port: int) -> bool:
    """Whether something takes connections there."""
    return any(one.laddr.port == port and one.status == psutil.CONN_LISTEN for one in psutil.net_connections("tcp"))


async def speak(said: Said, send: Callable[[bytes], Awaitable[None]]) -> None:
    """Hand the script to `send` in frames of PCM16, each at its time, and then silence until cancelled."""
    size = round(said.frame * said.script.rate)
    samples = said.script.samples
    said.begun = time.monotonic()
    number = 0
    while True:
        frame = samples[size * number : size * (number + 1)]
        frame = np.pad(frame, (0, size - len(frame)))
        due = said.begun + (number + 1) * said.frame
        if (wait := due - time.monotonic()) > 0:
            await asyncio.sleep(wait)
        said.late = max(said.late, time.monotonic() - due)
        await send(frame.astype("<i2").tobytes())
        number += 1


async def until_settled(said: Said) -> None:
    """Return when the script is over and its text has settled, or is too late to be waited for."""
    while True:
        await asyncio.sleep(0.1)
        now = time.monotonic()
        over = said.begun + said.script.seconds
        if not said.begun or now < over:
            continue
        last = said.shown[-1][0] if said.shown else over
        if now > max(over, last) + QUIET or now > over + PATIENCE:
            return


async def converse(
    said: Said,
    send: Callable[[bytes], Awaitable[None]],
    listen: Callable[[], Awaitable[None]],
    end: Callable[[], Awaitable[None]] | None = None,
) -> Said:
    """Speak and listen at once until the text has settled. What ends one of them early is in `problem`.

    `end`: what tells the server that nothing more is said; `listen` then has to return.
    """
    speaking, listening = asyncio.ensure_future(speak(said, send)), asyncio.ensure_future(listen())
    settling = asyncio.ensure_future(until_settled(said))
    tasks = (speaking, listening, settling)
    await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    if not settling.done():
        broken = next(task.exception() for task in (speaking, listening) if task.done())
        said.problem = f"the stream broke off: {broken!r}"
    elif end is not None:
        speaking.cancel()
        await end()
        await asyncio.wait((listening,), timeout=QUIET)
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    return said


def _holds(ready: Callable[[int], bool], port: int) -> bool:
    try:
        return ready(port)
    except OSError:
        return False
