"""The real engine, started once for all tests of the lane, and a lane for each of them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from speech.engine import Engine, EngineSettings


@pytest.fixture(scope="package")
def engine() -> Iterator[Engine]:
    started = asyncio.run(Engine.start(EngineSettings(threads=1)))
    yield started
    asyncio.run(started.close())


@pytest.fixture
def jobs(tmp_path: Path) -> Iterator[Jobs]:
    """A lane in which a task that fails is dead at once."""
    opened = Jobs.open(BatchSettings(directory=tmp_path / "lane", attempts=1))
    yield opened
    opened.close()
