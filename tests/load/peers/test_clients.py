"""Clients of other servers note what was shown and when, at a fake that says known words at known moments."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from load.client import Heard
from load.corpora import Clip
from load.peers import peer
from load.peers.measure import Step, measure
from load.peers.peer import RATE, Said, Serving
from load.peers.settling import errors, latencies
from load.peers.speechlane import said as of_speechlane
from load.peers.turns import turns
from load.peers.whisperlive import WhisperLive
from load.peers.whisperlivekit import WhisperLiveKit
from load.peers.wyoming import Wyoming, event, receive
from load.script import Line, Script, compose
from tests.load.peers.fake import answering

CLIP = Clip(Path("a.wav"), "good morning everybody", "en")
WORDS = (0.4, "good morning"), (0.8, "good morning every body"), (1.2, "good morning everybody")


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing more comes after these moments."""
    monkeypatch.setattr(peer, "QUIET", 0.5)


def script(seconds: float = 1.0) -> Script:
    """So many seconds with a voice from 0.1 to 0.6."""
    return Script(np.zeros(round(seconds * RATE), np.int16), RATE, (Line(CLIP, 0.1, 0.7, 0.1, 0.6),))


def check(said: Said, moments: list[float]) -> None:
    """Shown with the last of the answers, which had come before and was the last."""
    assert said.problem is None
    assert [text for _, text in said.shown] == [text for _, text in WORDS]
    for (shown, _), sent, later in zip(said.shown, moments, [*moments[1:], float("inf")], strict=True):
        assert sent <= shown <= later
    # The last words came when 1.2 s of audio were sent, behind the end of what is in the script.
    (latency,) = latencies(said)
    assert latency == said.shown[-1][0] - (said.begun + 0.6)
    assert latency >= 1.2 - 0.6 - 0.1  # a frame holds a tenth of a second and is sent when that is over
    assert errors([said]) == 0.0


async def test_whisperlive() -> None:
    def message(text: str) -> dict[str, Any]:
        return {"segments": [{"start": "0.1", "end": "0.7", "completed": False, "text": text}]}

    answers = [(at, message(text)) for at, text in WORDS]
    ready = {"message": "SERVER_READY"}
    async with answering(answers, first=[ready], samples=lambda frame: len(frame) // 4) as (serving, moments):
        check(await WhisperLive("one model").say(serving, script()), moments)


async def test_whisperlive_says_when_it_is_full() -> None:
    async with answering([], first=[{"status": "WAIT", "message": 3.0}]) as (serving, _):
        said = await WhisperLive("one model").say(serving, script())
    assert said.refused
    assert not Step(1, [said]).passed


async def test_whisperlivekit_takes_what_is_committed_and_what_comes_of_the_end() -> None:
    def message(text: str, buffer: str = "") -> dict[str, Any]:
        return {"lines": [{"text": text}, {"text": None}], "buffer_transcription": buffer}

    answers = [(at, message(text, "and more")) for at, text in WORDS]
    one = WhisperLiveKit("localagreement", "")
    async with answering(answers, at_the_end={"type": "ready_to_stop"}) as (serving, moments):
        said = await one.say(serving, script())
        said.shown = [(at, text.strip()) for at, text in said.shown]
        check(said, moments)


async def test_a_server_that_hangs_up_is_a_problem() -> None:
    async with answering([(0.3, {"type": "ready_to_stop"})]) as (serving, _):
        said = await WhisperLiveKit("localagreement", "").say(serving, script())
    assert said.problem is not None
    assert not Step(1, [said]).passed


def test_speechlane_is_final_with_its_completed_events() -> None:
    name = "conversation.item.input_audio_transcription."
    heard = Heard(script(), 0.1, begun=100.0, events=[
        (100.5, {"type": f"{name}delta", "item_id": "a", "delta": "good morning everybody"}),
        (100.9, {"type": "input_audio_buffer.committed", "item_id": "a"}),
        (101.0, {"type": "input_audio_buffer.committed", "item_id": "b"}),
        (101.2, {"type": f"{name}completed", "item_id": "a", "transcript": "Good morning"}),
        (101.4, {"type": f"{name}completed", "item_id": "b", "transcript": "everybody."}),
    ])  # fmt: skip
    said = of_speechlane(heard)
    assert said.shown == [(101.2, "Good morning"), (101.4, "Good morning everybody.")]
    assert latencies(said) == pytest.approx([0.8])


def test_a_turn_is_over_when_its_silence_is() -> None:
    clip = Clip(Path("tests/data/prompts/vm-nobodyavail.wav"), "Nobody is available to take your call", "en")
    spoken = compose([clip, clip], rate=RATE)
    found = turns(spoken, 0.55)
    assert len(found) == 2
    for turn, line in zip(found, spoken.lines, strict=True):
        assert line.voice_end + 0.5 < turn.known < line.voice_end + 0.8
        assert turn.start < line.voice_start
        assert turn.end == turn.known
        assert len(turn.samples(spoken)) == pytest.approx((turn.end - turn.start) * RATE, abs=1)


async def test_wyoming_hears_a_turn_on_a_connection_of_its_own() -> None:
    clip = Clip(Path("tests/data/prompts/vm-nobodyavail.wav"), "Nobody is available", "en")
    spoken = compose([clip], rate=RATE, lead=0.1)
    got: list[tuple[str, dict[str, Any]]] = []
    audio = 0

    async def client(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal audio
        while not got or got[-1][0] != "audio-stop":
            head = json.loads(await reader.readuntil(b"\n"))
            audio += len(await reader.readexactly(head["payload_length"]))
            got.append((head["type"], head["data"]))
        text = json.dumps({"text": "nobody is available"}).encode()
        writer.write(b'{"type": "transcript", "data_length": %d}\n' % len(text) + text)
        writer.close()

    async with await asyncio.start_server(client, "127.0.0.1", 0) as server:
        said = await Wyoming().say(Serving(server.sockets[0].getsockname()[1], peer.psutil.Process()), spoken)
    assert said.problem is None
    assert [text for _, text in said.shown] == ["nobody is available"]
    (turn,) = turns(spoken, 0.55)
    assert [kind for kind, _ in got[:2]] == ["transcribe", "audio-start"]
    assert audio == 2 * len(turn.samples(spoken))
    assert said.shown[0][0] >= said.due_at(turn.known)


async def test_events_of_wyoming_are_read_as_they_are_written() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(event("audio-chunk", {"rate": RATE}, b"\0\0\1") + event("transcript", {"text": "yes"}))
    assert await receive(reader) == ("audio-chunk", {"rate": RATE})
    assert await receive(reader) == ("transcript", {"text": "yes"})


def test_a_step_counts_the_streams_the_audio_and_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    class Fake:
        name, environment, note, same_weights = "fake", None, "", True

        async def say(self, serving: Serving, script: Script) -> Said:
            return Said(script, 0.1, begun=100.0, shown=[(103.0, script.lines[0].clip.text)])

    step = Step(2)
    measure(Fake(), Serving(0, peer.psutil.Process()), step, 8.0, 0)  # type: ignore[arg-type]
    assert len(step.said) == 2
    assert step.audio == pytest.approx(sum(said.script.seconds for said in step.said))
    assert step.said[0].script.lines[0].clip != step.said[1].script.lines[0].clip
    assert step.cpu >= 0
