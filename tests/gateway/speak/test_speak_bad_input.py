"""Whatever a client sends to /v1/speak: it gets silence with a done, or an error that names the field; it goes on."""

from __future__ import annotations

import json

import pytest

from tests.gateway.speak.client import speaking
from tests.gateway.speak.conftest import Running

NOTHING = ["", "   \n\t ", "😀🎉👩‍👩‍👧", "...?! — ;;; …", "\x00\x01\x1b\x7f", "\u200b\ufeff", "\ud800", "```\n```"]
ODD = [
    "a" * 5000,
    "word " * 300,
    "שלום עולם. مرحبا بالعالم.",
    "你好，世界。こんにちは。",
    "<speak>Hello <break time='1s'/><prosody rate='fast'>there</prosody></speak>",
    "Hello\x00 there\x07, \u202eright\u202c to left.",
    "x\ud83d\ude00y \udfff z",
    "Zalgo t̸̢̛e̴x̷t",
]


@pytest.mark.parametrize("text", NOTHING, ids=ascii)
async def test_nothing_to_say_is_done_at_once(running: Running, text: str) -> None:
    async with speaking(running.url) as client:
        heard = await client.say(text, lead=None)
        done = heard.events[-1]
        assert done["seconds"] < 0.6
        assert done["characters"] == len(text)
        assert heard.words == []


@pytest.mark.parametrize("text", ODD, ids=lambda text: ascii(text[:12]))
async def test_odd_text_comes_to_its_end(running: Running, text: str) -> None:
    async with speaking(running.url) as client:
        if len(text) > 1000:  # half an hour of sound need not be waited for
            await client.send("create", lead=None)
            await client.send("text", text=text, end=True)
            await client.until("sound")
            await client.send("cancel")
            cancelled = await client.until("cancelled")
            assert cancelled["spoken"] + cancelled["unspoken"] == text
            return
        heard = await client.say(text, lead=None)
        assert heard.events[-1]["seconds"] > 0.3
        assert len(heard.samples()) == heard.events[-1]["samples"]


CREATE = {"type": "create", "context": "b"}
REFUSED = [
    ({**CREATE, "speed": 0}, "speed", None),
    ({**CREATE, "speed": -1}, "speed", None),
    ({**CREATE, "speed": 4.1}, "speed", None),
    ({**CREATE, "speed": float("nan")}, "speed", "invalid_value"),
    ({**CREATE, "speed": float("inf")}, "speed", "invalid_value"),
    ({**CREATE, "speed": "fast"}, "speed", "invalid_type"),
    ({**CREATE, "speed": True}, "speed", "invalid_type"),
    ({**CREATE, "voice": "nobody"}, "voice", None),
    ({**CREATE, "voice": 7}, "voice", "invalid_type"),
    ({**CREATE, "seed": -1}, "seed", None),
    ({**CREATE, "seed": 10**30}, "seed", None),
    ({**CREATE, "lead": 0}, "lead", None),
    ({**CREATE, "stall": 1e9}, "stall", None),
    ({**CREATE, "split": "letters"}, "split", "invalid_value"),
    ({**CREATE, "format": {"name": "ogg"}}, "format.name", "invalid_value"),
    ({**CREATE, "format": {"name": "pcm16", "rate": 1}}, "format.rate", None),
    ({**CREATE, "format": {"name": "opus", "rate": 44_100}}, "format.rate", None),
    ({**CREATE, "format": "wav"}, "format", "invalid_type"),
    ({**CREATE, "audio": "hex"}, "audio", "invalid_value"),
    ({**CREATE, "policy": {"emoji": "draw"}}, "policy.emoji", "invalid_value"),
    ({**CREATE, "policy": {"language": "xx"}}, "policy.language", None),
    ({**CREATE, "lexicon": {"": "x"}}, "lexicon", None),
    ({**CREATE, "lexicon": {"word": 5}}, "lexicon.word", "invalid_type"),
    ({**CREATE, "lexicon": ["word"]}, "lexicon", "invalid_type"),
    ({**CREATE, "volume": 2}, "volume", "unknown_parameter"),
    ({**CREATE, "context": ""}, "context", "invalid_value"),
    ({**CREATE, "context": "x" * 129}, "context", "invalid_value"),
    ({**CREATE, "context": "open"}, "context", "context_exists"),
    ({"type": "create"}, "context", "missing_required_parameter"),
    ({"type": "text", "context": "open"}, "text", "missing_required_parameter"),
    ({"type": "text", "context": "open", "text": None}, "text", "missing_required_parameter"),
    ({"type": "text", "context": "open", "text": 5}, "text", "invalid_type"),
    ({"type": "text", "context": "open", "text": "x" * (1 << 20)}, "text", "input_too_large"),
    ({"type": "text", "context": "never", "text": "x"}, "context", "unknown_context"),
    ({"type": "text", "context": "ended", "text": "x"}, "text", "context_ended"),
    ({"type": "cancel", "context": "gone"}, "context", "context_over"),
    ({"type": "flush", "context": "never"}, "context", "unknown_context"),
    ({"type": "end", "context": "never"}, "context", "unknown_context"),
    ({"type": "hold", "context": "never"}, "context", "unknown_context"),
    ({"type": "playback", "context": "open", "seconds": -1}, "seconds", "invalid_value"),
    ({"type": "playback", "context": "open", "seconds": float("nan")}, "seconds", "invalid_value"),
    ({"type": "playback", "context": "open", "seconds": 99}, "seconds", "invalid_value"),
    ({"type": "playback", "context": "open"}, "seconds", "missing_required_parameter"),
    ({"type": "shout", "context": "open"}, "type", "invalid_value"),
    ({"type": 5}, "type", "invalid_value"),
    ({"context": "open"}, "type", "missing_required_parameter"),
    ([], None, "invalid_json"),
    ("{", None, "invalid_json"),
    ("[" * 100_000, None, "invalid_json"),
    (b"\x00\x01", None, "invalid_frame"),
]


async def test_every_refusal_names_the_field_and_the_socket_goes_on(running: Running) -> None:
    async with speaking(running.url) as client:
        for name in ("open", "ended", "gone"):
            await client.send("create", name, stall=30)
            await client.until("created")
        await client.send("hold", "ended")
        await client.until("held")
        await client.send("text", "ended", text="It waits.", end=True)
        await client.send("cancel", "gone")
        await client.until("cancelled")
        for message, param, code in REFUSED:
            raw = message if isinstance(message, str | bytes) else json.dumps(message)
            await client.socket.send(raw)
            event = await client.next()
            assert event["type"] == "error", (message, event)
            error = event["error"]
            assert error["param"] == param, (message, error)
            assert error["code"] == (code or "invalid_value"), (message, error)
            assert error["type"] == "invalid_request_error"
            assert error["message"]
            if isinstance(message, dict) and isinstance(message.get("context"), str):
                assert event["context"] == message["context"]
        await client.say("All is well.", "after", lead=None)


async def test_contexts_and_text_are_bounded(running: Running) -> None:
    async with speaking(running.url) as client:
        await client.send("create", "long", stall=30)
        await client.until("created")
        await client.send("hold", "long")
        await client.until("held")
        for _ in range(2):
            await client.send("text", "long", text="word " * 13_000)
        await client.send("text", "long", text="word " * 1000)
        error = (await client.next())["error"]
        assert (error["code"], error["param"]) == ("input_too_large", "text")
        for number in range(15):
            await client.send("create", f"c{number}", lead=None)
            await client.until("created")
        await client.send("create", "one more")
        error = (await client.next())["error"]
        assert (error["code"], error["param"]) == ("too_many_contexts", "context")
        await client.send("cancel", "c3")
        await client.until("cancelled")
        await client.send("create", "one more", lead=None)
        await client.until("created")
