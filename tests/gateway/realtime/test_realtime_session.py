"""Sessions over a real socket with the real model: the course of events, configuration, every shape."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from speech.config import StreamConfig
from speech.engine import Engine
from speech.transcriber import Transcriber
from tests.gateway.realtime.client import (
    ITEM,
    PCM,
    REFERENCES,
    TRANSCRIPTION,
    check_contract,
    recording,
    samples,
    session,
    silence,
    update,
    wer,
    words,
)
from tests.gateway.realtime.conftest import Running

PAUSED = silence(0.5) + recording("austen-0870.wav")[: 2 * 16_000 * 4] + silence(1.2)


async def test_created_first_with_the_defaults(running: Running) -> None:
    async with session(running.url) as client:
        created = client.seen[0]
        assert created["type"] == "session.created"
        described = created["session"]
        assert described["type"] == "transcription"
        assert described["object"] == "realtime.transcription_session"
        assert described["id"].startswith("sess_")
        assert abs(described["expires_at"] - time.time() - 1800) < 30
        assert described["include"] is None
        assert described["audio"]["input"] == {
            "format": {"type": "audio/pcm", "rate": 24000},
            "noise_reduction": None,
            "transcription": {"model": "tiny.en"},
            "turn_detection": {
                "type": "server_vad",
                "threshold": 0.5,
                "prefix_padding_ms": 300,
                "silence_duration_ms": 500,
            },
        }


async def test_voice_activity_ends_turns(running: Running) -> None:
    async with session(running.url, update(format=PCM)) as client:
        await client.append(PAUSED + PAUSED, 0.1)
        for _ in range(2):
            await client.until(TRANSCRIPTION + "completed")
        ends = check_contract(client.seen)
        assert len(ends) == 2
        first = ends[0]
        kinds = [event["type"] for event in client.seen if event.get("item_id", first["item_id"]) == first["item_id"]]
        order = ["speech_started", "speech_stopped", "committed"]
        positions = [kinds.index(f"input_audio_buffer.{kind}") for kind in order]
        assert positions == sorted(positions)
        started, stopped = (
            client.of("input_audio_buffer.speech_started")[0],
            client.of("input_audio_buffer.speech_stopped")[0],
        )
        # The voice begins after 0.5 s of silence; padding of 0.3 s is included, and so is the silence that ended it.
        assert 100 <= started["audio_start_ms"] <= 900
        assert stopped["audio_end_ms"] >= 4500
        assert first["usage"]["type"] == "duration"
        assert first["usage"]["seconds"] == pytest.approx(
            (stopped["audio_end_ms"] - started["audio_start_ms"]) / 1000, abs=0.01
        )
        assert first["languages"] == [{"code": "en"}]
        assert "words" not in first and "logprobs" not in first and "lag" not in first
        said = REFERENCES["austen-0870.wav"].split(" how much")[0]
        assert all(wer(said, end["transcript"]) < 0.35 for end in ends)
        added = client.of(ITEM + "added")[0]
        assert added["item"]["id"] == first["item_id"]
        assert added["item"] == client.of(ITEM + "done")[0]["item"]
        assert added["item"]["content"] == [{"type": "input_audio", "transcript": None}]
        assert not [event for event in client.seen if event["type"].startswith("x.")]
        assert not client.of("error")


async def test_words_come_while_speaking_and_only_grow(running: Running) -> None:
    speech = recording("austen-0870.wav")
    asked = update(format=PCM)
    asked["session"]["include"] = ["x.words", "x.unstable", "x.lag", "item.input_audio_transcription.logprobs"]
    async with session(running.url, asked) as client:
        reading = asyncio.create_task(client.until(TRANSCRIPTION + "completed"))
        for piece in range(0, len(speech), 3200):
            await client.append(speech[piece : piece + 3200])
            await asyncio.sleep(0.02)
        await client.append(silence(1.0))
        await reading
        kinds = [event["type"] for event in client.seen]
        delta, stopped = TRANSCRIPTION + "delta", "input_audio_buffer.speech_stopped"
        assert delta in kinds and kinds.index(delta) < kinds.index(stopped)
        completed = client.of(TRANSCRIPTION + "completed")[0]
        deltas = "".join(e["delta"] for e in client.of(delta) if e["item_id"] == completed["item_id"])
        known = words(completed["transcript"])[: len(words(deltas))]
        assert wer(" ".join(known), deltas) < 0.2
        assert client.of("x.transcription.unstable")
        assert completed["lag"] >= 0
        assert "".join(token["token"] for token in completed["logprobs"]).strip() == completed["transcript"].strip()
        assert all(
            bytes(token["bytes"]).decode(errors="replace") and token["logprob"] <= 0 for token in completed["logprobs"]
        )
        times = completed["words"]
        assert words(" ".join(w["word"] for w in times)) == words(completed["transcript"])
        assert all(0 <= w["confidence"] <= 1 and w["start"] <= w["end"] for w in times)
        starts = [w["start"] for w in times]
        assert starts == sorted(starts)
        assert starts[-1] <= len(speech) / 32000


async def test_manual_commit(running: Running) -> None:
    async with session(running.url, update(format=PCM, turn_detection=None)) as client:
        assert client.seen[-1]["session"]["audio"]["input"]["turn_detection"] is None
        await client.append(silence(3) + recording("austen-0880.wav"), 0.25)
        await client.commit()
        first = await client.until(TRANSCRIPTION + "completed")
        await client.append(silence(2))
        await client.commit()
        second = await client.until(TRANSCRIPTION + "completed")
        check_contract(client.seen)
        assert wer(REFERENCES["austen-0880.wav"], first["transcript"]) < 0.3
        assert second["transcript"] == ""
        assert second["usage"] == {"type": "duration", "seconds": 2.0}
        assert not client.of("input_audio_buffer.speech_started")


@pytest.mark.parametrize("kind", ["audio/pcmu", "audio/pcma"])
async def test_telephone_audio(running: Running, kind: str) -> None:
    encoding = {"audio/pcmu": "mulaw", "audio/pcma": "alaw"}[kind]
    async with session(running.url, update(format={"type": kind}, turn_detection=None)) as client:
        assert client.seen[-1]["session"]["audio"]["input"]["format"] == {"type": kind}
        narrow = samples(recording("austen-0890.wav")).astype(float)
        narrow = narrow[: len(narrow) // 2 * 2].reshape(-1, 2).mean(axis=1)
        await client.append(companded(narrow, encoding))
        await client.commit()
        completed = await client.until(TRANSCRIPTION + "completed")
        assert wer(REFERENCES["austen-0890.wav"], completed["transcript"]) < 0.4


def companded(pcm: Any, encoding: str) -> bytes:
    """PCM16 values as the nearest G.711 codes."""
    import numpy as np

    from speech.audio import ALAW, MULAW

    values = (MULAW if encoding == "mulaw" else ALAW) * 32768
    order = np.argsort(values, kind="stable")
    edges = (values[order][1:] + values[order][:-1]) / 2
    return order[np.searchsorted(edges, pcm)].astype(np.uint8).tobytes()


async def test_absent_keeps_and_null_clears(running: Running) -> None:
    async with session(running.url) as client:

        async def now(event: dict[str, Any]) -> dict[str, Any]:
            described: dict[str, Any] = (await client.ask(event, "session.updated"))["session"]
            return described

        asked = update(
            noise_reduction={"type": "near_field"},
            transcription={"model": "whisper-1", "language": "en-GB", "prompt": "Emma", "keywords": ["Highbury"]},
        )
        asked["session"]["include"] = ["x.words"]
        state = (await now(asked))["audio"]["input"]
        assert state["transcription"]["model"] == "whisper-1"
        assert state["noise_reduction"] == {"type": "near_field"}
        described = await now(update(transcription={"delay": "low"}, turn_detection={"threshold": 0.6}))
        assert described["include"] == ["x.words"]
        state = described["audio"]["input"]
        assert state["transcription"] == {
            "model": "whisper-1",
            "language": "en-GB",
            "prompt": "Emma",
            "keywords": ["Highbury"],
            "delay": "low",
        }
        assert state["turn_detection"]["threshold"] == 0.6
        assert state["turn_detection"]["silence_duration_ms"] == 500
        state = (await now(update(turn_detection={"type": "semantic_vad", "eagerness": "high"})))["audio"]["input"]
        assert state["turn_detection"] == {"type": "semantic_vad", "eagerness": "high"}
        asked = update(noise_reduction=None, transcription=None, turn_detection=None)
        asked["session"]["include"] = None
        described = await now(asked)
        state = described["audio"]["input"]
        assert described["include"] is None
        assert state["noise_reduction"] is None and state["turn_detection"] is None
        assert state["transcription"] == {"model": "tiny.en"}
        assert state["format"] == {"type": "audio/pcm", "rate": 24000}


async def test_a_model_without_turn_detection_leaves_turns_to_the_client(running: Running) -> None:
    named = update(format=PCM, transcription={"model": "gpt-realtime-whisper"})
    async with session(running.url, named) as client:
        assert client.seen[-1]["session"]["audio"]["input"]["turn_detection"] is None
        await client.append(PAUSED + PAUSED, 0.1)
        await client.commit()
        await client.until(TRANSCRIPTION + "completed")
        assert len(check_contract(client.seen)) == 1
        asked = await client.ask(update(turn_detection={"type": "server_vad"}), "session.updated")
        assert asked["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad"
        again = await client.ask(named, "session.updated")
        assert again["session"]["audio"]["input"]["turn_detection"]["type"] == "server_vad", "the client wanted it"
    async with session(running.url + "&model=gpt-live-transcribe") as client:
        assert client.seen[0]["session"]["audio"]["input"]["turn_detection"] is None


async def test_a_refused_update_changes_nothing(running: Running) -> None:
    async with session(running.url) as client:
        bad = update(format=PCM, turn_detection=None, transcription={"model": "whisper-9"})
        assert (await client.refused(bad))["param"] == "session.audio.input.transcription.model"
        await client.alive()
        assert client.seen[-1]["session"] == client.seen[0]["session"]


async def test_beta_shape(running: Running) -> None:
    headers = {"OpenAI-Beta": "realtime=v1"}
    async with session(running.url, additional_headers=headers) as client:
        created = client.seen[0]
        assert created["type"] == "transcription_session.created"
        assert created["session"]["input_audio_format"] == "pcm16"
        asked = {
            "input_audio_format": "g711_ulaw",
            "input_audio_transcription": {"model": "gpt-4o-mini-transcribe", "language": "en"},
            "input_audio_noise_reduction": {"type": "far_field"},
            "turn_detection": None,
        }
        event = {"type": "transcription_session.update", "session": asked}
        updated = await client.ask(event, "transcription_session.updated")
        assert {name: updated["session"][name] for name in asked} == asked
        wrong = {"input_audio_transcription": {"model": "nothing"}}
        error = await client.refused({"type": "transcription_session.update", "session": wrong})
        assert error["param"] == "session.input_audio_transcription.model"
        await client.append(b"\xff" * 8000)
        await client.commit()
        completed = await client.until(TRANSCRIPTION + "completed")
        assert completed["transcript"] == ""
        assert client.of(ITEM + "created")[0]["item"]["id"] == completed["item_id"]
        assert not client.of(ITEM + "added")


async def test_first_event_chooses_the_shape(running: Running) -> None:
    async with session(running.url) as client:
        event = {"type": "transcription_session.update", "session": {"turn_detection": None}}
        updated = await client.ask(event, "transcription_session.updated")
        assert updated["session"]["input_audio_format"] == "pcm16"
        assert updated["session"]["turn_detection"] is None


async def test_both_urls_and_the_browser_subprotocol(running: Running) -> None:
    async with session(running.url + "&model=gpt-4o-transcribe&include=x.words,x.lag") as client:
        described = client.seen[0]["session"]
        assert described["audio"]["input"]["transcription"]["model"] == "gpt-4o-transcribe"
        assert described["include"] == ["x.words", "x.lag"]
    offers = ["realtime", "openai-insecure-api-key.anything"]
    async with session(running.url.partition("?")[0], subprotocols=offers) as client:
        assert client.socket.subprotocol == "realtime"


async def test_items_are_retrieved_and_deleted(running: Running) -> None:
    async with session(running.url, update(format=PCM, turn_detection=None)) as client:
        await client.append(recording("austen-0880.wav"))
        await client.commit()
        completed = await client.until(TRANSCRIPTION + "completed")
        about = {"item_id": completed["item_id"]}
        item = (await client.ask({"type": ITEM + "retrieve", **about}, ITEM + "retrieved"))["item"]
        assert item["status"] == "completed"
        assert item["content"] == [{"type": "input_audio", "transcript": completed["transcript"]}]
        deleted = await client.ask({"type": ITEM + "delete", **about}, ITEM + "deleted")
        assert deleted["item_id"] == completed["item_id"]
        error = await client.refused({"type": ITEM + "retrieve", **about, "event_id": "mine"})
        assert (error["code"], error["event_id"]) == ("item_retrieve_invalid_item_id", "mine")
        error = await client.refused({"type": ITEM + "delete", **about})
        assert error["code"] == "item_delete_invalid_item_id"


async def test_clear_forgets(running: Running) -> None:
    async with session(running.url, update(format=PCM, turn_detection=None)) as client:
        await client.append(recording("austen-0880.wav"))
        await client.ask({"type": "input_audio_buffer.clear"}, "input_audio_buffer.cleared")
        assert (await client.refused({"type": "input_audio_buffer.commit"}))["code"] == (
            "input_audio_buffer_commit_empty"
        )
        check_contract(client.seen)


async def test_idle_timeout_makes_an_item_without_words(running: Running) -> None:
    asked = update(format=PCM, turn_detection={"type": "server_vad", "idle_timeout_ms": 1000})
    async with session(running.url, asked) as client:
        await client.append(silence(2.0), 0.1)
        triggered = await client.until("input_audio_buffer.timeout_triggered")
        completed = await client.until(TRANSCRIPTION + "completed")
        assert triggered["item_id"] == completed["item_id"]
        assert triggered["audio_end_ms"] - triggered["audio_start_ms"] == pytest.approx(1000, abs=100)
        assert completed["transcript"] == ""
        check_contract(client.seen)


async def test_audio_before_the_first_update_is_heard(running: Running) -> None:
    """Clients stream as soon as the session is created; the update applies from where it comes."""
    async with session(running.url) as client:
        await client.append(silence(1.5))  # one second at the default 24 kHz
        await client.ask(update(format=PCM), "session.updated")
        await client.append(PAUSED, 0.05)
        await client.until(TRANSCRIPTION + "completed")
        started = client.of("input_audio_buffer.speech_started")[0]["audio_start_ms"]
        assert 1000 + 100 <= started <= 1000 + 900


async def test_commit_while_speaking(running: Running) -> None:
    """A client commit in the middle of speech that voice activity is following."""
    async with session(running.url, update(format=PCM)) as client:
        speech = recording("austen-0870.wav")
        await client.append(speech[: 2 * 16000 * 2], 0.1)
        await client.commit()
        await client.append(speech[2 * 16000 * 2 : 2 * 16000 * 4] + silence(1), 0.1)
        for _ in range(2):
            await client.until(TRANSCRIPTION + "completed")
        assert len(check_contract(client.seen)) == 2
        assert not client.of("error")


async def test_another_model_is_another_stream_on_the_same_clock(running: Running) -> None:
    models = running.service.engine._models
    model = models["tiny.en"]
    # The same weights under a second name: what matters here is the change.
    models["second"] = replace(model, info=replace(model.info, name="second", aliases=()))
    asked = update(format=PCM, transcription={"model": "tiny.en"})
    asked["session"]["include"] = ["x.words"]
    try:
        async with session(running.url, asked) as client:
            speech = recording("austen-0880.wav")
            await client.append(speech, 0.2)
            await client.ask(update(transcription={"model": "second"}), "session.updated")
            assert len(check_contract(client.seen)) == 1  # what was being said before the change has ended
            await client.append(silence(0.5) + speech + silence(1), 0.2)
            await client.until(TRANSCRIPTION + "completed")
            first, second = check_contract(client.seen)
            assert wer(first["transcript"], second["transcript"]) < 0.35
            before = len(speech) / 32000
            assert first["words"][-1]["end"] <= before <= second["words"][0]["start"]
            started = client.of("input_audio_buffer.speech_started")[1]
            assert started["audio_start_ms"] >= 1000 * before
        assert running.service.engine.resolve("whisper-1") == "tiny.en"
    finally:
        del models["second"]


async def test_a_stream_that_dies_fails_what_is_open_and_closes(
    running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine, opened = running.service.engine, []

    def open_stream(config: StreamConfig) -> Transcriber:
        opened.append(Engine.open_stream(engine, config))
        return opened[-1]

    monkeypatch.setattr(engine, "open_stream", open_stream)
    async with session(running.url, update(format=PCM, turn_detection=None)) as client:
        await client.append(recording("austen-0870.wav") * 3)
        await client.commit()
        await client.until("input_audio_buffer.committed")
        running.server.run(opened[0].close())
        with pytest.raises(ConnectionClosed) as closed:
            while True:
                await client.receive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1011
        (end,) = check_contract(client.seen)
        assert end["type"] in (TRANSCRIPTION + "failed", TRANSCRIPTION + "completed")
