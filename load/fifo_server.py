"""The simplest server of speech that one would write: hibari's own `.stream()` behind HTTP, one request after another.

POST / with a text answers with PCM16 mono at 24 kHz, each sentence as soon as it is made. One thread takes requests in
the order in which they come, and makes all of one before it looks at the next. Something to compare with, no more.

    python -m load.fifo_server --port 8701
"""

from __future__ import annotations

import argparse
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
from hibari import Hibari


class Server(HTTPServer):
    """Requests wait in the listening socket's own queue."""

    request_queue_size = 1024

    def __init__(self, port: int, threads: int) -> None:
        self.voice = Hibari(threads=threads)
        self.voice("Ready.")
        super().__init__(("127.0.0.1", port), Handler)


class Handler(BaseHTTPRequestHandler):
    """One request."""

    server: Server
    protocol_version = "HTTP/1.0"  # a connection for each request, so that nobody keeps the thread

    def do_GET(self) -> None:
        self.send_response(204)
        self.end_headers()

    def do_POST(self) -> None:
        text = self.rfile.read(int(self.headers["Content-Length"])).decode()
        self.send_response(200)
        self.send_header("Content-Type", "audio/pcm;rate=24000")
        self.end_headers()
        try:
            for sound in self.server.voice.stream(text, seed=0):
                self.wfile.write((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
        except ConnectionError:
            pass

    def log_message(self, format: str, *args: Any) -> None:
        """Say nothing."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8701, help="on this machine only (default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of the model (default %(default)s)")
    options = parser.parse_args()
    Server(options.port, options.threads).serve_forever()


if __name__ == "__main__":
    main()
