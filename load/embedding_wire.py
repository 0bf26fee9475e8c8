"""Clients of /v1/embeddings that measure: one that sends as much as is taken, and one that asks now and then."""

from __future__ import annotations

import asyncio
import base64
import itertools
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import numpy as np
from numpy.typing import NDArray


@dataclass(slots=True)
class Flood:
    """What came of a flood: documents, and the seconds it took until the last answer."""

    documents: int = 0
    seconds: float = 0.0
    errors: list[str] = field(default_factory=list)

    @property
    def rate(self) -> float:
        """Documents a second."""
        return self.documents / self.seconds if self.seconds else 0.0


@dataclass(slots=True)
class Asked:
    """Latencies of questions in seconds."""

    latencies: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def percentile(self, percent: float) -> float:
        """In milliseconds."""
        return 1000 * float(np.percentile(self.latencies, percent)) if self.latencies else float("nan")


class Unanswered(RuntimeError):
    """The service answered with something else than vectors."""

    def __init__(self, name: str, status: int, found: Any) -> None:
        super().__init__(f"{name}: {status} {found}"[:300])
        self.status = status


class Target:
    """A service: `url` of the route, `model` as it is called there, and what bulk adds to a request."""

    def __init__(self, name: str, url: str, model: str, key: str | None = None, **bulk: Any) -> None:
        self.name, self._url, self._model, self._bulk = name, url, model, bulk
        self._headers = {"Authorization": f"Bearer {key}"} if key else {}

    async def post(self, session: aiohttp.ClientSession, texts: Sequence[str], **more: Any) -> int:
        """The number of vectors that came back. Raises `Unanswered`, aiohttp.ClientError."""
        return len(await self._ask(session, texts, more))

    async def vectors(self, session: aiohttp.ClientSession, texts: Sequence[str], **more: Any) -> NDArray[np.float32]:
        """The vectors themselves, (texts, dimensions). Raises as `post`, and ValueError when they are not in order."""
        found = await self._ask(session, texts, more)
        if [item["index"] for item in found] != list(range(len(texts))):
            raise ValueError(f"{len(found)} vectors came of {len(texts)} texts, or in another order")
        return np.stack([np.frombuffer(base64.b64decode(item["embedding"]), "<f4") for item in found])

    async def _ask(self, session: aiohttp.ClientSession, texts: Sequence[str], more: dict[str, Any]) -> list[Any]:
        body = {"input": list(texts), "model": self._model, "encoding_format": "base64", **more}
        async with session.post(self._url, json=body, headers=self._headers) as answer:
            found = await answer.json()
            if answer.status != 200:
                raise Unanswered(self.name, answer.status, found)
            data: list[Any] = found["data"]
            return data

    async def flood(
        self,
        texts: Sequence[str],
        seconds: float,
        *,
        batch: int = 64,
        clients: int = 4,
        stop: asyncio.Event | None = None,
    ) -> Flood:
        """Requests of `batch` texts by `clients` at once for so long, or until `stop`; all are answered."""
        made, began = Flood(), time.perf_counter()
        batches = itertools.cycle([texts[at : at + batch] for at in range(0, len(texts) - batch + 1, batch)])

        async def client(session: aiohttp.ClientSession) -> None:
            while time.perf_counter() - began < seconds and not (stop is not None and stop.is_set()):
                try:
                    count = await self.post(session, next(batches), **self._bulk)
                    made.documents += count  # not in one line, which would read the sum before it waits
                except (RuntimeError, aiohttp.ClientError) as error:
                    made.errors.append(str(error)[:300])
                    await asyncio.sleep(0.2)

        async with connections() as session:
            await asyncio.gather(*(client(session) for _ in range(clients)))
        made.seconds = time.perf_counter() - began
        return made

    async def ask(self, queries: Sequence[str], rate: float, seconds: float, seed: int) -> Asked:
        """Single questions at random moments, `rate` a second on average, whether the last one is answered or not."""
        chance, asked, waiting = random.Random(seed), Asked(), set()

        async def one(session: aiohttp.ClientSession, text: str) -> None:
            began = time.perf_counter()
            try:
                await self.post(session, [text])
            except (RuntimeError, aiohttp.ClientError) as error:
                asked.errors.append(str(error)[:300])
                return
            asked.latencies.append(time.perf_counter() - began)

        async with connections() as session:
            due = time.perf_counter()
            until = due + seconds
            while due < until:
                due += chance.expovariate(rate)
                await asyncio.sleep(max(0.0, due - time.perf_counter()))
                task = asyncio.create_task(one(session, chance.choice(queries)))
                waiting.add(task)
                task.add_done_callback(waiting.discard)
            await asyncio.gather(*waiting)
        return asked


def connections(key: str | None = None) -> aiohttp.ClientSession:
    """As many as there are requests."""
    return aiohttp.ClientSession(
        headers={"Authorization": f"Bearer {key}"} if key else {},
        connector=aiohttp.TCPConnector(limit=0),
        timeout=aiohttp.ClientTimeout(total=600),
        trust_env=False,
    )
