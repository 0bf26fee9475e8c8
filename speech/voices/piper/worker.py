"""The process that holds a Piper voice. Run by path, by the Python of an environment that has piper-tts.

    python worker.py VOICE.onnx THREADS

Frames go in on stdin and out on stdout: a header (magic, size of the JSON, size of the body), the JSON, the body. It
first tells {"kind": "ready", "rate": Hz}. Each request {"id", "text", "speed", "speaker"} is answered by "sound"
frames, whose body is float32 samples, then one "done" or "error". It ends when stdin does. Only the standard library
is imported here at the top, since the other side of the pipe takes the format of the frames from this file.
"""

from __future__ import annotations

import json
import os
import struct
import sys
from typing import Any, BinaryIO

HEADER = struct.Struct("<4sII")
MAGIC = b"SPK1"


def pack(message: dict[str, Any], body: bytes = b"") -> bytes:
    """One frame."""
    text = json.dumps(message).encode()
    return HEADER.pack(MAGIC, len(text), len(body)) + text + body


def _receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next request; None at the end."""
    head = stream.read(HEADER.size)
    if len(head) < HEADER.size:
        return None
    _, size, rest = HEADER.unpack(head)
    message: dict[str, Any] = json.loads(stream.read(size))
    stream.read(rest)
    return message


def main(path: str, threads: int) -> None:
    """Load the voice and answer requests one by one."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not get between the frames

    def send(message: dict[str, Any], body: bytes = b"") -> None:
        out.write(pack(message, body))
        out.flush()

    import numpy
    import onnxruntime
    from piper import PiperVoice, SynthesisConfig
    from piper.config import PiperConfig

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    with open(f"{path}.json", encoding="utf-8") as file:
        config = PiperConfig.from_dict(json.load(file))
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    voice = PiperVoice(session=session, config=config)
    send({"kind": "ready", "rate": config.sample_rate})
    while (request := _receive(sys.stdin.buffer)) is not None:
        number = request["id"]
        try:
            wanted = SynthesisConfig(speaker_id=request["speaker"], length_scale=config.length_scale / request["speed"])
            for chunk in voice.synthesize(request["text"], wanted):
                samples = numpy.ascontiguousarray(chunk.audio_float_array, "<f4")
                send({"id": number, "kind": "sound"}, samples.tobytes())
        except Exception as error:
            send({"id": number, "kind": "error", "message": f"{type(error).__name__}: {error}"})
        else:
            send({"id": number, "kind": "done"})


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
