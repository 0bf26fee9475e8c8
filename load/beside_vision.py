"""What seeing and making cost those who speak: live latency with and without them on the same device, in turns.

A service is started (--flags for it), and --streams paced streams speak for --seconds, first alone, then while videos,
pictures or chats about a picture (--what) are asked for without a pause, --rounds times in turns. Bar: the p95 of the
round trip of a chunk and of end of speech → final, over all rounds, moves by no more than a tenth. What is made
meanwhile has to be made. Exit status 1 when one is missed.

    python -m load.beside_vision
    python -m load.beside_vision --what images --rounds 1 --seconds 20
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import io
import shlex
from collections.abc import Awaitable, Callable

import numpy as np
from aiohttp import ClientResponse, ClientSession
from PIL import Image

from load import report
from load.beside_live import compared
from load.live import HEAD, Step, measure
from load.service import Running, machine, service

FLAGS = (
    "--chat-models",
    "shapes-vlm",
    "--image-models",
    "shapes-image",
    "--video-models",
    "shapes-video",
    "--embeddings",
    "",
)


async def video(http: ClientSession) -> None:
    """One clip, until its end."""
    asked = {"prompt": "a red ball moves right", "exact": True}
    async with http.post("/v1/videos", json=asked) as answer:
        id = (await _checked(answer))["id"]
    while True:
        async with http.get(f"/v1/videos/{id}") as answer:
            found = await _checked(answer)
        if found["status"] in ("completed", "failed"):
            break
        await asyncio.sleep(0.2)
    async with http.delete(f"/v1/videos/{id}") as answer:
        await _checked(answer)
    if found["status"] == "failed":
        raise RuntimeError(f"the video failed: {found.get('error')}")


async def images(http: ClientSession) -> None:
    """Four pictures of one request."""
    asked = {"prompt": "a red circle left, a blue square right", "n": 4, "response_format": "b64_json", "exact": True}
    async with http.post("/v1/images/generations", json=asked) as answer:
        await _checked(answer)


async def chat(http: ClientSession) -> None:
    """A question about a picture that nobody has asked about before."""
    pixels = np.random.default_rng().integers(0, 255, (48, 48, 3), dtype=np.uint8)
    packed = io.BytesIO()
    Image.fromarray(pixels).save(packed, "PNG")
    url = f"data:image/png;base64,{base64.b64encode(packed.getvalue()).decode()}"
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": "how many red ?"}]
    asked = {"messages": [{"role": "user", "content": content}], "max_tokens": 32}
    async with http.post("/v1/chat/completions", json=asked) as answer:
        await _checked(answer)


async def _checked(answer: ClientResponse) -> dict[str, str]:
    if answer.status >= 300:
        raise RuntimeError(f"{answer.url.path} answers {answer.status}: {(await answer.text())[:200]}")
    found: dict[str, str] = await answer.json()
    return found


MAKES: dict[str, Callable[[ClientSession], Awaitable[None]]] = {"video": video, "images": images, "chat": chat}


async def turn(running: Running, options: argparse.Namespace, seed: int, beside: bool) -> tuple[Step, int]:
    """The streams' latencies, and how much was made meanwhile."""
    if not beside:
        return await measure(running, options.streams, options.seconds, seed=seed), 0
    made = 0

    async def make() -> None:
        nonlocal made
        while True:
            await MAKES[options.what](http)
            made += 1

    async with ClientSession(running.url) as http:
        making = asyncio.create_task(make())
        await asyncio.sleep(1.0)
        step = await measure(running, options.streams, options.seconds, seed=seed)
        if making.done():
            making.result()
        making.cancel()
        await asyncio.gather(making, return_exceptions=True)
    return step, made


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--what", choices=tuple(MAKES), default="video")
    parser.add_argument("--url", help="service to measure, http://host:port (default: start one)")
    parser.add_argument("--flags", default="", help="flags for the service that is started, in quotes")
    parser.add_argument("--streams", type=int, default=2, help="live streams (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=40.0, help="length of a turn (default %(default)g)")
    parser.add_argument("--rounds", type=int, default=3, help="turns of each kind (default %(default)s)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    steps: dict[str, list[Step]] = {"alone": [], f"beside {options.what}": []}
    made, rows = 0, []
    with service(options.url, [*FLAGS, *shlex.split(options.flags)]) as running:
        asyncio.run(_warm(running, options.what))
        for n in range(options.rounds):
            for kind, found in steps.items():
                with out.status(f"{options.streams} streams {kind}, round {n + 1}"):
                    step, count = asyncio.run(turn(running, options, n, kind != "alone"))
                found.append(step)
                made += count
                rows.append((kind, *step.row()[1:]))
    out.print(note, highlight=False, style="dim")
    out.print(report.table("milliseconds, p50 / p95", HEAD, rows))
    missed = compared(out, steps["alone"], steps[f"beside {options.what}"], options.what)
    out.print(f"meanwhile {made} times made: {options.what}")
    if not made:
        missed.append(f"no {options.what} was made")
    return report.verdict(out, missed)


async def _warm(running: Running, what: str) -> None:
    """The first of its kind loads the model."""
    async with ClientSession(running.url) as http:
        await MAKES[what](http)


if __name__ == "__main__":
    raise SystemExit(main())
