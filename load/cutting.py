"""A connection that breaks: a proxy between client and service that cuts after a given number of bytes."""

from __future__ import annotations

import asyncio
import random
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress

READ_BYTES = 4096


class CuttingProxy:
    """Passes bytes on between clients and `host:port`. While `armed`, a connection gets a budget of bytes, of those
    that come or of those that go; where it is used up, mid-message or not, both sides are reset, or simply closed.

    With `others` it is a load balancer without affinity: every connection goes to one of all of them by chance, and to
    another one where that does not answer. All of them are in `targets`.
    """

    def __init__(
        self,
        host: str,
        port: int,
        chance: random.Random,
        *,
        up: int,
        down: int,
        others: Sequence[tuple[str, int]] = (),
    ) -> None:
        self.cuts = 0
        self.armed = True
        self.down = False
        """Every connection is cut as it comes."""
        self.port = 0
        self.targets = [(host, port), *others]
        self._chance = chance
        self._most = {"up": up, "down": down}
        self._open: set[asyncio.Task[None]] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[CuttingProxy]:
        """Listening on `port` of 127.0.0.1."""
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        try:
            yield self
        finally:
            server.close()
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    def cut(self) -> None:
        """Cut what is open, now."""
        for task in self._open:
            task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._open.add(task)
        if self.down:
            _reset(writer)
            writer.close()
            self._open.discard(task)
            return
        try:
            up, down = await self._reached()
        except OSError:
            _reset(writer)
            writer.close()
            self._open.discard(task)
            return
        direction = self._chance.choice(("up", "down"))
        budget = self._chance.randrange(self._most[direction]) if self.armed else None
        # Bytes of both directions pass in turn, so a cut hits whatever is on its way.
        ways = [
            asyncio.create_task(self._pass(reader, down, budget if direction == "up" else None)),
            asyncio.create_task(self._pass(up, writer, budget if direction == "down" else None)),
        ]
        try:
            done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            if any(way.result() for way in done):
                self.cuts += 1
        except asyncio.CancelledError:
            pass  # the proxy stops; asyncio would log a handler that ends in this as a fault
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)
            for side in (writer, down):
                if self._chance.random() < 0.5:
                    _reset(side)
                side.close()
                with suppress(OSError):
                    await side.wait_closed()
            self._open.discard(task)

    async def _reached(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        for target in self._chance.sample(self.targets, len(self.targets)):
            try:
                return await asyncio.open_connection(*target)
            except OSError as error:
                problem = error
        raise problem

    @staticmethod
    async def _pass(source: asyncio.StreamReader, sink: asyncio.StreamWriter, budget: int | None) -> bool:
        """Until the source ends (False) or the budget does (True)."""
        with suppress(OSError):
            while data := await source.read(READ_BYTES if budget is None else min(READ_BYTES, max(1, budget))):
                sink.write(data)
                await sink.drain()
                if budget is not None:
                    budget -= len(data)
                    if budget <= 0:
                        return True
        return False


def _reset(writer: asyncio.StreamWriter) -> None:
    """Closing then sends no farewell."""
    sock = writer.get_extra_info("socket")
    with suppress(OSError, AttributeError):
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
