"""Language models: the embedded echo, and any endpoint of chat completions over real HTTP."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import aclosing
from datetime import datetime
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr

from gateway.assistant import (
    ArgumentsPiece,
    AssistantFailed,
    CallBegan,
    Called,
    Ended,
    LanguageModel,
    Piece,
    Returned,
    Said,
    TextPiece,
    Tool,
    Wanted,
)
from gateway.assistant.chat_completions import MOST_CHARACTERS, ChatCompletions
from gateway.assistant.chat_messages import messages
from gateway.assistant.echo import EchoAssistant
from gateway.assistant.server_sent import events
from gateway.settings import SettingsInvalid, load_settings
from tests.gateway.assistant.chat_server import calls, chat_server, event, says

KEY = "sk-secret-0123456789"
ASKED = Wanted((Said("user", "what is up"),), "Be brief.")


async def pieces(model: LanguageModel, wanted: Wanted) -> list[Piece]:
    async with aclosing(cast(Any, model.answer(wanted))) as answer:
        return [piece async for piece in answer]


def text(answer: list[Piece]) -> str:
    return "".join(piece.text for piece in answer if isinstance(piece, TextPiece))


@pytest.mark.parametrize(
    ("heard", "answer"),
    [
        ("What time is it?", "It is 3:07 p.m."),
        ("Tell me the time, please.", "It is 3:07 p.m."),
        ("what day is it today", "Today is Monday, May 4, 2026."),
        ("He was not a bad man.", "You said: He was not a bad man."),
        ("", "I am listening."),
    ],
)
async def test_the_echo_repeats_and_tells_time_and_date(heard: str, answer: str) -> None:
    echo = EchoAssistant(lambda: datetime(2026, 5, 4, 15, 7))
    told = await pieces(echo, Wanted((Said("user", heard),)))
    assert text(told) == answer
    assert len(told) > len(answer.split())  # word by word
    assert isinstance(told[-1], Ended) and told[-1].reason == "stop"


async def test_the_echo_keeps_to_the_most_tokens() -> None:
    told = await pieces(EchoAssistant(), Wanted((Said("user", "one two three four"),), max_tokens=4))
    assert text(told) == "You said: one two"
    assert told[-1] == Ended("length", 4, 4)


async def test_an_endpoint_answers_piece_by_piece() -> None:
    async with chat_server(lambda body: says("all is well")) as server:
        model = ChatCompletions(server.url, "small", SecretStr(KEY))
        told = await pieces(model, ASKED)
        await model.close()
    assert told == [TextPiece("all "), TextPiece("is "), TextPiece("well "), Ended("stop", 7, 3)]
    assert server.headers[0]["Authorization"] == f"Bearer {KEY}"
    asked = server.asked[0]
    assert (asked["model"], asked["stream"]) == ("small", True)
    assert asked["messages"] == [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "what is up"},
    ]


async def test_an_endpoint_may_send_byte_by_byte_but_not_for_ever() -> None:
    whole = "".join(event(delta).decode() for delta in says("Grüße, 世界"))
    async with chat_server(lambda body: list(whole)) as server:
        model = ChatCompletions(server.url, "small", between=5.0)
        assert text(await pieces(model, ASKED)).strip() == "Grüße, 世界"
        await model.close()
    drip: list[Any] = [event({"content": "One. "}).decode(), *[part for _ in range(200) for part in (":", 0.02)]]
    async with chat_server(lambda body: drip) as server:
        model = ChatCompletions(server.url, "small", first=0.5, between=0.5)
        begun = time.monotonic()
        with pytest.raises(AssistantFailed, match="in time"):
            await pieces(model, ASKED)
        assert time.monotonic() - begun < 3.5, "what says nothing is no sign of life"
        await model.close()


async def test_functions_pass_through() -> None:
    tool = Tool("weather", "The weather.", {"type": "object", "properties": {"city": {"type": "string"}}})
    async with chat_server(lambda body: calls("call_1", "weather", '{"city":', ' "Paris"}')) as server:
        model = ChatCompletions(server.url, "small")
        told = await pieces(model, Wanted(ASKED.history, tools=(tool,), tool_choice="weather"))
        await model.close()
    assert told[0] == CallBegan("call_1", "weather")
    assert "".join(piece.text for piece in told if isinstance(piece, ArgumentsPiece)) == '{"city": "Paris"}'
    assert server.asked[0]["tool_choice"] == {"type": "function", "function": {"name": "weather"}}
    assert server.asked[0]["tools"][0]["function"]["name"] == "weather"
    assert "Authorization" not in server.headers[0]


def test_calls_and_their_results_stand_together() -> None:
    history = (
        Returned("lost", "nobody asked"),
        Said("user", "hi"),
        Called("a", "one", "{}"),
        Called("b", "two", ""),
        Called("never", "answered", "{}"),
        Returned("a", "1"),
        Returned("b", "2"),
        Said("assistant", ""),
        Said("assistant", "done"),
    )
    told = messages(history, "")
    assert [message["role"] for message in told] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [call["id"] for call in told[1]["tool_calls"]] == ["a", "b"]
    assert told[1]["tool_calls"][1]["function"]["arguments"] == "{}"


_ENTRIES = st.one_of(
    st.builds(Said, st.sampled_from(["user", "assistant"]), st.sampled_from(["", "hm"])),
    st.builds(Called, st.sampled_from("abc"), st.just("f"), st.just("")),
    st.builds(Returned, st.sampled_from("abc"), st.just("1")),
)


@given(st.lists(_ENTRIES, max_size=9))
def test_nothing_stands_between_calls_and_their_results(history: list[Any]) -> None:
    """What is said while a function runs comes behind; endpoints refuse a conversation that has it in between."""
    told = messages(history, "")
    open_calls: list[str] = []
    for message in told:
        if message["role"] == "tool":
            assert message["tool_call_id"] == open_calls.pop(0)
        else:
            assert not open_calls
            open_calls = [call["id"] for call in message.get("tool_calls", ())]
    assert not open_calls
    said = [message["content"] for message in told if message["role"] in ("user", "assistant") and message["content"]]
    assert said == [entry.text for entry in history if isinstance(entry, Said) and entry.text]
    done = {entry.call_id for entry in history if isinstance(entry, Called)}
    done &= {entry.call_id for entry in history if isinstance(entry, Returned)}
    assert sorted(message["tool_call_id"] for message in told if message["role"] == "tool") == sorted(done)


@pytest.mark.parametrize("status", [401, 404, 429, 500, 302])
async def test_a_refusal_is_told_without_the_endpoints_words(status: int, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    async with chat_server(lambda body: [], status) as server:
        model = ChatCompletions(server.url, "small", SecretStr(KEY))
        with pytest.raises(AssistantFailed) as failed:
            await pieces(model, ASKED)
        await model.close()
    assert KEY not in caplog.text and KEY not in failed.value.message
    assert KEY not in repr(vars(model))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ([{"content": "half"}], "broke off"),
        (["data: {nonsense\n\n"], "no chat completion"),
        (['data: {"choices": [{"delta": {"content": 5}}]}\n\n'], "no chat completion"),
        (['data: {"choices": [{"delta": {"tool_calls": [{"index": Infinity}]}}]}\n\n'], "no chat completion"),
        (["data: " + "[" * 100_000 + "\n\n"], "no chat completion"),
        (['data: {"error": {"message": "out of memory"}}\n\n'], "with an error"),
        (["data: " + "x" * (1 << 21)], "more than 1048576 bytes"),
        ([{"content": "y" * MOST_CHARACTERS}, {"content": "y"}], "characters"),
        ([0.6], "in time"),
        ([{"content": "well"}, 0.6], "in time"),
    ],
)
async def test_an_endpoint_that_misbehaves_ends_the_answer(script: list[Any], said: str) -> None:
    async with chat_server(lambda body: script) as server:
        model = ChatCompletions(server.url, "small", first=0.3, between=0.3)
        with pytest.raises(AssistantFailed, match=said):
            await pieces(model, ASKED)
        await model.close()


async def test_what_endpoints_get_wrong_is_put_right() -> None:
    half = 'data: {"choices": [{"delta": {"content": "a\\ud800b"}}]}\n\n'
    unnamed = [{"tool_calls": [{"index": index, "function": {"name": "f", "arguments": "{}"}}]} for index in (0, 1)]
    odd = 'data: {"choices": [], "usage": {"prompt_tokens": "many", "completion_tokens": -1}}\n\n'
    async with chat_server(lambda body: [half, *unnamed, {"finish_reason": "stop"}, odd, "data: [DONE]\n\n"]) as server:
        model = ChatCompletions(server.url, "small")
        told = await pieces(model, ASKED)
        await model.close()
    assert told[0] == TextPiece("a\ufffdb")
    ids = [piece.call_id for piece in told if isinstance(piece, CallBegan)]
    assert len(set(ids)) == 2
    assert told[-1] == Ended("stop", None, None)


async def test_nobody_there() -> None:
    model = ChatCompletions("http://127.0.0.1:1/v1", "small")
    with pytest.raises(AssistantFailed, match="assistant_url"):
        await pieces(model, ASKED)
    await model.close()


async def test_leaving_an_answer_lets_the_endpoint_go() -> None:
    async with chat_server(lambda body: [{"content": "a"}, *[0.05, {"content": "b"}] * 100]) as server:
        model = ChatCompletions(server.url, "small", between=0.2)
        async with aclosing(cast(Any, model.answer(ASKED))) as answer:
            async for _ in answer:
                await asyncio.sleep(0.3)  # a slow listener is not the endpoint's fault
                break
        async with asyncio.timeout(5):
            while not server.gone:
                await asyncio.sleep(0.02)
        await model.close()


@given(st.lists(st.text(st.characters(exclude_characters="\r\n", exclude_categories=["Cs"])), max_size=5), st.data())
def test_events_do_not_depend_on_how_bytes_are_cut(told: list[str], data: st.DataObject) -> None:
    stream = "".join(f": ping\nevent: x\ndata: {text}\r\n\r\n" for text in told).encode()
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=6)))

    async def chunks() -> AsyncIterator[bytes]:
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
            yield stream[start:end]

    async def read() -> list[str]:
        return [event async for event in events(chunks())]

    assert asyncio.run(read()) == told


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ({"assistant_url": "ftp://x/v1", "assistant_model": "m"}, "assistant_url"),
        ({"assistant_url": f"https://user:{KEY}@host/v1", "assistant_model": "m"}, "assistant_url"),
        ({"assistant_url": "http://127.0.0.1:1/v1"}, "assistant_model"),
        ({"assistant_model": "m"}, "assistant_url"),
        ({"assistant_key": KEY}, "assistant_url"),
    ],
)
def test_settings_say_what_is_missing_and_no_key(flags: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        load_settings(**flags)
    assert said in str(refused.value) and KEY not in str(refused.value)
