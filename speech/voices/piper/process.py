"""One worker process: started when needed, spoken to in frames without ever blocking, ended when it does not behave.

It answers one request at a time. What it says is believed only so far: sizes are bounded, and whatever is no frame or
belongs to no request ends the process, as do silence and a crash. The next request starts another one, after a pause
that grows while they keep failing.
"""

from __future__ import annotations

import itertools
import json
import os
import select
import subprocess
import time
from collections.abc import Sequence
from typing import Any

from speech.voices.piper.worker import HEADER, MAGIC, pack
from workers.clock import Clock

START_LIMIT = 60.0
"""Seconds in which a process must have loaded its voice."""
ANSWER_LIMIT = 30.0
"""Seconds in which it must have spoken a segment."""
MAX_MESSAGE = 1 << 16
MAX_BODY = 1 << 26
"""Bytes of a frame's JSON and of its body."""
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 30.0
"""Seconds before another start, from the second failure in a row on, doubled each time."""
_READ = 1 << 16
_AT_ONCE = 1 << 22
"""Bytes taken in one step: about a minute of sound."""
_STDERR_KEPT = 2000
_PASSED_ON = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TMPDIR")
"""Of the environment: none of the keys and settings of this program."""

Frame = tuple[dict[str, Any], bytes]


class WorkerFault(Exception):
    """The process could not be started, ended, went silent or sent what is no frame; the message says which."""


class WorkerProcess:
    """`command` starts it; `rate` in Hz is what it must speak at. Used by one thread."""

    def __init__(self, command: Sequence[str], rate: int, clock: Clock) -> None:
        self._command, self._rate, self._clock = list(command), rate, clock
        self._process: subprocess.Popen[bytes] | None = None
        self._numbers = itertools.count(1)
        self._inbox = bytearray()
        self._stderr = b""
        self._ready = False
        self._since = 0.0  # when it was last told or said something
        self._failures = 0
        self._not_before = 0.0
        self._why = ""
        self.current: int | None = None  # the request it works on

    @property
    def alive(self) -> bool:
        return self._process is not None

    @property
    def ready(self) -> bool:
        """Loaded, and with nothing to do."""
        return self._ready and self.current is None

    def filenos(self) -> list[int]:
        """What to wait on for it to have said something."""
        p = self._process
        return [] if p is None else [stream.fileno() for stream in (p.stdout, p.stderr) if stream is not None]

    def start(self) -> None:
        """Start it if it does not run. Raises WorkerFault when that fails, or is not to be tried yet."""
        if self._process is not None:
            return
        wait = self._not_before - self._clock()
        if wait > 0:
            raise WorkerFault(f"{self._why}; it is started again in {wait:.0f} s")
        try:
            self._process = subprocess.Popen(  # noqa: S603
                self._command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                env={name: os.environ[name] for name in _PASSED_ON if name in os.environ},
                start_new_session=True,
            )
        except OSError as error:
            raise self._fault(f"the voice's process can't be started: {error}") from error
        for number in self.filenos():
            os.set_blocking(number, False)
        self._inbox.clear()
        self._stderr, self._ready, self.current, self._since = b"", False, None, self._clock()

    def ask(self, text: str, speed: float, speaker: int | None) -> int:
        """Send a request to a process that is ready; its number. Raises WorkerFault."""
        process = self._process
        assert process is not None and process.stdin is not None and self.ready
        self.current, self._since = next(self._numbers), self._clock()
        request = pack({"id": self.current, "text": text, "speed": speed, "speaker": speaker})
        try:  # it waits for requests, and one always fits in the pipe: see TEXT_LIMIT
            process.stdin.write(request)
        except OSError:
            raise self._ended() from None
        return self.current

    def hear(self) -> list[Frame]:
        """All that it has said by now. Raises WorkerFault."""
        process = self._process
        if process is None:
            return []
        assert process.stdout is not None and process.stderr is not None
        over, left = False, _AT_ONCE
        while left > 0:
            self._stderr = (self._stderr + (process.stderr.read(_READ) or b""))[-_STDERR_KEPT:]
            data = process.stdout.read(_READ)
            if not data:
                over = data == b""
                break
            self._inbox += data
            self._since = self._clock()
            left -= len(data)
        frames = self._frames()
        if over:
            raise self._ended()
        limit = ANSWER_LIMIT if self._ready else START_LIMIT
        if (self.current is not None or not self._ready) and self._clock() - self._since > limit:
            raise self._fault(f"the voice's process gave no answer for {limit:.0f} s and was ended")
        return frames

    def stop(self) -> None:
        """End it now. Idempotent."""
        process, self._process = self._process, None
        self._ready, self.current = False, None
        if process is not None:
            process.kill()
            process.wait()
            for stream in (process.stdin, process.stdout, process.stderr):
                if stream is not None:
                    try:
                        stream.close()
                    except OSError:
                        continue  # what was not sent is of no use to anybody

    def _frames(self) -> list[Frame]:
        frames: list[Frame] = []
        while len(self._inbox) >= HEADER.size:
            magic, size, rest = HEADER.unpack_from(self._inbox)
            if magic != MAGIC or size > MAX_MESSAGE or rest > MAX_BODY:
                raise self._fault("the voice's process sent what is no frame and was ended")
            end = HEADER.size + size + rest
            if len(self._inbox) < end:
                break
            try:
                message = json.loads(bytes(self._inbox[HEADER.size : HEADER.size + size]))
                kind, number = message["kind"], message.get("id")
            except (ValueError, KeyError, TypeError, AttributeError):
                raise self._fault("the voice's process sent a message that can't be read and was ended") from None
            body = bytes(self._inbox[HEADER.size + size : end])
            del self._inbox[:end]
            if not self._ready:
                self._greet(message)
                continue
            if number != self.current or number is None or len(body) % 4:
                raise self._fault("the voice's process answered what nobody had asked and was ended")
            if kind in ("done", "error"):
                self.current, self._failures = None, 0
            frames.append((message, body))
        return frames

    def _greet(self, message: dict[str, Any]) -> None:
        if message["kind"] != "ready" or message.get("rate") != self._rate:
            raise self._fault(f"the voice's process should speak at {self._rate} Hz, but says {message}")
        self._ready = True

    def _ended(self) -> WorkerFault:
        """It has closed its end: say what it said last."""
        process = self._process
        assert process is not None and process.stderr is not None
        try:
            status: object = process.wait(1.0)
        except subprocess.TimeoutExpired:
            status = "still running"
        self._stderr = (self._stderr + (process.stderr.read(_READ) or b""))[-_STDERR_KEPT:]
        lines = self._stderr.decode("utf-8", "replace").strip().splitlines()
        return self._fault(f"the voice's process ended (status {status})" + (f": {lines[-1]}" if lines else ""))

    def _fault(self, why: str) -> WorkerFault:
        self.stop()
        pause = 0.0 if not self._failures else min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** (self._failures - 1))
        self._failures += 1
        self._not_before, self._why = self._clock() + pause, why
        return WorkerFault(why)


def wait(processes: Sequence[WorkerProcess], seconds: float) -> None:
    """Sleep until one of them has something to say, at most so long."""
    numbers = [number for process in processes for number in process.filenos()]
    if numbers:
        poll = select.poll()
        for number in numbers:
            poll.register(number, select.POLLIN)
        poll.poll(seconds * 1000)
    else:
        time.sleep(seconds)
