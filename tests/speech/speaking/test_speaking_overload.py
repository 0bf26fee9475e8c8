"""Many listeners on a simulated GPU: 10 ms a step and 3 ms for each window in it, so about 69 voices at once."""

from __future__ import annotations

import asyncio
import itertools
from statistics import median

import pytest

from speech.speaking.config import SpeakConfig
from speech.speaking.events import SpeechDone
from speech.speaking.house import FIRST_SOUND, House
from speech.speaking.rehearsal import Cost
from speech.text.normaliser import normalise
from speech.tts import PlanRequest, RenderRequest, SegmentText, Voicing
from tests.speech.speaking.sines import RATE, WINDOW, WORD
from tests.speech.speaking.stage import Listener, Stage, stage
from tests.workers.models import Job, Timed, teach
from workers.capacity import Capacity
from workers.errors import Overloaded
from workers.home import Home
from workers.pool import Pool
from workers.task import Lane

FIXED, EACH, ITEMS = 0.010, 0.003, 16
WINDOWS = RATE / WINDOW
"""In a second of sound."""
COST = Cost(
    step=FIXED, row=EACH, rows=2.2 * WINDOWS, steps=2.2, first=3 * (FIXED + EACH), first_rows=3, most=ITEMS
)  # fmt: skip
FIT = 1 / (2 * WINDOWS * (FIXED / ITEMS + EACH))
"""Voices that the device keeps up with in full batches, all of its time."""
TEXT = "This is one of the many sentences that we say here. " * 3
SECONDS = 33 * WORD


def gpu() -> Stage:
    return stage(a=FIXED, k=EACH, items=ITEMS)


def test_first_come_first_served_makes_everybody_stutter() -> None:
    made = gpu()
    streams = round(1.2 * FIT)
    numbers = itertools.count()
    arrivals: list[list[float]] = [[] for _ in range(streams)]

    async def stream(number: int) -> None:
        await asyncio.sleep(number * 0.01)
        tokens = tuple(normalise(TEXT, SpeakConfig().text, SpeakConfig().lexicon))
        voicing = Voicing(SegmentText(tokens, made.voice.phonemes(tokens), first=True))

        async def ask(request: PlanRequest | RenderRequest) -> object:
            return await made.pool.submit(request, lane=Lane.FINAL, deadline=1e-6 * next(numbers)).result()

        plan = await ask(PlanRequest(voicing))
        for window in range(len(plan.windows)):  # type: ignore[attr-defined]
            await ask(RenderRequest(voicing, window))
            arrivals[number].append(made.clock.now)

    async def play() -> None:
        await asyncio.gather(*(stream(number) for number in range(streams)))

    made.run(play())
    sizes = [0.25, *[0.5] * 40]
    with_gap = 0
    for times in arrivals:
        ends, gap = times[0] + sizes[0], False
        for arrived, size in zip(times[1:], sizes[1:], strict=False):
            gap = gap or arrived > ends + 0.010
            ends = max(ends, arrived) + size
        with_gap += gap
    assert with_gap >= 0.9 * streams


async def crowd(house: House, made: Stage, streams: int, apart: float, reports: float = 0.0) -> tuple[list, list]:
    """Streams that come so many seconds apart: (listeners of those admitted, refusals)."""
    listeners: list[Listener] = []
    refusals: list[Overloaded] = []

    async def one(number: int) -> None:
        await asyncio.sleep(number * apart)
        asked = made.clock.now
        try:
            speaker = house.open(SpeakConfig(seed=number))
        except Overloaded as refused:
            assert made.clock.now == asked, "refused at once"
            refusals.append(refused)
            return
        listener = Listener(speaker, made.clock, reports)
        listener.opened = asked  # type: ignore[attr-defined]
        listeners.append(listener)
        await speaker.say(TEXT)
        await speaker.end()
        await listener.listen()

    await asyncio.gather(*(one(number) for number in range(streams)))
    return listeners, refusals


def housed(made: Stage) -> House:
    house = House([made.device], Capacity([made.device]), clock=made.clock)
    house.add(made.voice, COST)
    return house


@pytest.mark.parametrize("apart", [0.0, 0.03, 0.1])
def test_none_of_the_admitted_hears_a_gap_and_the_rest_is_refused_at_once(apart: float) -> None:
    made = gpu()
    house = housed(made)
    streams = round(1.2 * FIT)
    listeners, refusals = made.run(crowd(house, made, streams, apart))
    firsts = sorted(listener.arrivals[0][0] - listener.opened for listener in listeners)
    assert [listener.gaps for listener in listeners if listener.gaps] == []
    assert all(listener.end == SpeechDone(pytest.approx(SECONDS)) for listener in listeners)
    assert firsts[-1] <= FIRST_SOUND
    assert all(refused.retry_after >= 1.0 for refused in refusals)
    assert len(listeners) + len(refusals) == streams
    assert made.quiet and house.status().speaking == 0


def test_reports_of_late_playback_are_as_good_as_the_clock() -> None:
    made = gpu()
    listeners, _ = made.run(crowd(housed(made), made, 40, 0.03, reports=0.25))
    assert [listener.gaps for listener in listeners if listener.gaps] == []


def test_a_first_sound_is_not_starved_by_those_who_catch_up() -> None:
    """Fifty voices go on after a hold, all of them late and more urgent; one more comes just then."""
    made = gpu()
    house = housed(made)

    async def play() -> float:
        crowded = asyncio.create_task(crowd(house, made, 50, 0.03))
        await asyncio.sleep(4.0)
        speakers = list(house._residents[0].tally._open)
        for maker in speakers:
            maker.hold(True)  # type: ignore[attr-defined]
        await asyncio.sleep(3.0)
        for maker in speakers:
            maker.hold(False)  # type: ignore[attr-defined]
        (listeners, _) = await asyncio.gather(crowd(house, made, 1, 0.0), asyncio.sleep(0))
        await crowded
        newcomer = listeners[0][0]
        assert newcomer.gaps == []
        return newcomer.arrivals[0][0] - newcomer.opened  # type: ignore[no-any-return]

    assert made.run(play()) <= 1.2 * FIRST_SOUND


def test_finals_of_transcription_are_in_time_beside_voices() -> None:
    made = stage(a=FIXED, k=EACH, items=ITEMS)
    asr = Timed(made.clock.sleep, a=0.008, k=0.001, model="asr")
    made.device.loop.homes["asr"] = Home(asr, "cpu")
    teach(made.device, asr)
    house, pool = housed(made), Pool("asr", [made.device])
    waited: list[float] = []

    async def finals() -> None:
        while True:
            begun = made.clock.now
            await pool.submit(Job("final", costs=(8.0, *[1.0] * 9)), lane=Lane.FINAL, deadline=begun + 0.5).result()
            waited.append(made.clock.now - begun)
            await asyncio.sleep(0.2)

    async def play() -> list[Listener]:
        task = asyncio.create_task(finals())
        listeners, _ = await crowd(house, made, 30, 0.05)
        task.cancel()
        return listeners

    listeners = made.run(play())
    assert [listener.gaps for listener in listeners if listener.gaps] == []
    assert len(waited) > 20
    assert max(waited) <= 0.5 and median(waited) <= 0.25


def test_a_refused_stream_is_let_in_later() -> None:
    made = gpu()
    house = housed(made)

    async def play() -> None:
        _, refusals = await crowd(house, made, 60, 0.05)
        assert refusals
        await asyncio.sleep(max(refused.retry_after for refused in refusals))
        listeners, refusals = await crowd(house, made, 1, 0.0)
        assert listeners and not refusals

    made.run(play())
