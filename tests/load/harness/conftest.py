"""The real service on models that take a fixed time and know what they were told: tones, sines, hashes."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from gateway.app import build_app
from gateway.connections import PatientRunner
from gateway.settings import Settings, load_settings
from gateway.state import SERVICE
from load.corpora import Clip, recordings
from speech.engine import Engine
from tests.load.fixed_service import QUIET, engine
from tests.load.harness.hashing import Embedder
from tests.load.harness.tones import Tones, record

STEP = 0.002


@pytest.fixture(scope="session")
def tones(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of recordings that the service understands."""
    return record(tmp_path_factory.mktemp("tones"))


@pytest.fixture(scope="session")
def clips(tones: Path) -> list[Clip]:
    """They."""
    return recordings(tones)


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The whole service, jobs and embeddings too, in a thread of its own."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="server", daemon=True)
    thread.start()

    def run(coroutine: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result(60)

    settings = load_settings(**{**QUIET, "batch": True, "batch_dir": tmp_path_factory.mktemp("batch"), "port": 0})
    runner = run(_serve(settings))
    host, port = runner.addresses[0][:2]
    yield f"http://{host}:{port}"
    run(runner.cleanup())
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


async def _serve(settings: Settings) -> web.AppRunner:
    async def start(_: Settings) -> Engine:
        return await asyncio.to_thread(partial(engine, STEP, "level", asr=Tones))

    app = build_app(settings, start)
    service = app[SERVICE]
    service.embeddings._embedder = Embedder(STEP)  # type: ignore[assignment]
    runner = PatientRunner(app, access_log=None, shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    await service.when_loaded()
    async with asyncio.timeout(30):
        while service.batch.state != "ready":
            await asyncio.sleep(0.05)
    return runner
