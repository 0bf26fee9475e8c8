"""Runs the embedded server for as long as anybody uses it. A program of its own, of the standard library alone:

    python guard.py DIRECTORY SOCKET SERVER-BINARY

Whoever uses the server holds a shared lock on the file `users`; the guard asks for the exclusive one, gets it when the
last of them is gone (killed ones too), and stops the server. It is nobody's child and hears no Ctrl-C. It starts the
server again when that dies, and holds the lock on the file `guard` while it lives itself.
"""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

_STARTS = 5
"""Starts in a row that may fail."""
_STABLE = 2.0
"""Seconds after which a start has not failed."""
_STOP = 30.0
"""Seconds that the server gets to write everything down."""


def server_command(directory: Path, socket_path: str, binary: str) -> list[str]:
    """On the socket alone, never evicting, and with every change on the disk before it is answered: with `everysec` a
    killed server forgets what it answered while the disk was busy."""
    options = {
        "port": "0",
        "unixsocket": socket_path,
        "unixsocketperm": "700",
        "dir": str(directory),
        "appendonly": "yes",
        "appendfsync": "always",
        "save": "",
        "maxmemory-policy": "noeviction",
        "loglevel": "warning",
        "daemonize": "no",
    }
    return [binary, *(part for name, value in options.items() for part in (f"--{name}", value))]


def stop_orphan(socket_path: str) -> None:
    """Stop a server whose guard was killed, so that two never write to the same files."""
    deadline = time.monotonic() + _STOP
    while time.monotonic() < deadline:
        with socket.socket(socket.AF_UNIX) as connection:
            try:
                connection.connect(socket_path)
                connection.sendall(b"SHUTDOWN\r\n")
                connection.recv(256)  # nothing, once it has gone; a complaint while it starts
            except OSError:
                return
        time.sleep(0.1)
    raise SystemExit("A server without a guard does not stop")


class Guard:
    """The server as a child, started again until `stop`."""

    def __init__(self, command: list[str]) -> None:
        self._command = command
        self._stopping = False
        self._child: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    def run(self) -> None:
        failed = 0
        while failed < _STARTS:
            with self._lock:
                if self._stopping:
                    return
                self._child = subprocess.Popen(self._command, stdin=subprocess.DEVNULL)  # noqa: S603
            began = time.monotonic()
            self._child.wait()
            failed = failed + 1 if time.monotonic() - began < _STABLE else 0
            time.sleep(0.1 * failed)
        os._exit(1)  # the log says why; users see that the guard is gone

    def stop(self) -> None:
        with self._lock:
            self._stopping = True
        if self._child is not None:
            self._child.terminate()
            try:
                self._child.wait(_STOP)
            except subprocess.TimeoutExpired:
                self._child.kill()


def main(directory: Path, socket_path: str, binary: str) -> None:
    guard_lock = (directory / "guard").open("w")
    try:
        fcntl.flock(guard_lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return  # somebody was faster
    stop_orphan(socket_path)
    if os.fork():
        os._exit(0)  # the lock lives on in the child
    os.setsid()
    guard = Guard(server_command(directory, socket_path, binary))
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    threading.Thread(target=guard.run, daemon=True).start()
    try:
        with (directory / "users").open("w") as users:
            fcntl.flock(users, fcntl.LOCK_EX)
            guard.stop()
            guard_lock.close()  # before the next user comes in, who would think that it lives
    finally:
        guard.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
