"""The smallest websocket server around Moonshine's Python package, which brings none: a stream for each connection.

Runs in the environment of moonshine_voice: `python moonshine_server.py PORT`. Takes frames of PCM16 at 16 kHz, and
sends the texts of all lines that are completed whenever another one is.
"""

from __future__ import annotations

import json
import sys

import numpy as np
from moonshine_voice import LineCompleted, ModelArch, Transcriber, TranscriptEvent, get_model_path
from websockets.sync.server import ServerConnection, serve

RATE = 16_000


def main(port: int) -> None:
    model = Transcriber(str(get_model_path("tiny-en")), ModelArch.TINY, options={"identify_speakers": "false"})

    def client(socket: ServerConnection) -> None:
        completed: dict[int, str] = {}

        def told(event: TranscriptEvent) -> None:
            if isinstance(event, LineCompleted):
                completed[event.line.line_id] = event.line.text
                socket.send(json.dumps({"completed": list(completed.values())}))

        stream = model.create_stream()
        stream.add_listener(told)
        stream.start()
        try:
            for frame in socket:
                assert isinstance(frame, bytes)
                stream.add_audio((np.frombuffer(frame, "<i2").astype(np.float32) / 32_768).tolist(), RATE)
        finally:
            stream.close()

    with serve(client, "127.0.0.1", port, compression=None) as server:
        server.serve_forever()


if __name__ == "__main__":
    main(int(sys.argv[1]))
