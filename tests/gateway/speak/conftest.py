"""The real service with the embedded voice, in a thread of its own, for all tests of speech out."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from aiohttp import web

from gateway.app import build_app
from gateway.connections import PatientRunner
from gateway.settings import Settings
from gateway.sockets import LIMITS, SocketLimits
from gateway.speak.handler import SPEAK_LIMITS
from gateway.speak.session import SpeakLimits
from gateway.state import SERVICE, Service
from speech.engine import Engine, EngineSettings


class Server:
    """Applications on one event loop in one thread, all on one engine."""

    def __init__(self, models: tuple[str, ...] = (), engine: Engine | None = None) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="server", daemon=True)
        self._thread.start()
        self.engine: Engine = engine or self.run(Engine.start(EngineSettings(models=models, voices=("heart",))))
        # A slow machine must not refuse what these tests ask for at once.
        self.admitted_share(1000.0)

    def run(self, coroutine: Any, timeout: float = 60) -> Any:
        """Run a coroutine on the server's loop."""
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result(timeout)

    def admitted_share(self, limit: float) -> None:
        """Admit live streams up to so many seconds of step time per second."""
        self.engine._capacity.limit = limit

    def serve(
        self, limits: SocketLimits | None = None, speaking: SpeakLimits | None = None, **settings: object
    ) -> Running:
        """An application with these limits and settings."""
        return self.run(self._serve(limits, speaking, settings))

    async def _serve(
        self, limits: SocketLimits | None, speaking: SpeakLimits | None, settings: dict[str, object]
    ) -> Running:
        async def start(_: Settings) -> Engine:
            return self.engine

        app = build_app(Settings(port=0, **settings), start)  # type: ignore[arg-type]
        if limits is not None:
            app[LIMITS] = limits
        if speaking is not None:
            app[SPEAK_LIMITS] = speaking
        # The engine outlives the application: other tests go on with it.
        app.cleanup_ctx.clear()
        service = app[SERVICE]
        service.engine = self.engine
        service.metrics.watch_engine(lambda: self.engine)
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
    def http(self) -> str:
        return f"http://{self.address}"

    @property
    def url(self) -> str:
        return f"ws://{self.address}/v1/speak"

    @property
    def speaking(self) -> int:
        """Streams of speech that are open in the engine."""
        return self.server.engine.status().speech.speaking

    def until(self, condition: Callable[[], bool], seconds: float = 5.0) -> bool:
        """Whether something comes about in time."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

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
