"""The voices of a process: names, costs, who is let in, and the way down."""

from __future__ import annotations

import asyncio

import pytest

from speech.speaking.config import SpeakConfig
from speech.speaking.events import SpeechDone, SpeechFailed
from speech.speaking.house import FILES, OPENAI_MODELS, OPENAI_VOICES, House
from speech.speaking.rehearsal import Cost, rehearse
from tests.speech.speaking.sines import RATE, WINDOW, Sines
from tests.speech.speaking.stage import Listener, Stage, stage
from tests.workers.models import VirtualClock
from workers.capacity import Capacity
from workers.device import Device
from workers.errors import Draining, InputInvalid, Overloaded
from workers.pool import Pool

CHEAP = Cost(step=0.001, row=0.001, rows=4.4, steps=2.2, first=0.01, first_rows=3, most=64)
DEAR = Cost(step=0.0, row=0.1, rows=4.4, steps=2.2, first=0.3, first_rows=3, most=64)


def housed(made: Stage, cost: Cost = CHEAP) -> House:
    house = House([made.device], Capacity([made.device]), clock=made.clock)
    house.add(made.voice, cost)
    return house


def test_names_aliases_and_models_are_resolved_and_nothing_else() -> None:
    made = stage()
    other = Sines(name="other")
    made.device.loop.homes["other-model"] = made.device.loop.homes["sine-model"]
    house = housed(made)
    house.add(other, CHEAP)
    assert [info.name for info in house.voices()] == ["sine", "other"]
    for name in (None, "", "sine", *OPENAI_VOICES):
        assert house.resolve(name).name == "sine"
    assert {"alloy", "marin", "cedar"} <= set(house.voices()[0].aliases)
    assert "default" in house.voices()[0].description
    assert house.resolve("other").name == "other"
    for model in (None, "", *OPENAI_MODELS, "sine-model"):
        assert house.resolve("alloy", model).name == "sine"
    assert house.resolve(None, "other-model").name == "other"
    for voice, model, param in (
        ("nobody", None, "voice"),
        ("sine", "gpt-9", "model"),
        ("sine", "other-model", "voice"),
    ):
        with pytest.raises(InputInvalid) as refused:
            house.resolve(voice, model)
        assert refused.value.param == param
    with pytest.raises(InputInvalid, match=r"sine.*alloy.*other"):
        house.resolve("nobody")


def test_a_house_without_voices_says_so() -> None:
    made = stage()
    house = House([made.device], Capacity([made.device]), clock=made.clock)
    with pytest.raises(InputInvalid, match="no voice") as refused:
        house.open(SpeakConfig())
    assert refused.value.param == "voice"
    assert house.status().free == 0


def test_shares_are_held_until_the_sound_is_made() -> None:
    made = stage(a=0.001, k=0.001)
    house = housed(made, DEAR)

    async def play() -> None:
        assert house.status().free == 1
        first = house.open(SpeakConfig())
        assert (house.status().speaking, house.status().free) == (1, 0)
        with pytest.raises(Overloaded) as refused:
            house.open(SpeakConfig())
        assert refused.value.retry_after > 0
        await first.say("one two three four five six seven.")
        await first.end()
        listener = Listener(first, made.clock)
        await listener.listen()
        assert house.status().speaking == 0
        second = house.open(SpeakConfig())
        await second.cancel()
        await house.open(SpeakConfig()).close()
        assert house.status().wasted == 0.0
        assert house.status().made == pytest.approx(2.1)

    made.run(play())
    assert made.quiet


def test_a_rehearsal_on_a_busy_machine_is_corrected_by_what_streams_take() -> None:
    made = stage(a=0.001, k=0.001)
    house = housed(made, DEAR)

    async def play() -> None:
        for _ in range(2):
            assert house.status().free == 1
            speaker = house.open(SpeakConfig())
            await speaker.say("one two three four five six seven eight nine ten " * 3)
            await speaker.end()
            await Listener(speaker, made.clock).listen()
        share = house._residents[0].share(0.85)
        assert share == pytest.approx(0.002 * 2.2 * RATE / WINDOW, rel=0.1)
        await asyncio.sleep(60.0)
        assert house.status().free == int(0.85 / share)

    made.run(play())


def test_a_wrong_setting_reserves_nothing() -> None:
    made = stage()
    house = housed(made, DEAR)
    for config in (SpeakConfig(voice="nobody"), SpeakConfig(speed=0.0)):
        with pytest.raises(InputInvalid):
            house.open(config)
    assert house.status().free == 1


def test_files_hold_no_share_but_have_a_bound() -> None:
    made = stage()
    house = housed(made, DEAR)

    async def play() -> None:
        speakers = [house.open(SpeakConfig(lead=None)) for _ in range(FILES)]
        with pytest.raises(Overloaded):
            house.open(SpeakConfig(lead=None))
        await house.open(SpeakConfig()).close()
        for speaker in speakers:
            await speaker.close()
        await house.open(SpeakConfig(lead=None)).close()

    made.run(play())


def test_on_the_way_down_those_who_speak_come_to_their_end() -> None:
    made = stage(a=0.001, k=0.001)
    house = housed(made)

    async def play() -> None:
        ends, never = (Listener(house.open(SpeakConfig()), made.clock) for _ in range(2))
        for listener in (ends, never):
            await listener.speaker.say("one two three. four five six seven eight nine ten.")
        await ends.speaker.end()
        listening = asyncio.gather(ends.listen(), never.listen())
        draining = asyncio.create_task(house.drain(20.0))
        await asyncio.sleep(0)
        with pytest.raises(Draining):
            house.open(SpeakConfig())
        await draining
        assert made.clock.now == pytest.approx(20.0, abs=0.1)
        assert isinstance(ends.end, SpeechDone)
        made.device.drain(0.0)
        await never.speaker.say(" eleven twelve.")
        await never.speaker.end()
        await listening
        assert isinstance(never.end, SpeechFailed) and isinstance(never.end.error, Draining)

    made.run(play())


def test_a_rehearsal_finds_what_steps_and_rows_cost() -> None:
    clock = VirtualClock()
    voice = Sines(a=0.010, k=0.003, sleep=clock.sleep)
    device = Device("sim", clock=clock)
    device.add(voice.backend())
    device.start()
    try:
        cost = rehearse(voice, Pool(voice.info.model, [device]), device)
    finally:
        device.close()
    assert cost.row + cost.step == pytest.approx(0.013)
    assert cost.step == pytest.approx(0.010) or cost.step == 0.0, "unless no batch came about"
    assert cost.first == pytest.approx(3 * 0.013)
    assert cost.rows == pytest.approx(2.2 * RATE / WINDOW, rel=0.3)


def test_shares_spread_what_a_step_costs_over_those_who_fit() -> None:
    for cost in (CHEAP, DEAR):
        share = cost.share(0.85)
        assert cost.row * cost.rows <= share <= (cost.row + cost.step) * cost.rows
    assert Cost(0.05, 0.001, 4.4, 2.2, 0.1, 3, 8).share(0.85) >= (0.05 / 8 + 0.001) * 4.4, "a batch has a bound"
    assert CHEAP.first_sound(9, 0.5) > CHEAP.first_sound(0, 0.5) > CHEAP.first_sound(0, 0.0) == CHEAP.first
