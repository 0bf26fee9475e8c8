"""The clients measure themselves at a service that thinks nothing, and say when they are what limits a run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from load import listeners
from load.corpora import Clip
from load.harness import echo
from load.harness.arrivals import Arrivals
from load.harness.asr import AsrTrial
from load.harness.calibration import Cost, blame, cost
from load.harness.embed import ANSWER, EmbedTrial
from load.harness.jobs import JobsTrial
from load.harness.trial import Outcome, Trial
from load.harness.tts import TtsTrial
from load.harness.voice import VoiceTrial
from load.harness.watch import LATE, watching
from load.service import Running


@pytest.fixture
async def running() -> AsyncIterator[Running]:
    """The service that thinks nothing."""
    runner = web.AppRunner(echo.application(), access_log=None, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    yield Running(f"http://{host}:{port}", None)
    await runner.cleanup()


async def test_every_kind_gets_along_with_a_service_that_thinks_nothing(
    running: Running, clips: list[Clip], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listeners, "utterance", lambda chance: ["Yes, of course."])
    soon, short = Arrivals(spread=0.2), clips[:1]
    trials: list[Trial] = [
        AsrTrial(recordings=short, arrivals=soon, most_errors=0.0),
        TtsTrial(arrivals=soon),
        VoiceTrial(recordings=short, arrivals=soon, most_errors=0.0),
        EmbedTrial(rate=10.0),
        JobsTrial(recordings=short, length=2.0, most_errors=0.0, arrivals=soon),
    ]
    for trial, found in zip(
        trials, await asyncio.gather(*(cost(trial, running, 1, 2.0, 1) for trial in trials)), strict=True
    ):
        assert found.latencies[trial.own]["count"], trial.kind
        # All of them, and the service, share one event loop here: they may well be late, but nothing may go wrong.
        assert not [limit for limit in found.limits if "get along" in limit], (trial.kind, found.limits)
        assert found.latency < 0.5


async def test_a_client_that_is_late_by_itself_says_so(running: Running) -> None:
    async def busy() -> None:
        while True:
            time.sleep(0.05)
            await asyncio.sleep(0.02)

    disturbing = asyncio.create_task(busy())
    out = await EmbedTrial(rate=10.0).run(running, 1, 1.0, 0)
    disturbing.cancel()
    assert out.watched is not None and out.watched.client_lag(0.99) > LATE
    assert out.client_limited and any("late (p99)" in limit for limit in out.limits)


async def test_a_client_that_is_in_time_does_not() -> None:
    nowhere = Running("http://127.0.0.1:9", None)
    async with watching(nowhere) as watched:
        await asyncio.sleep(0.3)
    watched.late = [0.001] * 100
    assert watched.limits() == []
    assert watched.loop_lag(0.99) is None and watched.memory == 0


def test_figures_that_are_mostly_the_clients_are_theirs() -> None:
    def blamed(own: float, measured: float, *limits: str) -> Outcome:
        out = Outcome(1, latencies={ANSWER: [measured] * 20})
        blame(out, Cost(1, ANSWER, own, 0.0, 0.1, limits, {}), ANSWER)
        return out

    assert not blamed(0.002, 0.050).client_limited
    assert not blamed(0.009, 0.010).client_limited  # so little is always allowed
    assert not blamed(0.020, 0.500).client_limited
    assert "20 of the 50 ms" in blamed(0.020, 0.050).limits[0]
    assert "alone" in blamed(0.001, 0.5, "the client took 99 %").limits[0]
