"""Clients of /v1/embeddings: each asks for the vector of a text now and then, and checks that it is that text's."""

from __future__ import annotations

import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

import aiohttp
import numpy as np
from numpy.typing import NDArray

from load.embedding_texts import paragraphs, queries
from load.embedding_wire import Target, Unanswered, connections
from load.harness.arrivals import Arrivals, come, paced
from load.harness.trial import Begun, Objective, Outcome, Unit, unseen
from load.harness.watch import watching
from load.service import Running

ANSWER = "answer"
TEXTS = 64
"""Different texts that are asked for; their vectors are known before the run."""
SAME = 0.99
"""Cosine of two vectors of one text, whatever it was computed with; those of two texts are further apart."""
BUSY = (429, 503)
Ask = Callable[[int, float, random.Random], Awaitable[None]]
"""Client, when it was due, its chance."""
USUAL, COMING = Objective(ANSWER, 0.2), Arrivals()


@dataclass(slots=True)
class EmbedTrial:
    """A client asks `rate` times a second: in a closed loop at equal distances, the next question waiting for the
    answer before; else at random moments, whatever is still unanswered.

    A unit is a question of `batch` texts; it is late when its vectors come more than the objective after it was due,
    which a client that waits does not put off. A client is refused when one of its questions is. `long`: whole
    paragraphs instead of what somebody would type.
    """

    objective: Objective = USUAL
    arrivals: Arrivals = COMING
    rate: float = 1.0
    batch: int = 1
    long: bool = False
    model: str = "text-embedding-3-small"
    begun: Begun = field(default=unseen)

    kind = "embed"
    own = ANSWER

    async def run(self, running: Running, clients: int, seconds: float, seed: int) -> Outcome:
        """As `Trial.run` says."""
        target = Target("embeddings", f"{running.url}/v1/embeddings", self.model, running.key)
        texts = random.Random(f"texts {seed}").sample(paragraphs() if self.long else queries(), TEXTS)
        more = {"truncate": True} if self.long else {}
        out, refused, heard = Outcome(clients), set[int](), set[int]()
        async with connections() as session:
            try:
                known = await target.vectors(session, texts, **more)
            except (Unanswered, ValueError, aiohttp.ClientError, TimeoutError) as error:
                out.wrong(f"nothing can be measured: {error}")
                return out
            self.begun(out)
            async with watching(running, seconds) as out.watched:
                begun = time.monotonic()

                async def ask(client: int, due: float, chance: random.Random) -> None:
                    which = [chance.randrange(TEXTS) for _ in range(self.batch)]
                    unit = Unit(client, due - begun, None, True)
                    try:
                        found = await target.vectors(session, [texts[n] for n in which], **more)
                    except Unanswered as error:
                        if error.status not in BUSY:
                            out.wrong(f"client {client}: {error}")
                            out.end(unit)
                        else:
                            out.count("questions refused")
                            refused.add(client)
                        return
                    except (ValueError, aiohttp.ClientError, TimeoutError) as error:
                        out.wrong(f"client {client}: {error!r}")
                        out.end(unit)
                        return
                    ended = time.monotonic()
                    heard.add(client)
                    out.took(ANSWER, ended - due)
                    out.end(Unit(client, due - begun, ended - begun, ended - due > self.objective.seconds))
                    _check(out, client, found, known[which], [texts[n] for n in which])

                await self._all(ask, clients, begun, seconds, seed)
        out.refused, out.admitted = len(refused), len(heard - refused)
        out.limits += out.watched.limits()
        return out

    async def _all(self, ask: Ask, clients: int, begun: float, seconds: float, seed: int) -> None:
        """Every client's questions."""
        if self.arrivals.open:
            moments = self.arrivals.moments(clients, seconds, 1 / self.rate, seed)
            chance = random.Random(f"asked {seed}")

            async def once(number: int, due: float) -> None:
                await ask(number % clients, due, chance)

            await come(moments, once)
            return

        async def client(number: int, due: float) -> None:
            chance = random.Random(f"asked {seed} {number}")
            async for moment in paced(due, 1 / self.rate, begun + seconds):
                await ask(number, moment, chance)

        spread = Arrivals(spread=min(self.arrivals.spread, 1 / self.rate))
        await come(spread.moments(clients, seconds, 0.0, seed), client)


def _check(out: Outcome, client: int, found: NDArray[np.float32], known: NDArray[np.float32], texts: list[str]) -> None:
    """Each vector must be that of its text."""
    if found.shape != known.shape or not np.isfinite(found).all():
        out.wrong(f"client {client}: vectors of shape {found.shape}, or not finite")
        return
    lengths = np.linalg.norm(found, axis=1) * np.linalg.norm(known, axis=1)
    cosines = (found * known).sum(axis=1) / np.maximum(lengths, 1e-12)
    for cosine, text in zip(cosines, texts, strict=True):
        if cosine < SAME:
            out.wrong(f"client {client}: the vector of {text[:40]!r} is not its own (cosine {cosine:.3f})")
