"""The crowd speaks the protocol, and what it measures is counted right."""

from __future__ import annotations

import asyncio
import math
import random

import numpy as np
import pytest

from load import cycles, sockets
from load.comings import WAYS, come, visits
from load.crowd import Crowd, speak, speech
from tests.gateway.speak.conftest import Server
from tests.load.fixed_service import engine

RATE = 16_000


def test_a_quantile_of_buckets_lies_between_their_bounds() -> None:
    buckets = [(0.001, 50.0), (0.01, 98.0), (0.02, 100.0), (math.inf, 100.0)]
    assert sockets.bucketed(buckets, 0.5) == 0.001
    assert sockets.bucketed(buckets, 0.99) == pytest.approx(0.015)
    assert sockets.bucketed([(0.02, 0.0), (math.inf, 5.0)], 0.5) == 0.02
    assert math.isnan(sockets.bucketed([], 0.5))


async def test_a_crowd_comes_speaks_is_heard_and_leaves_nothing() -> None:
    server = await asyncio.to_thread(lambda: Server(engine=engine(0.001, "level")))
    running = await asyncio.to_thread(lambda: server.serve(resume_seconds=1.0))
    host, _, port = running.address.partition(":")
    try:
        crowd = Crowd(host, int(port))
        await crowd.come(8, 100.0, RATE)
        assert running.service.sessions == 8
        noise = (np.random.default_rng(0).standard_normal(RATE) * 8000).clip(-32768, 32767)
        sound = np.concatenate([noise, np.zeros(RATE)]).astype("<i2").tobytes()
        talking = asyncio.create_task(speak(crowd.callers[:2], [speech(sound, RATE, 0.1)], 0.02))
        pinging = asyncio.create_task(crowd.ping(100.0))
        async with asyncio.timeout(20):
            while not crowd.heard.events[b"conversation.item.input_audio_transcription.completed"]:
                await asyncio.sleep(0.05)
        for task in (talking, pinging):
            task.cancel()
        assert crowd.heard.pongs and not crowd.heard.lost
        await crowd.leave()
        for number, visit in enumerate(visits(sound, None)):
            guest = await come(visit, host, int(port), None, random.Random(number))
            await guest.leave(WAYS[number % 4])
        assert await asyncio.to_thread(running.until, lambda: running.service.sessions == 0, 40.0)
    finally:
        await asyncio.to_thread(running.stop)
        await asyncio.to_thread(server.close)


def test_what_is_left_of_ten_thousand_is_told() -> None:
    empty = cycles.Picture(0, 0, 0, 0, tasks=8, threads=7, files=9, memory=100)
    left = cycles.Picture(1, 1, 0, 0, tasks=12, threads=8, files=10, memory=100)
    course = cycles.Course(memory=[n * cycles.MIB for n in range(40)], before=empty, after=left)
    missed = cycles.missed_bars(course, 16.0)
    assert len(missed) == 5 and any("4 tasks more" in one for one in missed)
    course = cycles.Course(memory=[cycles.MIB] * 40, before=empty, after=empty)
    assert cycles.missed_bars(course, 16.0) == []
