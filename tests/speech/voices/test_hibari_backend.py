"""The voice as a backend: alone or among many, in any order, again after a loss, and what it refuses."""

from __future__ import annotations

import asyncio
import gc
import random
import time

import numpy as np
import pytest
import torch

from speech.tts import Phonemes, Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Sound, Voicing
from speech.voices.hibari.backend import HibariBackend
from speech.voices.hibari.checks import MAX_PHONEMES
from tests.speech.voices.hibari_voices import (
    SENTENCE,
    TEXTS,
    backend,
    changed_backend,
    plan,
    render,
    segment,
    snr,
    speak,
    speak_together,
    tokens,
    weights,
)
from workers.backend import More
from workers.device import Device
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge
from workers.pool import Pool
from workers.task import Lane

SHORT = ("Hi.", "Oh!", "Who?", "I do.", "Yes, of course.")


def some_segments(count: int, order: random.Random) -> list[SegmentText]:
    return [
        segment(
            order.choice(SHORT),
            speed=order.choice((0.8, 1.0, 1.5)),
            seed=order.randrange(1 << 70),
            index=order.randrange(3),
            first=order.random() < 0.5,
        )
        for _ in range(count)
    ]


@pytest.mark.parametrize("precision", ["float32", "int8"])
def test_samples_alone_are_those_among_64_bit_for_bit(precision: str) -> None:
    order = random.Random(1)
    said = some_segments(64, order)
    together = speak_together(backend(precision), said, order)
    for one, sound in zip(said[::5], together[::5], strict=True):
        assert (speak(backend(precision), one)[1] == sound).all()


def test_rows_computed_together_give_the_same_sound() -> None:
    order = random.Random(2)
    said = [segment(SENTENCE, seed=1, first=True), *some_segments(7, order)]
    for one, sound in zip(said, speak_together(backend("float32", True), said, order), strict=True):
        assert snr(speak(backend(), one)[1], sound) >= 100


def test_a_segment_in_several_planning_steps_is_the_same_in_any_company() -> None:
    long = segment(TEXTS[-1])
    job = backend().open(PlanRequest(Voicing(long)))
    steps = 1
    while isinstance(backend().step([job])[0], More):
        steps += 1
    assert steps > 3
    backend().discard(job)


def test_seed_and_index_change_the_noise_only() -> None:
    sounds = [speak(backend(), segment("Fish.", seed=seed, index=index))[1] for seed, index in ((0, 0), (1, 0), (0, 1))]
    assert (speak(backend(), segment("Fish."))[1] == sounds[0]).all()
    for other in sounds[1:]:
        assert len(other) == len(sounds[0])
        assert 3 < snr(sounds[0], other) < 60


@pytest.mark.parametrize("first", [True, False])
def test_a_window_asked_for_again_is_the_same(first: bool) -> None:
    said = segment(SENTENCE, first=first)
    planned, sound = speak(backend(), said)
    assert planned.windows is not None
    voicing = Voicing(said)
    lost = backend().open(PlanRequest(voicing))
    backend().step([lost])
    backend().discard(lost)
    assert plan(backend(), voicing) == planned
    again: list[Sound] = []
    for window in range(len(planned.windows)):
        lost = backend().open(RenderRequest(voicing, window))
        backend().step([lost])
        backend().discard(lost)
        once = render(backend(), voicing, window)
        again.append(render(backend(), voicing, window))
        assert (once == again[-1]).all()
        if window >= 2:
            with pytest.raises(InputInvalid, match="in order"):
                backend().open(RenderRequest(voicing, window - 1))
    assert (np.concatenate(again) == sound).all()


def test_a_step_that_comes_back_late_does_not_undo_what_another_device_made() -> None:
    said = segment(SENTENCE)
    _, sound = speak(backend(), said)
    voicing = Voicing(said)
    planned = plan(backend(), voicing)
    assert planned.windows is not None
    stuck = backend().open(RenderRequest(voicing, 0))
    parts = [render(backend(), voicing, 0), render(backend(), voicing, 1), render(backend(), voicing, 2)]
    while isinstance(backend().step([stuck])[0], More):
        pass
    parts += [render(backend(), voicing, window) for window in range(3, len(planned.windows))]
    assert (np.concatenate(parts) == sound).all()


def test_windows_out_of_order_or_without_a_plan_are_refused() -> None:
    voicing = Voicing(segment(SENTENCE))
    with pytest.raises(InputInvalid, match="planned"):
        backend().open(RenderRequest(voicing, 0))
    planned = plan(backend(), voicing)
    assert planned.windows is not None
    for window, why in ((1, "order"), (-1, "windows 0 to"), (len(planned.windows), "windows 0 to")):
        with pytest.raises(InputInvalid, match=why):
            backend().open(RenderRequest(voicing, window))


@pytest.mark.parametrize("speed", [0.0, -1.0, 0.2, 4.1, float("nan"), float("inf")])
def test_impossible_speeds_name_the_field(speed: float) -> None:
    with pytest.raises(InputInvalid) as raised:
        backend().open(PlanRequest(Voicing(segment("Hi.", speed=speed))))
    assert raised.value.param == "speed"


def test_a_segment_beyond_the_cap_is_told_to_be_cut() -> None:
    ids = tuple([50] * (MAX_PHONEMES + 1))
    phonemes = Phonemes(ids, tuple([0] * len(ids)), ("h",))
    with pytest.raises(InputTooLarge, match="cut the text"):
        backend().open(PlanRequest(Voicing(SegmentText(tokens("h"), phonemes))))
    with pytest.raises(InputInvalid):
        backend().open(PlanRequest(Voicing(SegmentText(tokens("h"), Phonemes((0, 999, 0), (-1, 0, -1), ("h",))))))


@pytest.mark.parametrize("text", ["", "...", "?!", "☃"])
def test_nothing_to_say_is_no_window(text: str) -> None:
    planned, sound = speak(backend(), segment(text, first=True))
    assert planned == Planned(())
    assert not len(sound)


@pytest.mark.parametrize("batched", [False, True])
def test_a_bad_row_fails_alone(batched: bool) -> None:
    model = backend("float32", batched)
    voicings = [Voicing(segment("Yes, of course.")) for _ in range(3)]
    for voicing in voicings:
        plan(model, voicing)
    with torch.inference_mode():
        voicings[1].cache.plan.features[:] = float("nan")
    jobs = [model.open(RenderRequest(voicing, 0)) for voicing in voicings]
    model.step(jobs)
    good, bad, other = model.step(jobs)
    assert isinstance(bad, BackendFailed)
    assert "not numbers" in bad.message
    for result in (good, other):
        assert not isinstance(result, (More, Exception))
        assert np.isfinite(result.output.samples).all()


@pytest.mark.parametrize("bias", [-5.0, 9.0, float("nan")])
def test_lengths_that_cannot_be_right_are_an_error_not_a_sound(bias: float) -> None:
    with pytest.raises(BackendFailed, match=r"can't be right|not numbers"):
        changed_backend(pn__dur__2__bias=torch.tensor([bias]))


@pytest.mark.parametrize("speed", [0.25, 0.5, 2.0, 3.0, 4.0])
def test_a_segment_takes_as_long_as_its_speed_says(speed: float) -> None:
    usual, changed = (speak(backend(), segment(SENTENCE, speed=one))[1] for one in (1.0, speed))
    assert 0.8 < speed * len(changed) / len(usual) < 1.25


@pytest.mark.parametrize("speed", [0.25, 1.0, 4.0])
@pytest.mark.parametrize("first", [True, False])
def test_words_follow_each_other_inside_the_sound(speed: float, first: bool) -> None:
    said = segment(SENTENCE, speed=speed, first=first)
    planned, sound = speak(backend(), said)
    words = [time for time in planned.times if said.tokens[time.token].rule == "word"]
    assert [time.token for time in planned.times] == [n for n, text in enumerate(said.phonemes.text) if text]
    assert len(words) == 25
    for earlier, later in zip(planned.times, planned.times[1:], strict=False):
        assert earlier.start <= earlier.end <= later.start
        assert earlier.start < earlier.end or speed > 2, "only a speed that leaves frames out may leave out a token"
    assert planned.times[0].start >= 0
    assert planned.times[-1].end <= len(sound) / 24000
    # A word's time is that of its sound; some is heard in what the model holds to be the space between words.
    loud = sum(float((sound[int(24000 * w.start) : int(24000 * w.end)] ** 2).sum()) for w in words)
    assert loud > 0.75 * float((sound**2).sum())


def test_a_released_segment_is_gone_and_cannot_be_asked_for() -> None:
    voicing = Voicing(segment(SENTENCE))
    plan(backend(), voicing)
    running = backend().open(RenderRequest(voicing, 0))
    backend().step([running])
    voicing.release()
    backend().step([running])
    assert voicing.cache is None
    with pytest.raises(Cancelled):
        backend().open(RenderRequest(voicing, 1))
    backend().discard(running)
    assert voicing.cache is None


def test_discarded_tasks_leave_nothing_behind() -> None:
    def tensors() -> int:
        gc.collect()
        return sum(type(thing) is torch.Tensor for thing in gc.get_objects())

    def some_speech() -> None:
        speak(backend(), segment("Who is there?", first=True))
        job = backend().open(PlanRequest(Voicing(segment(SENTENCE))))
        backend().step([job])
        backend().discard(job)

    some_speech()
    before = tensors()
    for _ in range(5):
        some_speech()
    assert tensors() <= before


async def test_listeners_on_a_device_hear_what_each_hears_alone() -> None:
    order = random.Random(5)
    said = some_segments(8, order)
    device = Device("voice:0")
    device.add(HibariBackend(weights(), precision="int8"))
    device.start()
    pool = Pool("hibari", [device])

    async def listen(one: SegmentText) -> Sound:
        voicing = Voicing(one)
        planned = await pool.submit(PlanRequest(voicing), lane=Lane.PARTIAL, deadline=time.monotonic() + 1).result()
        parts = []
        for window in range(len(planned.windows)):
            request = RenderRequest(voicing, window)
            rendered = await pool.submit(request, lane=Lane.FINAL, deadline=time.monotonic() + 1).result()
            assert isinstance(rendered, Rendered)
            assert rendered.last == (window == len(planned.windows) - 1)
            parts.append(rendered.samples)
        return np.concatenate(parts)

    try:
        heard = await asyncio.gather(*map(listen, said))
    finally:
        device.drain(5.0)
        device.close()
    for one, sound in zip(said, heard, strict=True):
        assert (speak(backend("int8"), one)[1] == sound).all()
