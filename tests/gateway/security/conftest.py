"""The real service on models that cost nothing, for what every protocol has to refuse."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway.sockets import SocketLimits
from tests.gateway.speak.conftest import Running, Server
from tests.load.fixed_service import engine

QUICK = SocketLimits(heartbeat_seconds=0.2, idle_seconds=0.8)


@pytest.fixture(scope="package")
def server() -> Iterator[Server]:
    """One engine for all tests."""
    server = Server(engine=engine(0.001, "level"))
    yield server
    server.close()


@pytest.fixture(scope="package")
def running(server: Server) -> Iterator[Running]:
    """The service with its own limits, but for the length of recordings."""
    running = server.serve(max_audio_seconds=30.0, max_upload_bytes=1 << 20)
    yield running
    running.stop()


@pytest.fixture(scope="package")
def quick(server: Server) -> Iterator[Running]:
    """One that does not wait long for anybody."""
    quick = server.serve(limits=QUICK)
    yield quick
    quick.stop()
