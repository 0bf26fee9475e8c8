"""The measurements of voices compute what they say, on numbers made up here and on the real service."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest

from load import intelligibility, listeners, speak_cancel, speak_memory, voice_loop
from load.fifo_server import Server
from load.first_sound import head
from load.playing import Utterance, outcome
from load.speak_client import Plain, Speechlane
from load.spoken import pieces, sentences, utterance

RATE = 24_000


@pytest.fixture
def fifo() -> Iterator[str]:
    server = Server(0, 1)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def step(server: str, count: int, *said: Utterance, name: str = "hold") -> listeners.Step:
    return listeners.Step(server, name, count, outcome(said), 0.0, []).judge(1.0)


def heard(after: float, gap: float = 0.0) -> Utterance:
    """A second of sound `after` seconds, and another behind a gap."""
    one, pcm = Utterance(100.0, RATE), np.full(RATE, 3000, "<i2").tobytes()
    one.receive(100.0 + after, pcm)
    one.receive(101.0 + after + gap, pcm)
    return one


def test_sentences_have_words_and_utterances_a_mix_of_lengths() -> None:
    every = sentences()
    assert len([one for one in every if one.kind != "recordings"]) >= 60
    assert all(not any(c.isdigit() for c in one.spoken) for one in every)
    lengths = {len(utterance(random.Random(seed))) for seed in range(50)}
    assert lengths >= {1, 2, 3, 4}
    assert "".join(pieces("One two, three.")) == "One two, three."


def test_a_step_passes_without_gaps_refusals_and_late_sounds() -> None:
    refused = Utterance(100.0, RATE, refused=True)
    assert step("speechlane", 1, heard(0.3), heard(0.9)).passed
    assert not step("speechlane", 1, heard(0.3), heard(0.3, gap=0.02)).passed
    assert not step("speechlane", 1, heard(1.3)).passed
    assert not step("speechlane", 1, heard(0.3), refused).passed
    assert not step("speechlane", 1).passed
    assert len(step("speechlane", 1, heard(0.3)).row()) == len(listeners.HEAD)


def test_what_the_search_found_is_compared() -> None:
    steps = [step("speechlane", 9, heard(0.3), heard(0.3, gap=1.0), name="at once")]
    missed = listeners.missed_bars(steps, {"speechlane": 4, "hibari": 5, "piper": 3}, 256)
    assert len(missed) == 2
    assert "hibari: 5" in missed[0]
    assert "when 9 came at once" in missed[1]
    assert listeners.missed_bars([], {"speechlane": 4, "hibari": 4}, 4) == []


@pytest.mark.parametrize(
    ("spoken", "written"),
    [
        ("he works for the b b c in london", "He works for the BBC in London."),
        ("at eight fifteen a m", "At 8.15 a.m."),
        ("at nine thirty", "at 9:30"),
        ("three dollars and fifty cents", "$3.50"),
        ("call five five five zero one four two", "Call 555-0142."),
        ("in nineteen eighty four", "In 1984"),
    ],
)
def test_the_same_words_are_no_error_however_they_are_written(spoken: str, written: str) -> None:
    assert intelligibility.folded(spoken) == intelligibility.folded(written)
    assert intelligibility.folded("three point seven five") != intelligibility.folded("three hundred seventy")


def test_more_than_a_step_after_a_cancel_is_seen() -> None:
    good = speak_cancel.Cancelled(True, True, 1, 0.01, 0.001, 1.0, 0)
    assert speak_cancel.missed_bars([good]) == []
    bad = speak_cancel.Cancelled(False, True, 3, 0.05, 0.001, 1.0, 2)
    missed = speak_cancel.missed_bars([good, bad])
    assert "1 of 2 cancels were followed by up to 3 steps" in missed[0]
    assert "2 pieces" in missed[1]


def test_memory_that_grows_over_the_sentences_is_seen() -> None:
    course = speak_memory.Course(memory=[100, 104, 100, 104, 104, 108, 104], ways=Counter())
    assert speak_memory.missed_bars(course, 0.05) == []
    course.memory = [100, 100, 106, 106]
    assert "6.0 %" in speak_memory.missed_bars(course, 0.05)[0]
    assert "cannot be seen" in speak_memory.missed_bars(speak_memory.Course(memory=[0, 0]), 0.05)[0]
    assert len(speak_memory.text_of(17, random.Random(1)).split()) == 17


def test_the_parts_of_a_turn_are_told_beside_what_was_heard() -> None:
    parts = {"vad": 0.5, "final": 0.1, "language_model": 0.0, "speech": 0.1, "total": 0.7}
    rows = voice_loop.rows([voice_loop.Turn("a", 0.75, parts), voice_loop.Turn("b", problem="no answer")])
    assert rows[0] == ("heard", "750", "750", "750", "1")
    assert rows[-1][:2] == ("not explained", "50")


def test_the_head_of_a_sound() -> None:
    assert head(np.concatenate((np.zeros(4800), np.full(4800, 0.1))).astype(np.float32)) == pytest.approx(0.2)


async def test_listeners_of_the_real_service_are_measured(service: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listeners, "utterance", lambda chance: ["Yes, of course."])
    found = await listeners.listen("speechlane", Speechlane(service), 2, 0.1, phases=0.3)
    assert found.problems == []
    assert found.found.ended + found.found.refused == 2
    assert found.found.audio >= found.found.ended
    assert all(first > 0 for first in found.found.first_sound)


async def test_a_sentence_is_asked_for_when_the_one_before_begins(fifo: str) -> None:
    listener = await Plain(fifo).listener()
    one = await listener.hear(["Yes, of course.", "Who is there?"])
    await listener.close()
    assert one.problem is None
    assert one.bare.received > 1.5
    assert one.heard is not None
    assert one.arrived is not None
    assert one.arrived < one.heard  # hibari's own silence comes first
    gone = await Plain("http://127.0.0.1:9").listener()
    assert (await gone.hear(["Hi."])).problem is not None
    await gone.close()
