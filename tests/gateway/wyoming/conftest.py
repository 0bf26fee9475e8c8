"""The real service with a voice and a model, and Wyoming on a port of its own."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

import pytest
from wyoming.client import AsyncTcpClient
from wyoming.event import Event

from gateway.wyoming.listener import WyomingListener
from tests.gateway.speak.conftest import Running, Server


@dataclass(frozen=True)
class Port:
    """Where Wyoming is spoken."""

    number: int
    running: Running
    listener: WyomingListener

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncTcpClient]:
        async with AsyncTcpClient("127.0.0.1", self.number, read_timeout=20) as client:
            yield client


@pytest.fixture(scope="package")
def port() -> Iterator[Port]:
    """One engine and one listener for all tests."""
    server = Server(models=("tiny.en",))
    running = server.serve()
    sock = socket.create_server(("127.0.0.1", 0))
    listener = WyomingListener(running.service)
    server.run(listener.start(sock))
    yield Port(sock.getsockname()[1], running, listener)
    server.run(listener.close())
    running.stop()
    server.close()


async def until(client: AsyncTcpClient, *types: str) -> list[Event]:
    """Events up to and with one of these types."""
    events: list[Event] = []
    while not events or events[-1].type not in types:
        event = await client.read_event()
        assert event is not None, [event.type for event in events]
        events.append(event)
    return events


async def ended(client: AsyncTcpClient) -> bool:
    """Whether the service has closed the connection, with nothing more to say."""
    return await asyncio.wait_for(client.read_event(), 5) is None
