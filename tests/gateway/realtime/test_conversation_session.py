"""The rest of what a conversation can be asked: functions, turns by hand, formats, the beta's shape, wrong input."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.realtime.conversation.history import TOLD_CHARACTERS, History
from gateway.realtime.conversation.items import CallOutput, Message
from gateway.realtime.items import KEPT_ITEMS, Item
from tests.gateway.assistant.chat_server import calls, chat_server, says
from tests.gateway.realtime.client import ITEM, TRANSCRIPTION, Event, recording, session
from tests.gateway.realtime.conftest import Running, Server
from tests.gateway.realtime.talk import (
    AUDIO,
    answer,
    check_order,
    configured,
    conversation,
    listening,
    respond,
    sound,
    wrote,
)

WEATHER = {
    "type": "function",
    "name": "weather",
    "description": "The weather in a city.",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}},
}
WRITTEN = configured(output_modalities=["text"])


async def test_functions_pass_through(server: Server) -> None:
    def script(body: dict[str, Any]) -> list[Any]:
        if body["messages"][-1]["role"] == "tool":
            return says("it rains")
        return calls("call_7", "weather", '{"city":', ' "Paris"}')

    async with chat_server(script) as model:
        running = server.serve(assistant_url=model.url, assistant_model="scripted")
        update = configured(output_modalities=["text"], tools=[WEATHER], tool_choice="required", instructions="Help.")
        async with conversation(running, update) as client:
            assert client.seen[0]["session"]["model"] == "scripted"
            await client.ask(wrote("how is the weather in Paris"), ITEM + "done")
            await client.send(respond())
            done = await answer(client)
            call = done["output"][0]
            assert (done["status"], call["type"], call["name"]) == ("completed", "function_call", "weather")
            deltas = client.of("response.function_call_arguments.delta")
            finished = client.of("response.function_call_arguments.done")[0]
            assert "".join(event["delta"] for event in deltas) == finished["arguments"] == call["arguments"]
            assert json.loads(call["arguments"]) == {"city": "Paris"}
            assert call["call_id"] == finished["call_id"] == "call_7"
            result = {"type": "function_call_output", "call_id": "call_7", "output": '{"sky": "rain"}'}
            await client.ask({"type": ITEM + "create", "item": result}, ITEM + "done")
            await client.send(respond(tool_choice="none"))
            done = await answer(client)
            assert done["output"][0]["content"] == [{"type": "output_text", "text": "it rains "}]
            assert done["usage"]["input_tokens"] == 7
        check_order(client.seen)
        first, second = model.asked
        assert (first["tool_choice"], second["tool_choice"]) == ("required", "none")
        assert [message["role"] for message in second["messages"]] == ["system", "user", "assistant", "tool"]
        assert second["messages"][2]["tool_calls"][0]["id"] == "call_7"
        running.stop()


async def test_a_model_that_fails_fails_its_response_alone(server: Server) -> None:
    async with chat_server(lambda body: [], status=500) as model:
        running = server.serve(assistant_url=model.url, assistant_model="scripted")
        async with conversation(running, WRITTEN) as client:
            await client.ask(wrote("hello"), ITEM + "done")
            await client.send(respond())
            done = await answer(client)
            assert done["status"] == "failed"
            assert done["status_details"]["error"]["code"] == "assistant_failed"
            await client.alive()
        running.stop()


async def test_a_length_that_is_reached_is_told(running: Running) -> None:
    async with conversation(running, WRITTEN) as client:
        await client.ask(wrote("one two three four"), ITEM + "done")
        await client.send(respond(max_output_tokens=3))
        done = await answer(client)
        assert (done["status"], done["status_details"]["reason"]) == ("incomplete", "max_output_tokens")
        assert done["output"][0]["content"][0]["text"] == "You said: one"


async def test_turns_by_hand(running: Running) -> None:
    """Commit and ask at once: the answer waits for the transcript."""
    async with conversation(running, listening(turn_detection=None), WRITTEN) as client:
        await client.append(recording("austen-0880.wav"))
        await client.commit()
        await client.send(respond())
        done = await answer(client)
        transcript = client.of(TRANSCRIPTION + "completed")[0]["transcript"]
        assert done["output"][0]["content"][0]["text"] == f"You said: {transcript}"
        # Without wish for transcripts none is told, but the answer knows it all the same.
        await client.ask(configured(audio={"input": {"transcription": None}}), "session.updated")
        seen = len(client.seen)
        await client.append(recording("austen-0930.wav"))
        await client.commit()
        await client.send(respond())
        assert "amiable" in (await answer(client))["output"][0]["content"][0]["text"]
        assert not [event for event in client.seen[seen:] if event["type"].startswith(TRANSCRIPTION)]
        # Nobody answers by themselves.
        assert len(client.of("response.created")) == 2
    check_order(client.seen)


async def test_items_have_their_places(running: Running) -> None:
    async with conversation(running, WRITTEN) as client:
        for event, previous in (
            (wrote("b", id="item_b"), None),
            ({**wrote("a", id="item_a"), "previous_item_id": "root"}, None),
            ({**wrote("c", id="item_c"), "previous_item_id": "item_a"}, "item_a"),
        ):
            assert (await client.ask(event, ITEM + "done"))["previous_item_id"] == previous
        unknown = {**wrote("d"), "previous_item_id": "item_x"}
        assert (await client.refused(unknown))["code"] == "item_create_invalid_previous_item_id"
        assert (await client.refused(wrote("a", id="item_a")))["code"] == "item_create_duplicate_id"
        await client.ask({"type": ITEM + "delete", "item_id": "item_b"}, ITEM + "deleted")
        await client.send(respond())
        assert (await answer(client))["output"][0]["content"][0]["text"] == "You said: c"


@pytest.mark.parametrize("kind", ["audio/pcmu", "audio/pcma", "audio/pcm"])
async def test_sound_goes_out_as_asked(running: Running, kind: str) -> None:
    fields: Event = {"type": kind, "rate": 16_000} if kind == "audio/pcm" else {"type": kind}
    plain = {"type": "audio/pcm", "rate": 24_000}
    async with conversation(running) as client:
        await client.ask(wrote("three blind mice"), ITEM + "done")
        await client.send(respond(conversation="none", audio={"output": {"format": plain}}))
        reference = sound(client, (await answer(client))["id"])
        await client.ask(configured(audio={"output": {"format": fields}}), "session.updated")
        await client.send(respond(conversation="none"))
        done = await answer(client)
        assert done["audio"]["output"]["format"] == fields
        seconds = len(sound(client, done["id"])) / (32_000 if kind == "audio/pcm" else 8_000)
        assert seconds == pytest.approx(len(reference) / 48_000, abs=1e-3) and seconds > 0.5


async def test_the_beta_is_answered_in_its_own_names(running: Running) -> None:
    headers = {"OpenAI-Beta": "realtime=v1"}
    url = f"ws://{running.address}/v1/realtime?model=gpt-4o-realtime-preview"
    async with session(url, additional_headers=headers) as client:
        asked = {"modalities": ["audio", "text"], "voice": "alloy", "output_audio_format": "g711_ulaw"}
        updated = await client.ask({"type": "session.update", "session": asked}, "session.updated")
        assert {name: updated["session"][name] for name in asked} == asked
        await client.ask(wrote("good day"), ITEM + "created")
        await client.send(respond(modalities=["audio", "text"]))
        done = await answer(client)
        assert done["output"][0]["content"] == [{"type": "audio", "transcript": "You said: good day"}]
        assert client.of("response.audio.delta") and client.of("response.audio_transcript.done")
        assert not client.of(AUDIO) and not client.of(ITEM + "added") and not client.of(ITEM + "done")
        wrong = {"type": "session.update", "session": {"voice": "nobody"}}
        assert (await client.refused(wrong))["param"] == "session.voice"
        assert (await client.refused({"type": "session.update", "session": {"output_audio_format": "mp3"}}))["param"]


def spoken(**fields: Any) -> Event:
    return configured(audio={"output": fields})


REFUSED: list[tuple[Any, str, str]] = [
    (configured(voice="alloy"), "unknown_parameter", "session.voice"),
    (configured(model="gpt-9"), "invalid_value", "session.model"),
    (configured(output_modalities=[]), "invalid_value", "session.output_modalities"),
    (configured(output_modalities=["video"]), "invalid_value", "session.output_modalities[0]"),
    (configured(instructions=7), "invalid_type", "session.instructions"),
    (configured(tools=[{"type": "mcp"}]), "invalid_value", "session.tools[0].type"),
    (configured(tools=[{"type": "function", "name": "a b"}]), "invalid_value", "session.tools[0].name"),
    (configured(tool_choice="perhaps"), "invalid_value", "session.tool_choice.type"),
    (configured(tool_choice={"type": "function", "name": "nobody"}), "invalid_value", "session.tool_choice.name"),
    (configured(max_output_tokens=0), "invalid_value", "session.max_output_tokens"),
    (configured(include=["x.everything"]), "invalid_value", "session.include[0]"),
    (spoken(voice="nobody"), "invalid_value", "session.audio.output.voice"),
    (spoken(speed=0), "invalid_value", "session.audio.output.speed"),
    (spoken(speed=-1.0), "invalid_value", "session.audio.output.speed"),
    (spoken(speed=99.0), "invalid_value", "session.audio.output.speed"),
    (spoken(format={"type": "audio/pcmu", "rate": 16_000}), "invalid_value", "session.audio.output.format.rate"),
    ({"type": "session.update", "session": {"type": "transcription"}}, "invalid_value", "session.type"),
    ({"type": "transcription_session.update", "session": {}}, "invalid_value", "type"),
    ({"type": ITEM + "create"}, "missing_required_parameter", "item"),
    ({"type": ITEM + "create", "item": {"type": "message"}}, "missing_required_parameter", "item.role"),
    ({"type": ITEM + "create", "item": {"type": "poem"}}, "invalid_value", "item.type"),
    ({"type": ITEM + "create", "item": {"type": "item_reference", "id": "x"}}, "invalid_value", "item.type"),
    ({"type": ITEM + "create", "item": {"type": "function_call_output", "output": "x"}}, "missing_required_parameter",
     "item.call_id"),
    (wrote("x" * 70_000), "input_too_large", "item"),
    (respond(conversation="conv_1"), "invalid_value", "response.conversation"),
    (respond(input=[{"type": "item_reference", "id": "x"}]), "invalid_value", "response.input[0].id"),
    (respond(metadata={"a": 1}), "invalid_type", "response.metadata.a"),
    (respond(audio={"output": {"voice": "nobody"}}), "invalid_value", "response.audio.output.voice"),
    ({"type": "x.output_audio.played", "item_id": "x", "audio_end_ms": 1}, "invalid_value", "item_id"),
]  # fmt: skip


async def test_each_wrong_request_gets_its_answer_and_the_session_lives(running: Running) -> None:
    async with conversation(running) as client:
        for event, code, param in REFUSED:
            error = await client.refused({**event, "event_id": "mine"})
            assert (error["code"], error["param"], error["event_id"]) == (code, param, "mine"), event
        image = {"type": "message", "role": "user", "content": [{"type": "input_image", "image_url": "data:"}]}
        error = await client.refused({"type": ITEM + "create", "item": image})
        assert error["param"] == "item.content[0].type"
        await client.alive()
        assert client.seen[-1]["session"] == client.seen[0]["session"]
        assert not client.of(ITEM + "added") and not client.of("response.created")


@pytest.mark.parametrize("text", ["", "   ", "🎉🎉", "...?!", "\u200f\u0007", "<speak>hi</speak>", "你好"])
async def test_a_text_with_little_to_say_is_an_answer_all_the_same(running: Running, text: str) -> None:
    async with chat_server(lambda body: [{"content": text}, {"finish_reason": "stop"}]) as model:
        other = running.server.serve(assistant_url=model.url, assistant_model="scripted")
        async with conversation(other) as client:
            await client.send(respond())
            done = await answer(client, 20)
            assert done["status"] == "completed"
            assert "".join(part["transcript"] for item in done["output"] for part in item["content"]) == text
        other.stop()


async def test_leaving_in_the_middle_of_an_answer_leaves_nothing_behind(running: Running) -> None:
    async with conversation(running) as client:
        await client.ask(wrote("a long story " * 50), ITEM + "done")
        await client.send(respond())
        await client.until(AUDIO)
    async with asyncio.timeout(10):
        while running.service.sessions or running.server.engine.status().speech.speaking:
            await asyncio.sleep(0.05)


async def test_a_drain_lets_an_answer_end(server: Server) -> None:
    running = server.serve()
    async with conversation(running) as client:
        await client.ask(wrote("four small words"), ITEM + "done")
        await client.send(respond())
        await client.until(AUDIO)
        server.loop.call_soon_threadsafe(running.service.draining.set)
        assert (await answer(client))["status"] == "completed"
        await asyncio.wait_for(client.socket.wait_closed(), 30)
        assert client.socket.close_code == 1012
    running.stop()


def test_the_history_is_bounded_and_tells_what_fits() -> None:
    history = History()
    for number in range(KEPT_ITEMS + 5):
        history.add(Message(f"item_{number}", "user", f"{number} " + "x" * 500))
    assert history.get("item_4") is None and history.get("item_5") is not None
    told = history.entries()
    assert sum(len(entry.text) for entry in told) <= TOLD_CHARACTERS  # type: ignore[union-attr]
    assert told[-1].text.startswith(f"{KEPT_ITEMS + 4} ")  # type: ignore[union-attr]


async def test_the_history_waits_for_what_is_being_transcribed() -> None:
    history = History()
    first, second = Item("item_1"), Item("item_2")
    history.add(first)
    waiting = asyncio.create_task(history.settled())
    await asyncio.sleep(0)
    history.add(second)
    history.end(first, "completed", "hello")
    await asyncio.wait_for(waiting, 1)  # what came later is not waited for
    history.aside("item_1")
    history.end(second, "completed", "there")
    history.add(CallOutput("item_3", "call", "ok"))
    assert [getattr(entry, "text", None) for entry in history.entries()] == ["there", None]
    assert history.delete("item_2") and not history.delete("item_2")
