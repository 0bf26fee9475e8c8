"""POST /v1/audio/speech with the unmodified openai package, the real service and the real voice."""

from __future__ import annotations

import asyncio
import base64
import io
import json
import socket
import struct
import threading
import time
from collections.abc import Iterator
from typing import Any

import av
import numpy as np
import openai
import pytest
from aiohttp import ClientSession
from numpy.typing import NDArray

from tests.gateway.speak.conftest import Running, Server

TEXT = "The answer is no. 3,497 left."
KEY = "office-key-0123456789abcdef"


@pytest.fixture(scope="module")
def client(running: Running) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{running.http}/v1", api_key="not needed", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def whole(client: openai.OpenAI) -> NDArray[Any]:
    """The text's samples."""
    return np.frombuffer(pcm(client, TEXT), "<i2")


def pcm(client: openai.OpenAI, text: str, **more: Any) -> bytes:
    content: bytes = client.audio.speech.create(
        model="tts-1", input=text, voice="heart", response_format="pcm", **more
    ).content
    return content


def decoded(data: bytes) -> tuple[NDArray[Any], int]:
    with av.open(io.BytesIO(data)) as container:
        frames = list(container.decode(audio=0))
    return np.concatenate([frame.to_ndarray().reshape(-1) for frame in frames]), frames[0].sample_rate


def test_pcm_is_speech(whole: NDArray[Any]) -> None:
    assert 2.0 < len(whole) / 24_000 < 5.0
    assert np.abs(whole).max() > 3000
    assert np.abs(whole[: int(0.1 * 24_000)]).max() > 300, "the silence before the first sound is cut"


@pytest.mark.parametrize(
    ("form", "media"),
    [("mp3", "audio/mpeg"), ("opus", "audio/ogg; codecs=opus"), ("aac", "audio/aac"), ("flac", "audio/flac"),
     ("wav", "audio/wav"), ("pcm", "audio/pcm; rate=24000; channels=1")],
)  # fmt: skip
def test_every_format_holds_all_of_it(client: openai.OpenAI, whole: NDArray[Any], form: Any, media: str) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", input=TEXT, voice="alloy", response_format=form
    ) as answer:
        assert answer.headers["Content-Type"] == media
        assert answer.headers["Transfer-Encoding"] == "chunked"
        pieces = list(answer.iter_bytes())
    data = b"".join(pieces)
    assert len(pieces) > 1
    if form == "pcm":
        assert data == whole.tobytes()
        return
    if form == "wav":
        assert struct.unpack_from("<I", data, 40) == (0xFFFFFFFF,)
        assert data[44:] == whole.tobytes()
    samples, rate = decoded(data)
    head = {"mp3": 1105, "aac": 1024}.get(form, 0) / 24_000
    assert len(whole) / 24_000 - 0.001 <= len(samples) / rate - head <= len(whole) / 24_000 + 0.05


def test_mp3_is_the_default_and_voice_may_be_an_object(client: openai.OpenAI) -> None:
    answer = client.audio.speech.create(model="tts-1", input="Hi.", voice={"id": "heart"}, instructions="cheerfully")
    assert answer.response.headers["Content-Type"] == "audio/mpeg"
    assert decoded(answer.content)[1] == 24_000


def test_sound_comes_as_it_is_made(client: openai.OpenAI) -> None:
    text = "The old man walked slowly down to the harbour, where nobody was waiting. " * 6
    begun = time.monotonic()
    with client.audio.speech.with_streaming_response.create(
        model="tts-1", input=text, voice="heart", response_format="pcm"
    ) as answer:
        arrivals, size = [], 0
        for piece in answer.iter_bytes():
            arrivals.append(time.monotonic() - begun)
            size += len(piece)
    assert size / 48_000 > 15
    assert arrivals[0] < arrivals[-1] / 3


def test_events_carry_the_same_sound_and_the_usage(client: openai.OpenAI, whole: NDArray[Any]) -> None:
    with client.audio.speech.with_streaming_response.create(
        model="gpt-4o-mini-tts", input=TEXT, voice="heart", response_format="pcm", stream_format="sse"
    ) as answer:
        assert answer.headers["Content-Type"] == "text/event-stream"
        assert (answer.request_id or "").startswith("req_")
        events = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    *deltas, done = events
    assert {event["type"] for event in deltas} == {"speech.audio.delta"}
    assert b"".join(base64.b64decode(event["audio"]) for event in deltas) == whole.tobytes()
    assert done["type"] == "speech.audio.done"
    usage = done["usage"]
    assert usage["input_tokens"] == -(-len(TEXT) // 4)
    assert abs(usage["output_tokens"] - len(whole) / 24_000 * 20) <= 1
    assert usage["total_tokens"] == usage["input_tokens"] + usage["output_tokens"]


def test_speed_and_seed(client: openai.OpenAI, whole: NDArray[Any]) -> None:
    assert pcm(client, TEXT) == whole.tobytes(), "the same text and seed give the same samples"
    other = pcm(client, TEXT, extra_body={"seed": 7})
    assert len(other) == len(whole.tobytes()) and other != whole.tobytes()
    assert 0.4 < len(pcm(client, TEXT, speed=2.0)) / len(whole.tobytes()) < 0.65


@pytest.mark.parametrize("text", ["   \n", "😀🎉", "?! ... —", "\x00\x07", "\u200b"], ids=ascii)
def test_nothing_to_say_is_a_short_silence(client: openai.OpenAI, text: str) -> None:
    samples = np.frombuffer(pcm(client, text), "<i2")
    assert 0 < len(samples) < 24_000
    assert np.abs(samples).max(initial=0) < 1000
    mp3 = client.audio.speech.create(model="tts-1", input=text, voice="heart").content
    assert len(decoded(mp3)[0])


@pytest.mark.parametrize("text", ["مرحبا بالعالم", "你好，世界", "<speak>Hello</speak>", "x" * 300], ids=ascii)
def test_odd_text_is_spoken_or_silent_but_ends(client: openai.OpenAI, text: str) -> None:
    assert len(pcm(client, text, speed=4.0)) > 0


GOOD = {"model": "tts-1", "input": "Hi.", "voice": "heart"}
REFUSED: list[tuple[Any, int, str | None, str]] = [
    ({**GOOD, "model": "tts-9"}, 404, "model", "model_not_found"),
    ({**GOOD, "model": None}, 400, "model", "missing_required_parameter"),
    ({**GOOD, "voice": "nobody"}, 400, "voice", "invalid_value"),
    ({**GOOD, "voice": {"id": "nobody"}}, 400, "voice", "invalid_value"),
    ({**GOOD, "voice": {}}, 400, "voice", "invalid_value"),
    ({**GOOD, "voice": 5}, 400, "voice", "invalid_type"),
    ({**GOOD, "input": ""}, 400, "input", "invalid_value"),
    ({**GOOD, "input": 5}, 400, "input", "invalid_type"),
    ({**GOOD, "input": "x" * 4097}, 400, "input", "string_above_max_length"),
    ({**GOOD, "input": "word " * 210_000}, 413, "input", "input_too_large"),
    ({"model": "tts-1", "voice": "heart"}, 400, "input", "missing_required_parameter"),
    ({**GOOD, "response_format": "ogg"}, 400, "response_format", "invalid_value"),
    ({**GOOD, "response_format": 1}, 400, "response_format", "invalid_value"),
    ({**GOOD, "stream_format": "websocket"}, 400, "stream_format", "invalid_value"),
    ({**GOOD, "speed": 0}, 400, "speed", "invalid_value"),
    ({**GOOD, "speed": -1}, 400, "speed", "invalid_value"),
    ({**GOOD, "speed": 4.01}, 400, "speed", "invalid_value"),
    ({**GOOD, "speed": float("nan")}, 400, "speed", "invalid_value"),
    ({**GOOD, "speed": "1"}, 400, "speed", "invalid_type"),
    ({**GOOD, "seed": -1}, 400, "seed", "invalid_value"),
    ({**GOOD, "pitch": 2}, 400, "pitch", "unknown_parameter"),
    ([], 400, None, "invalid_json"),
    ("{", 400, None, "invalid_json"),
    (b"\xff\xfe", 400, None, "invalid_json"),
    ("[" * 100_000, 400, None, "invalid_json"),
]


async def test_every_refusal_names_the_field(running: Running) -> None:
    async with ClientSession(running.http) as http:
        for body, status, param, code in REFUSED:
            raw = body if isinstance(body, str | bytes) else json.dumps(body)
            async with http.post("/v1/audio/speech", data=raw) as answer:
                shown = raw[:100]
                error = (await answer.json())["error"]
                assert (answer.status, error["param"], error["code"]) == (status, param, code), (shown, error)
                assert error["type"] == "invalid_request_error"
                assert len(error["message"]) > 10


async def test_lone_surrogates_are_taken(running: Running) -> None:
    body = '{"model": "tts-1", "voice": "heart", "response_format": "pcm", "input": "Good \\ud83d day \\ud83d\\ude00"}'
    async with ClientSession(running.http) as http, http.post("/v1/audio/speech", data=body) as answer:
        assert answer.status == 200
        assert len(await answer.read()) > 24_000


async def test_a_client_that_goes_away_cancels(running: Running) -> None:
    assert running.speaking == 0
    body = {**GOOD, "input": ("word " * 800)[:4096], "response_format": "pcm", "speed": 0.25}
    async with ClientSession(running.http) as http, http.post("/v1/audio/speech", json=body) as answer:
        await answer.content.readexactly(1000)
        assert running.speaking == 1
        answer.close()
    assert await asyncio.to_thread(running.until, lambda: running.speaking == 0)


def test_a_client_that_does_not_read_makes_nothing_more(running: Running) -> None:
    body = json.dumps({**GOOD, "input": ("word " * 800)[:4096], "response_format": "pcm", "speed": 0.25})
    head = f"POST /v1/audio/speech HTTP/1.1\r\nHost: {running.address}\r\nContent-Length: {len(body)}\r\n\r\n"

    def made() -> float:
        return running.server.engine.status().speech.made

    with socket.socket() as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 32 * 1024)
        client.connect(running.runner.addresses[0][:2])
        client.sendall((head + body).encode())
        assert client.recv(1000).startswith(b"HTTP/1.1 200")
        before, steady = made(), 0
        for _ in range(100):
            time.sleep(0.2)
            before, steady = made(), steady + 1 if made() == before else 0
            if steady == 3:
                break
        assert steady == 3, "it waits for its reader"
        assert running.speaking == 1
    assert running.until(lambda: running.speaking == 0)


def test_places_and_keys(server: Server) -> None:
    running = server.serve(api_keys=(KEY,), max_speeches=1)
    try:
        stranger = openai.OpenAI(base_url=f"{running.http}/v1", api_key="wrong", max_retries=0)
        with pytest.raises(openai.AuthenticationError):
            pcm(stranger, "Hi.")
        client = openai.OpenAI(base_url=f"{running.http}/v1", api_key=KEY, max_retries=0)
        ready, over = threading.Event(), threading.Event()

        def occupy() -> None:
            with client.audio.speech.with_streaming_response.create(
                model="tts-1", input="word " * 800, voice="heart", response_format="pcm", speed=0.25
            ) as answer:
                next(answer.iter_bytes())
                ready.set()
                over.wait(20)

        thread = threading.Thread(target=occupy)
        thread.start()
        assert ready.wait(20)
        with pytest.raises(openai.RateLimitError) as caught:
            pcm(client, "Hi.")
        assert int(caught.value.response.headers["Retry-After"]) >= 1
        over.set()
        thread.join(20)
        assert running.until(lambda: running.speaking == 0)
        assert pcm(client, "Hi.")
    finally:
        running.stop()


async def test_voices(running: Running) -> None:
    async with ClientSession(running.http) as http, http.get("/v1/voices") as answer:
        body = await answer.json()
    assert body["object"] == "list"
    heart = body["data"][0]
    assert (heart["id"], heart["rate"], heart["model"], heart["exact"]) == ("heart", 24_000, "hibari", True)
    assert "alloy" in heart["aliases"] and heart["languages"]
