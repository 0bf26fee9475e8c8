"""The codec backend: what a listener hears depends on the text and the seed, never on who else is being spoken to."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
import torch

from speech.tts import Planned, PlanRequest, Rendered, RenderRequest
from speech.voices.codec.backend import CodecBackend
from speech.voices.codec.windows import frames_of
from tests.speech.voices.codec_voices import TEXTS, Heard, alone, backend, go_on, run, speak, voicing
from workers.backend import Done
from workers.device import Device
from workers.errors import BackendFailed, Cancelled, InputInvalid, InputTooLarge, Overloaded
from workers.pool import Pool
from workers.task import Lane

FRAME = 2048
SIXTEEN = [(TEXTS[n % len(TEXTS)], n) for n in range(16)]


def same(heard: list[Heard], requests: list[tuple[str, int]]) -> None:
    for each, (text, seed) in zip(heard, requests, strict=True):
        assert np.array_equal(each.samples, alone(text, seed=seed)), (text, seed)


def test_alone_or_among_sixteen_bit_by_bit() -> None:
    on = backend(16)
    same(speak(on, [voicing(text, seed=seed) for text, seed in SIXTEEN]), SIXTEEN)


def test_more_segments_than_places_sound_the_same() -> None:
    on = backend(3)
    heard = speak(on, [voicing(text, seed=seed) for text, seed in SIXTEEN[:8]])
    assert on.free_slots == 0 and sum(each.voicing.cache.saved is not None for each in heard) == 5
    same(heard, SIXTEEN[:8])


def test_another_seed_or_segment_is_spoken_differently() -> None:
    said = [alone(TEXTS[0], seed=0), alone(TEXTS[0], seed=1), alone(TEXTS[0], seed=0, index=1)]
    assert not any(np.array_equal(said[a], said[b]) for a, b in ((0, 1), (0, 2), (1, 2)))


def test_windows_make_up_the_whole_and_nothing_is_lost() -> None:
    (heard,) = speak(backend(1), [voicing(TEXTS[3], seed=7, first=False)])
    row = heard.voicing.cache
    assert len(heard.samples) == row.frames * FRAME
    sizes = [len(window.samples) for window in heard.windows]
    assert len(sizes) == 5
    assert set(sizes[:-1]) <= {6 * FRAME} and 0 < sizes[-1] <= 6 * FRAME
    assert 0 in row.codes  # the smallest code is a code
    assert [window.last for window in heard.windows] == [False] * (len(sizes) - 1) + [True]


def test_the_first_windows_of_a_stream_are_short_and_its_head_is_trimmed() -> None:
    assert [frames_of(n, first=True) for n in range(4)] == [(0, 2), (2, 6), (6, 12), (12, 18)]
    (first,) = speak(backend(1), [voicing(TEXTS[3], seed=7)])
    later = speak(backend(1), [voicing(TEXTS[3], seed=7, first=False)])[0].samples
    assert first.voicing.cache.trimmed == len(later) - len(first.samples)
    seam = len(first.windows[0].samples)
    # Windows end elsewhere, so codes are decoded beside others: the same up to rounding.
    assert np.allclose(first.samples, later[len(later) - len(first.samples) :], atol=1e-4) and seam <= 2 * FRAME


def test_words_are_timed_once_and_no_later_than_they_sound() -> None:
    (heard,) = speak(backend(1), [voicing(TEXTS[3], seed=7)])
    begin, seen = 0.0, []
    for window in heard.windows:
        end = begin + len(window.samples) / 24000
        for time in window.times:
            assert begin <= time.start <= time.end
            assert time.end <= end + 1e-9 if window.last else time.start < end
            seen.append(time.token)
        begin = end
    words = [n for n, word in enumerate(TEXTS[3].split()) if word.isalnum()]
    assert seen == words


def test_rows_that_rest_or_starve_stay_as_they_are_and_go_on_with_the_same_samples() -> None:
    on = backend(4)
    resting = speak(on, [voicing(TEXTS[3], seed=7)], windows=2)
    row = resting[0].voicing.cache
    assert not row.ended
    memory, seen = (t.clone() for t in on._loaded.slots.view(row.slot))
    codes = list(row.codes)
    speak(on, [voicing(text, seed=seed) for text, seed in SIXTEEN[:3]])
    after, used = on._loaded.slots.view(row.slot)
    assert torch.equal(memory, after) and torch.equal(seen, used) and row.codes == codes
    go_on(on, resting)
    same(resting, [(TEXTS[3], 7)])


def test_a_place_is_wiped_for_its_next_owner() -> None:
    on = backend(1)
    for seed in range(3):
        (heard,) = speak(on, [voicing(TEXTS[seed], seed=seed)])
        same([heard], [(TEXTS[seed], seed)])
        on._loaded.slots.memory.fill_(torch.nan)
        assert on.free_slots == 0
        heard.voicing.release()
        assert on.free_slots == 1


def test_a_bad_row_fails_alone() -> None:
    on = backend(4)
    heard = speak(on, [voicing(text, seed=seed) for text, seed in SIXTEEN[:4]], windows=1)
    bad = heard[1].voicing.cache
    on._loaded.slots.memory[:, :, bad.slot, :, :2] = torch.nan
    answers = run(on, *(each.next for each in heard))
    assert isinstance(answers[1], BackendFailed)
    for n in (0, 2, 3):
        assert isinstance(answers[n], Rendered)
        heard[n].windows.append(answers[n])
    heard[1].voicing.release()
    rest = [heard[0], heard[2], heard[3]]
    go_on(on, rest)
    same(rest, [SIXTEEN[0], SIXTEEN[2], SIXTEEN[3]])
    same(speak(on, [voicing(*SIXTEEN[5][:1], seed=5)]), [SIXTEEN[5]])  # in the bad one's place


def test_a_window_may_be_asked_for_again_even_on_a_device_that_was_started_anew() -> None:
    on = backend(2)
    (heard,) = speak(on, [voicing(TEXTS[1], seed=5)], windows=2)
    assert not heard.voicing.cache.ended
    (again,) = run(on, RenderRequest(heard.voicing, 1))
    assert np.array_equal(again.samples, heard.windows[1].samples)
    on.load("cpu")
    assert on.free_slots == 2
    go_on(on, [heard])
    assert np.allclose(heard.samples, alone(TEXTS[1], seed=5), atol=1e-4)


def test_on_two_devices_in_turn() -> None:
    left, right = backend(1), backend(1)
    (heard,) = speak(left, [voicing(TEXTS[1], seed=5)], windows=1)
    assert not heard.voicing.cache.ended
    go_on(right, [heard])
    assert (left.free_slots, right.free_slots) == (1, 0)
    assert np.allclose(heard.samples, alone(TEXTS[1], seed=5), atol=1e-4)


def test_all_places_in_one_masked_step_say_the_same() -> None:
    on = backend(5, apart=False)
    resting = speak(on, [voicing(TEXTS[3], seed=7)], windows=1)
    assert not resting[0].voicing.cache.ended
    memory, _ = (t.clone() for t in on._loaded.slots.view(resting[0].voicing.cache.slot))
    heard = speak(on, [voicing(text, seed=seed) for text, seed in SIXTEEN[:4]])
    assert torch.equal(memory, on._loaded.slots.view(resting[0].voicing.cache.slot)[0])
    for each, (text, seed) in zip(heard, SIXTEEN, strict=False):
        assert np.allclose(each.samples, alone(text, seed=seed), atol=1e-4)


def never_ending(on: CodecBackend) -> CodecBackend:
    """The same model, were the end its least likely token."""
    llama = on._loaded.llama
    logits = llama.logits
    llama.logits = lambda states: logits(states).index_fill(1, torch.tensor([0]), -1e9)
    return on


def test_speech_that_does_not_end_is_ended() -> None:
    (heard,) = speak(never_ending(backend(1)), [voicing("No .")])
    assert heard.over and heard.voicing.cache.frames == heard.voicing.cache.most == 33  # 2 s and 0.75 s for "No "
    assert heard.windows[-1].times == () and [each.token for each in heard.windows[0].times] == [0]


def test_a_segment_that_fills_its_place_is_ended() -> None:
    room = len(voicing(TEXTS[0]).segment.phonemes.ids) + 7 * 32
    (heard,) = speak(never_ending(backend(1, capacity=room)), [voicing(TEXTS[0])])
    assert heard.over and heard.voicing.cache.frames == 32


def test_what_can_not_be_said() -> None:
    on = backend(1, voicings=2)
    for text in ("", "...", "?! ,"):
        silent = voicing(text)
        assert run(on, PlanRequest(silent)) == [Planned(())]
        (rendered,) = run(on, RenderRequest(silent, 0))
        assert rendered.last and not len(rendered.samples)
    with pytest.raises(InputInvalid) as fault:
        on.open(PlanRequest(voicing(TEXTS[0], speed=1.5)))
    assert fault.value.param == "speed"
    with pytest.raises(InputTooLarge) as fault:
        on.open(PlanRequest(voicing("word " * 400 + ".")))
    assert fault.value.param == "input"
    held = speak(on, [voicing(TEXTS[0], seed=seed) for seed in range(2)], windows=1)
    (refusal,) = run(on, PlanRequest(voicing(TEXTS[1])))
    assert isinstance(refusal, Overloaded) and refusal.retry_after > 0
    held[0].voicing.release()
    assert run(on, PlanRequest(voicing(TEXTS[1]))) == [Planned(None)]
    with pytest.raises(Cancelled):
        on.open(held[0].next)


def test_one_prefill_a_step_and_a_cancelled_segment_frees_its_place_within_one() -> None:
    on = backend(8)
    device = Device("cpu:0")
    device.add(on)
    device.load()
    pool, steps = Pool("tiny", [device]), []
    step = on.step
    on.step = lambda jobs: steps.append((on.demand(jobs[0]).bucket, len(jobs))) or step(jobs)
    ends: list[object] = []

    def submit(request: PlanRequest | RenderRequest):
        return pool.submit_task(
            request,
            lane=Lane.FINAL,
            deadline=1.0,
            sink=lambda task, result: ends.append(result),
            stream=request.voicing,
        )

    spoken = [voicing(TEXTS[3], seed=seed, first=False) for seed in range(6)]
    tasks = [submit(PlanRequest(each)) for each in spoken]
    while device.loop.turn():
        pass
    assert steps == [("prefill", 1)] * 6 and ends == [Done(Planned(None))] * 6
    assert on.free_slots == 2
    steps.clear()
    tasks = [submit(RenderRequest(each, 0)) for each in spoken]
    for _ in range(5):
        device.loop.turn()
    tasks[0].cancel()
    spoken[0].release()
    spoken[1].release()  # its owner forgot to cancel
    device.loop.turn()
    assert on.free_slots == 4
    assert isinstance(ends[-1], Cancelled)
    while device.loop.turn():
        pass
    assert max(count for bucket, count in steps if bucket == "token") == 6
    assert all(isinstance(end, Done) for end in ends[-4:])
    device.close()


async def test_eight_streams_through_a_device_of_three_places() -> None:
    device = Device("cpu:0")
    device.add(backend(3))
    device.start()
    pool = Pool("tiny", [device])

    async def stream(text: str, seed: int) -> Heard:
        heard = Heard(voicing(text, seed=seed))
        deadline = device.clock() + 5
        await pool.submit(PlanRequest(heard.voicing), lane=Lane.PARTIAL, deadline=deadline, stream=heard).result()
        while not heard.over:
            handle = pool.submit(heard.next, lane=Lane.FINAL, deadline=deadline + len(heard.windows), stream=heard)
            heard.windows.append(await handle.result())
        heard.voicing.release()
        return heard

    try:
        same(await asyncio.gather(*(stream(*each) for each in SIXTEEN[:8])), SIXTEEN[:8])
    finally:
        device.close()
