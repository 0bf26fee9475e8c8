"""A server as small as can be, in this process: it says known words at known moments of the audio that it is sent."""

from __future__ import annotations

import json
import time
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psutil
from websockets.asyncio.server import ServerConnection, serve

from load.peers.peer import RATE, Serving

Answers = Sequence[tuple[float, dict[str, Any]]]
"""(seconds of audio that must have come, the message that is then sent)."""


@asynccontextmanager
async def answering(
    answers: Answers,
    *,
    first: Sequence[dict[str, Any]] = (),
    samples: Callable[[bytes], int] = lambda frame: len(frame) // 2,
    at_the_end: dict[str, Any] | None = None,
) -> AsyncIterator[tuple[Serving, list[float]]]:
    """A websocket server, and the moments at which it sent each of `answers`.

    `first` is sent on every connection, `at_the_end` for an empty frame. `samples`: how many are in a frame.
    """
    moments: list[float] = []

    async def client(socket: ServerConnection) -> None:
        for message in first:
            await socket.send(json.dumps(message))
        heard, told = 0, 0
        async for frame in socket:
            if isinstance(frame, str):
                continue
            if not frame and at_the_end is not None:
                await socket.send(json.dumps(at_the_end))
                return
            heard += samples(frame)
            while told < len(answers) and heard >= answers[told][0] * RATE:
                moments.append(time.monotonic())
                await socket.send(json.dumps(answers[told][1]))
                told += 1

    async with serve(client, "127.0.0.1", 0) as server:
        port = next(iter(server.sockets)).getsockname()[1]
        yield Serving(port, psutil.Process()), moments
