"""Who has the floor: interruptions real and false, cancel, truncate, turns that wait, and nothing stale."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from gateway.realtime.conversation.interruption import interrupts_already, is_backchannel, is_interruption
from tests.gateway.assistant.chat_server import chat_server, says
from tests.gateway.realtime.client import TRANSCRIPTION, Client, recording, silence, words
from tests.gateway.realtime.conftest import Running, Server
from tests.gateway.realtime.talk import (
    AUDIO,
    TEXT,
    TRANSCRIPT,
    answer,
    check_order,
    conversation,
    hum,
    listening,
    respond,
    said,
    sound,
    wrote,
)

QUESTION = "austen-0880.wav"


async def speaking(client: Client, text: str = TEXT, **fields: Any) -> str:
    """Have an answer spoken; the id of its response once its first sound has come."""
    await client.ask(wrote(text), "conversation.item.done")
    await client.send(respond(**fields))
    event = await client.until(AUDIO)
    response_id: str = event["response_id"]
    return response_id


async def test_a_real_interruption_ends_the_answer_where_it_was_heard(server: Server) -> None:
    async with chat_server(lambda body: says(TEXT)) as model:
        running = server.serve(assistant_url=model.url, assistant_model="scripted")
        async with conversation(running, listening()) as client:
            first = await speaking(client)
            await asyncio.sleep(1.5)
            await client.append(silence(0.3) + recording(QUESTION) + silence(1.0), 0.1)
            held = await client.until("x.output_audio.held")
            assert held["response_id"] == first
            cancelled = await answer(client)
            assert (cancelled["id"], cancelled["status"]) == (first, "cancelled")
            assert cancelled["status_details"] == {"type": "cancelled", "reason": "turn_detected"}
            truncated = await client.until("conversation.item.truncated")
            assert (truncated["item_id"], truncated["content_index"]) == (cancelled["output"][0]["id"], 0)
            assert abs(truncated["audio_end_ms"] - held["audio_end_ms"]) <= 1
            second = await client.until(lambda event: event["type"] == "response.created")
            next_answer = await client.until(AUDIO)
            assert next_answer["response_id"] == second["response"]["id"] != first
            retrieve = {"type": "conversation.item.retrieve", "item_id": truncated["item_id"]}
            kept = (await client.ask(retrieve, "conversation.item.retrieved"))["item"]
        check_order(client.seen)
        # Between the hold and the end nothing was let out, and what the listener heard is a part of what was said.
        kinds = [event["type"] for event in client.seen]
        start, end = kinds.index("x.output_audio.held"), kinds.index("response.done")
        assert AUDIO not in kinds[start:end]
        spoken = truncated["spoken"]
        assert 0 < truncated["audio_end_ms"] <= 2500
        assert spoken and TEXT.startswith(spoken.strip()) and len(spoken) < len(TEXT)
        assert (spoken + truncated["unspoken"]).strip() == TEXT
        assert (kept["status"], kept["content"][0]["transcript"]) == ("incomplete", spoken)
        told = model.asked[1]["messages"]
        assert [message["role"] for message in told] == ["system", "user", "assistant", "user"]
        assert told[2]["content"] == spoken
        running.stop()


async def test_a_false_interruption_goes_on_with_the_same_samples(running: Running) -> None:
    async with conversation(running, listening()) as client:
        undisturbed = await speaking(client)
        assert (await answer(client))["status"] == "completed"
        disturbed = await speaking(client)
        for noise in (hum(), await asyncio.to_thread(said, running, "Uh-huh.")):
            await client.append(noise)
            await client.until("x.output_audio.held")
            resumed = await client.until("x.output_audio.resumed")
            assert resumed["response_id"] == disturbed
        done = await answer(client)
        assert (done["id"], done["status"]) == (disturbed, "completed")
        heard = client.of(TRANSCRIPTION + "completed")
        assert [words(event["transcript"]) for event in heard] == [[], ["uh", "huh"]]
    check_order(client.seen)
    kinds = [event["type"] for event in client.seen]
    held = [place for place, kind in enumerate(kinds) if kind == "x.output_audio.held"]
    resumes = [place for place, kind in enumerate(kinds) if kind == "x.output_audio.resumed"]
    for start, end in zip(held, resumes, strict=True):
        assert AUDIO not in kinds[start:end]
    assert "conversation.item.truncated" not in kinds
    assert sound(client, disturbed) == sound(client, undisturbed)
    assert len(sound(client, disturbed)) > 3 * 48_000


async def test_cancel_truncate_and_their_refusals(running: Running) -> None:
    async with conversation(running, listening()) as client:
        assert (await client.refused({"type": "response.cancel"}))["code"] == "response_cancel_not_active"
        clear = {"type": "output_audio_buffer.clear"}
        assert (await client.refused(clear))["code"] == "output_audio_buffer_clear_not_active"
        first = await speaking(client)
        assert (await client.refused(respond()))["code"] == "conversation_already_has_active_response"
        wrong = {"type": "response.cancel", "response_id": "resp_x"}
        assert (await client.refused(wrong))["param"] == "response_id"
        done = (await client.ask({"type": "response.cancel", "response_id": first}, "response.done"))["response"]
        assert done["status_details"] == {"type": "cancelled", "reason": "client_cancelled"}
        item = done["output"][0]
        sent = len(sound(client, first)) // 48
        truncate = {"type": "conversation.item.truncate", "item_id": item["id"], "content_index": 0}
        for fields, param in (
            ({"audio_end_ms": sent + 1}, "audio_end_ms"),
            ({"audio_end_ms": -1}, "audio_end_ms"),
            ({"audio_end_ms": 0, "content_index": 1}, "content_index"),
            ({"audio_end_ms": 0, "item_id": "item_x"}, "item_id"),
            ({"audio_end_ms": 0, "item_id": client.of("conversation.item.added")[0]["item"]["id"]}, "item_id"),
            ({}, "audio_end_ms"),
        ):
            assert (await client.refused({**truncate, **fields}))["param"] == param
        cut = await client.ask({**truncate, "audio_end_ms": sent // 2}, "conversation.item.truncated")
        assert cut["audio_end_ms"] == sent // 2
        kept = item["content"][0]["transcript"]
        assert kept.startswith(cut["spoken"]) and cut["spoken"] + cut["unspoken"] == kept
        assert (await client.refused({**truncate, "audio_end_ms": sent // 2 + 1}))["code"] == "invalid_value"
        # The next answer holds nothing of the one before.
        second = await speaking(client)
        report = {"type": "x.output_audio.played", "item_id": client.of(AUDIO)[-1]["item_id"], "audio_end_ms": 100}
        await client.send(report)
        assert (await client.refused({**report, "audio_end_ms": 10**6}))["param"] == "audio_end_ms"
        cleared = await client.ask(clear, "output_audio_buffer.cleared")
        assert cleared["response_id"] == second
        assert client.of("conversation.item.truncated")[-1]["audio_end_ms"] >= 100
        await client.alive()
    check_order(client.seen)


async def test_a_client_that_truncates_decides_what_interrupted(running: Running) -> None:
    async with conversation(running, listening()) as client:
        first = await speaking(client)
        await client.append(hum()[: 2 * 16_000])  # the beginning of it: nobody knows yet
        await client.until("x.output_audio.held")
        item = client.of(AUDIO)[-1]["item_id"]
        truncate = {"type": "conversation.item.truncate", "item_id": item, "content_index": 0, "audio_end_ms": 10}
        done = (await client.ask(truncate, "response.done"))["response"]
        assert (done["id"], done["status_details"]["reason"]) == (first, "turn_detected")
        await client.until("conversation.item.truncated")
        await client.append(silence(1.5))
        await client.until(TRANSCRIPTION + "completed")
        await client.alive()
        assert not client.of("x.output_audio.resumed")
    check_order(client.seen)


async def test_an_answer_that_may_not_be_interrupted_is_followed_by_the_next(running: Running) -> None:
    turn_detection = {"type": "server_vad", "interrupt_response": False}
    async with conversation(running, listening(turn_detection=turn_detection)) as client:
        first = await speaking(client, "eight small grey birds")
        await client.append(silence(0.3) + recording(QUESTION) + silence(1.0))
        done = await answer(client)
        assert (done["id"], done["status"]) == (first, "completed")
        second = await client.until("response.created")
        await client.until(AUDIO)
        assert second["response"]["id"] != first
        assert not client.of("x.output_audio.held")
    check_order(client.seen)


async def test_parts_of_the_time_to_an_answer(running: Running) -> None:
    async with conversation(running, listening()) as client:
        await client.append(silence(0.3) + recording(QUESTION) + silence(0.7))
        timing = await client.until("x.response.timing")
        parts = [timing[name] for name in ("vad", "final", "language_model", "speech")]
        assert all(part >= 0 for part in parts) and parts[0] == 0.5
        assert timing["total"] == pytest.approx(sum(parts), abs=1e-3)
        assert timing["response_id"] == client.of(AUDIO)[0]["response_id"]
        timed = [word for event in client.of(TRANSCRIPT) for word in event["words"]]
        assert timed and timed[0]["start"] >= 0
    metrics = running.service.metrics.exposition().decode()
    assert 'speechlane_turn_seconds_count{part="total"}' in metrics
    assert 'speechlane_interruptions_total{kind="false"}' in metrics


@pytest.mark.parametrize("text", ["", "Mm-hmm.", "Uh-huh", "Hmm, yeah.", "Okay.", "I see.", "mhm", "Ah!", "Ha ha ha"])
def test_a_backchannel_is_no_interruption(text: str) -> None:
    assert is_backchannel(text) and not interrupts_already(text)
    assert not is_interruption(text, 0.9, 0.5)


@pytest.mark.parametrize("text", ["Stop!", "No.", "Wait a moment", "Yeah but what about tomorrow", "Okay okay okay no"])
def test_words_interrupt(text: str) -> None:
    assert not is_backchannel(text) and interrupts_already(text)
    assert is_interruption(text, 0.9, 0.5)


def test_a_short_noise_that_nobody_understands_is_no_interruption() -> None:
    assert not is_interruption("Thank you.", 0.2, 0.3)
    assert is_interruption("Thank you.", 0.2, 2.0)
