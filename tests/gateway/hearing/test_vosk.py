"""vosk-server's WebSocket, spoken to in the shape of its public test client: a frame, its answer, the next frame."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosedError, InvalidStatus

from gateway.plain_words import plain_text
from tests.gateway.hearing.conftest import pcm
from tests.gateway.speak.conftest import Running, Server

CONFIG = '{ "config" : { "sample_rate" : 16000 } }'
FRAME = 6_400
"""Bytes of 0.2 s."""


async def ask(socket: ClientConnection, message: str | bytes) -> dict[str, Any]:
    await socket.send(message)
    answer: dict[str, Any] = json.loads(await socket.recv())
    return answer


async def recognised(url: str, sound: bytes, config: str = CONFIG, eof: str | bytes = '{"eof" : 1}') -> list[Any]:
    """All answers of a connection that is used as vosk's own client does."""
    async with connect(url) as socket:
        await socket.send(config)
        answers = [await ask(socket, sound[at : at + FRAME]) for at in range(0, len(sound), FRAME)]
        answers.append(await ask(socket, eof))
        assert [message async for message in socket] == []
        assert socket.close_code == 1000
        return answers


def text(answers: list[Any]) -> str:
    return " ".join(answer["text"] for answer in answers if answer.get("text"))


@pytest.mark.parametrize(
    ("name", "path"), [("austen-0870.wav", ""), ("austen-0880.wav", "/vosk"), ("austen-0930.wav", "/")]
)
async def test_the_words_are_those_of_our_own_path(
    running: Running, name: str, path: str, live_words: Callable[[str], str]
) -> None:
    answers = await recognised(f"ws://{running.address}{path}", pcm(name))
    assert text(answers) == plain_text(live_words(name))
    assert all(set(answer) == {"partial"} or "text" in answer for answer in answers)
    words = [word for answer in answers for word in answer.get("result", [])]
    assert " ".join(word["word"] for word in words) == text(answers)
    assert all(set(word) == {"conf", "start", "end", "word"} and 0 <= word["conf"] <= 1 for word in words)


async def test_the_frame_that_ends_an_utterance_is_answered_by_its_result(running: Running) -> None:
    sound = pcm("austen-0880.wav") + bytes(48_000) + pcm("austen-0930.wav")
    answers = await recognised(f"ws://{running.address}", sound)
    results = [number for number, answer in enumerate(answers) if answer.get("text")]
    assert len(results) >= 2
    assert results[0] < (len(pcm("austen-0880.wav")) + 48_000) / FRAME
    assert results[-1] == len(answers) - 1


@pytest.mark.parametrize("eof", ['{"eof":1}', '{"eof" : 1}', '{ "eof":\n1 }', b'{"eof" : 1}'])
async def test_the_end_is_understood_however_it_is_written(running: Running, eof: str | bytes) -> None:
    assert await recognised(f"ws://{running.address}/vosk", b"", eof=eof) == [{"text": ""}]


async def test_reset_gives_the_result_and_goes_on(running: Running) -> None:
    sound = pcm("austen-0880.wav")
    async with connect(f"ws://{running.address}/vosk") as socket:
        await socket.send(CONFIG)
        assert (await ask(socket, sound)).keys() == {"partial"}
        first = await ask(socket, '{"reset" : 1}')
        assert first["text"] and first["result"]
        assert await ask(socket, '{"reset" : 1}') == {"text": ""}
        assert "partial" in await ask(socket, sound)
        last = await ask(socket, '{"eof" : 1}')
        assert last["text"] == first["text"]
        assert last["result"][0]["start"] >= first["result"][-1]["end"]


async def test_the_form_of_the_answer_is_the_clients_choice(running: Running) -> None:
    url, sound = f"ws://{running.address}/vosk", pcm("austen-0880.wav")
    config = {"sample_rate": 16000.0, "words": False, "phrase_list": ["elinor", "[unk]"]}
    (*_, bare) = await recognised(url, sound, json.dumps({"config": config}))
    assert set(bare) == {"text"}
    (*_, several) = await recognised(
        url, sound, json.dumps({"config": {**config, "words": True, "max_alternatives": 3}})
    )
    (reading,) = several["alternatives"]
    assert reading["text"] and set(reading["result"][0]) == {"start", "end", "word"} and 0 < reading["confidence"] <= 1


@pytest.mark.parametrize(
    ("message", "named"),
    [
        ("no JSON", "This is not valid JSON"),
        ('{"hello": 1}', "Send config"),
        ('{"config": {"sample_rate": 100}}', "config.sample_rate"),
        ('{"config": {"phrase_list": "yes"}}', "config.phrase_list"),
        ('{"config": {"model": "large"}}', "model"),
    ],
)
async def test_what_means_nothing_closes_with_the_reason(running: Running, message: str, named: str) -> None:
    async with connect(f"ws://{running.address}/vosk") as socket:
        await socket.send(message)
        with pytest.raises(ConnectionClosedError):
            await socket.recv()
        assert socket.close_code == 1007
        assert str(socket.close_reason).startswith(named)
    assert running.until(lambda: running.service.sessions == 0)


async def test_keys_places_and_draining(server: Server) -> None:
    running = server.serve(api_keys="the-key-0123456789abcdef", max_sessions=1)
    try:
        for path in ("", "/vosk"):
            with pytest.raises(InvalidStatus) as refused:
                await recognised(f"ws://{running.address}{path}", b"")
            assert refused.value.response.status_code == 401
        headers = {"Authorization": "Bearer the-key-0123456789abcdef"}
        async with connect(f"ws://{running.address}", additional_headers=headers) as socket:
            await socket.send(CONFIG)
            with pytest.raises(InvalidStatus) as refused:
                async with connect(f"ws://{running.address}", additional_headers=headers):
                    pass
            assert refused.value.response.status_code == 429
            assert "partial" in await ask(socket, pcm("austen-0880.wav"))
            server.loop.call_soon_threadsafe(running.service.draining.set)
            assert json.loads(await socket.recv())["text"]
            with pytest.raises(ConnectionClosedError):
                await socket.recv()
            assert socket.close_code == 1012
    finally:
        running.stop()


async def test_the_page_is_still_at_the_root(running: Running) -> None:
    assert "text/html" in httpx.get(running.http).headers["Content-Type"]
