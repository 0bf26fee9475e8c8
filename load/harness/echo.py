"""A service that thinks nothing: it answers the frames of the real one with such frames, at once or at their time.

Clients that measure themselves against it learn what they cost: what is left of a latency is theirs. It knows as much
of each protocol as they use, hears a voice in everything that is not digital silence, and speaks a tone.

    python -m load.harness.echo --port 8701
"""

from __future__ import annotations

import argparse
import base64
import hashlib
import io
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import soundfile
from aiohttp import BodyPartReader, web

from load.harness.echo_sockets import conversation, speak, transcription
from load.service import Running, service

DIMENSIONS = 384


@contextmanager
def echo(cpus: Sequence[int] = ()) -> Iterator[Running]:
    """One in a process of its own, on these CPUs only, or on all."""
    with service(None, cpus=cpus, program=("load.harness.echo",)) as running:
        yield running


def application() -> web.Application:
    """All of it."""
    app = web.Application(client_max_size=1 << 30)
    app[JOBS] = {}
    app.router.add_get("/readyz", readyz)
    app.router.add_get("/v1/realtime", realtime)
    app.router.add_get("/v1/speak", speak)
    app.router.add_post("/v1/embeddings", embeddings)
    app.router.add_post("/v1/batch/jobs", submit)
    app.router.add_delete("/v1/batch/jobs/{job}", remove)
    app.router.add_get("/v1/batch/jobs/{job}/events", events)
    app.router.add_get("/v1/batch/jobs/{job}/results/txt", result)
    return app


async def readyz(request: web.Request) -> web.Response:
    """A service with room for everybody."""
    device = {"name": "echo", "utilisation": 0.0, "streams": 0, "free_streams": 1_000_000}
    speech = {"speaking": 0, "free": 1_000_000}
    return web.json_response(
        {"status": "ready", "sessions": 0, "devices": [device], "speech": speech, "embeddings": "ready"}
    )


async def realtime(request: web.Request) -> web.WebSocketResponse:
    """Either kind of session."""
    kind = conversation if request.query.get("intent") == "conversation" else transcription
    return await kind(request)


def vector(text: str) -> str:
    """Of a text, always the same; base64 as the wire has it."""
    seed = int.from_bytes(hashlib.sha256(text.encode()).digest()[:8])
    found = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype("<f4")
    return base64.b64encode((found / np.linalg.norm(found)).tobytes()).decode()


async def embeddings(request: web.Request) -> web.Response:
    """A vector for each text."""
    texts = (await request.json())["input"]
    data = [{"object": "embedding", "index": n, "embedding": vector(text)} for n, text in enumerate(texts)]
    return web.json_response({"object": "list", "data": data})


async def submit(request: web.Request) -> web.Response:
    """A job that is done as soon as it is handed in."""
    async for part in await request.multipart():
        if isinstance(part, BodyPartReader) and part.name == "file":
            with soundfile.SoundFile(io.BytesIO(await part.read())) as sound:
                seconds = sound.frames / sound.samplerate
    jobs = request.app[JOBS]
    job = f"job{len(jobs)}-{id(request):x}"
    audio = {"decoded": seconds, "silent": 0.0, "covered": seconds}
    jobs[job] = {"id": job, "state": "done", "chunks": 1, "chunks_done": 1, "chunks_failed": 0, **audio}
    return web.json_response(jobs[job], status=201)


async def events(request: web.Request) -> web.StreamResponse:
    """Its end."""
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    job = request.app[JOBS][request.match_info["job"]]
    await answer.write(f"event: job\ndata: {json.dumps(job)}\n\n".encode())
    return answer


async def result(request: web.Request) -> web.Response:
    return web.Response(text="word")


async def remove(request: web.Request) -> web.Response:
    request.app[JOBS].pop(request.match_info["job"], None)
    return web.Response(status=204)


JOBS = web.AppKey("jobs", dict[str, dict[str, Any]])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8701, help="on this machine only (default %(default)s)")
    options = parser.parse_args()
    web.run_app(application(), host="127.0.0.1", port=options.port, print=None, access_log=None)


if __name__ == "__main__":
    main()
