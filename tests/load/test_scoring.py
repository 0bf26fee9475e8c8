"""The measurements compute what they say, on events made up here and on the real service."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from load import corpora, report
from load.client import Heard, stream
from load.scoring import Latencies, by_line, taken_back, track, utterances, word_errors
from load.script import Line, Script, compose, conversation

NAME = "conversation.item.input_audio_transcription."
CLIP = corpora.Clip(Path("hello.wav"), "Hello there, world.", "en")


def heard(*events: tuple[float, dict[str, Any]]) -> Heard:
    """Four seconds at 16 kHz in frames of 0.1 s, sent on time from second 100 on; the voice is in [1, 2.5]."""
    script = Script(np.zeros(64_000, np.int16), 16_000, (Line(CLIP, 0.8, 2.7, 1.0, 2.5),))
    sent = [100 + (n + 1) * 0.1 for n in range(40)]
    return Heard(script, 0.1, begun=100.0, sent=sent, events=list(events))


def said(*, finals: int = 1) -> Heard:
    final = {"type": f"{NAME}completed", "item_id": "a", "transcript": "Hello there, world.", "model_seconds": 0.05}
    return heard(
        (101.1, {"type": "input_audio_buffer.speech_started", "item_id": "a", "audio_start_ms": 800}),
        (102.2, {"type": f"{NAME}delta", "item_id": "a", "delta": "Hello"}),
        (102.2, {"type": "x.transcription.unstable", "item_id": "a", "text": " their", "audio_end_ms": 2048,
                 "lag": 0.1, "model_seconds": 0.09}),
        (103.1, {"type": "input_audio_buffer.speech_stopped", "item_id": "a", "audio_end_ms": 3008}),
        (103.1, {"type": "input_audio_buffer.committed", "item_id": "a"}),
        *[(103.3, final)] * finals,
    )  # fmt: skip


def test_latencies_count_from_the_frame_that_held_the_last_sample() -> None:
    one = said()
    found, broken = utterances(one)
    latencies = Latencies()
    latencies.add(one, found)
    assert broken == []
    assert latencies.round_trip == pytest.approx([0.1])  # 2.048 s is in the frame that went out at 102.1
    assert latencies.overhead == pytest.approx([0.01])
    assert latencies.final == pytest.approx([0.8])  # the voice ends at 2.5 s, sent at 102.5
    assert latencies.final_commit == pytest.approx([0.2])
    assert latencies.final_overhead == pytest.approx([0.15])
    assert latencies.first_word == pytest.approx([1.2])
    assert [parts for _, parts in by_line(one, found)] == [found]
    assert "<rect" in report.timeline(track(one, found))


def test_promises_that_are_broken_are_seen() -> None:
    assert "2 finals" in utterances(said(finals=2))[1][0]
    assert "0 finals" in utterances(said(finals=0))[1][0]
    late = said()
    late.events.append((104.0, {"type": f"{NAME}delta", "item_id": "a", "delta": "!"}))
    assert "behind the final" in utterances(late)[1][0]


def test_words_are_compared() -> None:
    pairs = [("Hello there, world.", "hello there world"), ("red green blue white", "red green black white")]
    assert word_errors(pairs) == pytest.approx(100 / 7)
    assert taken_back("Hello There,", "hello there world") == (0, 2)
    assert taken_back("hello their", "hello there world") == (1, 2)
    assert taken_back("there", "hello there world") == (1, 1)
    assert taken_back("", "hello") == (0, 0)


def test_scripts_know_where_the_voice_is() -> None:
    clip = next(iter(corpora.bundled()))
    script = compose([clip, clip], rate=16_000, lead=0.5)
    first, second = script.lines
    assert first.start == 0.5
    assert first.start < first.voice_start < first.voice_end < first.end
    assert second.start == pytest.approx(first.end + 1.5)
    assert script.seconds == pytest.approx(second.end + 1.5)
    a, b = (conversation([clip], 30.0, seed, rate=16_000) for seed in (1, 2))
    assert a.lines[0].start != b.lines[0].start
    assert len(a.lines) == len(b.lines) == 3


async def test_a_stream_of_the_real_service_is_measured(service: str) -> None:
    clip = next(clip for clip in corpora.bundled() if clip.path.name == "austen-0880.wav")
    one = await stream(service, compose([clip], rate=16_000), frame=0.1)
    found, broken = utterances(one)
    latencies = Latencies()
    latencies.add(one, found)
    assert broken == []
    assert word_errors([(clip.text, " ".join(each.text or "" for each in found))]) <= 40
    assert len(latencies.final) == 1
    assert latencies.round_trip and len(latencies.overhead) == len(latencies.round_trip)
    assert all(own < trip for own, trip in zip(latencies.overhead, latencies.round_trip, strict=True))
