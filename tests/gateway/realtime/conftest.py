"""The real service with tiny.en on a port of its own, in a thread of its own, for all realtime tests."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
from aiohttp import web

from gateway.app import build_app
from gateway.connections import PatientRunner
from gateway.settings import Settings
from gateway.sockets import LIMITS, SocketLimits
from gateway.state import SERVICE, Service
from speech.engine import Engine, EngineSettings


class Server:
    """Applications on one event loop in one thread, all on one engine."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="server", daemon=True)
        self._thread.start()
        self.engine: Engine = self.run(Engine.start(EngineSettings(models=("tiny.en",), device="cpu")))
        # These tests are about sessions, many at once and faster than real time; a slow machine must not refuse them.
        self.admitted_share(1000.0)

    def run(self, coroutine, timeout: float = 60):  # type: ignore[no-untyped-def]
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def admitted_share(self, limit: float) -> None:
        """Admit live streams up to so many seconds of step time per second."""
        self.engine._capacity.limit = limit

    def serve(self, limits: SocketLimits | None = None, **settings: object) -> Running:
        """An application with these limits and settings."""
        return self.run(self._serve(limits, settings))

    async def _serve(self, limits: SocketLimits | None, settings: dict[str, object]) -> Running:
        async def start(_: Settings) -> Engine:
            return self.engine

        app = build_app(Settings(port=0, **settings), start)  # type: ignore[arg-type]
        if limits is not None:
            app[LIMITS] = limits
        # The engine outlives the application: other tests go on with it.
        app.cleanup_ctx.clear()
        service = app[SERVICE]
        service.engine = self.engine
        runner = PatientRunner(app, access_log=None, shutdown_timeout=1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        host, port = runner.addresses[0][:2]
        return Running(f"{host}:{port}", service, runner, self)

    def close(self) -> None:
        self.run(self.engine.close())
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join(10)
        self.loop.close()


@dataclass(frozen=True)
class Running:
    """A served application."""

    address: str
    service: Service
    runner: web.AppRunner
    server: Server

    @property
    def url(self) -> str:
        return f"ws://{self.address}/v1/realtime?intent=transcription"

    def stop(self) -> None:
        self.server.run(self.runner.cleanup())


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """One engine for all tests."""
    server = Server()
    yield server
    server.close()


@pytest.fixture(scope="session")
def running(server: Server) -> Iterator[Running]:
    """The service with its default limits."""
    running = server.serve()
    yield running
    running.stop()
