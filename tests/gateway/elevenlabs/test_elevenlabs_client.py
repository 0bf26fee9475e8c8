"""The unmodified elevenlabs package against the real service and the real voice."""

from __future__ import annotations

import asyncio
import base64
import io
from typing import Any

import av
import numpy as np
import pytest
from aiohttp import ClientSession
from elevenlabs import VoiceSettings
from elevenlabs.client import AsyncElevenLabs, ElevenLabs
from elevenlabs.core.api_error import ApiError
from elevenlabs.errors import UnprocessableEntityError

from tests.gateway.speak.conftest import Running, Server

TEXT = "The answer is no. 3,497 left."
KEY = "office-key-0123456789abcdef"


def spoken(client: ElevenLabs, **more: Any) -> np.ndarray[Any, Any]:
    asked = {"text": TEXT, "output_format": "pcm_24000"} | more
    return np.frombuffer(b"".join(client.text_to_speech.stream("heart", **asked)), "<i2")


@pytest.fixture(scope="module")
def whole(client: ElevenLabs) -> np.ndarray[Any, Any]:
    """The text's samples."""
    return spoken(client)


def test_the_sound_is_that_of_our_own_endpoint(
    client: ElevenLabs, running: Running, whole: np.ndarray[Any, Any]
) -> None:
    async def ours() -> bytes:
        body = {"model": "tts-1", "voice": "heart", "input": TEXT, "response_format": "pcm"}
        async with ClientSession() as session, session.post(f"{running.http}/v1/audio/speech", json=body) as answer:
            return await answer.read()

    assert whole.tobytes() == asyncio.run(ours())
    assert b"".join(client.text_to_speech.convert("alloy", text=TEXT, output_format="pcm_24000")) == whole.tobytes()


@pytest.mark.parametrize(
    ("name", "codec", "rate"),
    [("mp3_44100_128", "mp3float", 44_100), ("opus_48000_64", "opus", 48_000), ("wav_16000", "pcm_s16le", 16_000)],
)
def test_files_hold_all_of_it(
    client: ElevenLabs, whole: np.ndarray[Any, Any], name: str, codec: str, rate: int
) -> None:
    data = b"".join(client.text_to_speech.convert("heart", text=TEXT, output_format=name, model_id="eleven_flash_v2_5"))
    with av.open(io.BytesIO(data)) as container:
        assert container.streams.audio[0].codec_context.name == codec
        samples = sum(frame.samples for frame in container.decode(audio=0))
    assert samples / rate == pytest.approx(len(whole) / 24_000, abs=0.1)


def test_text_in_pieces_sounds_the_same(client: ElevenLabs, secure: ElevenLabs) -> None:
    pieces = secure.text_to_speech.convert_realtime(
        "heart", text=iter(["The answer ", "is no.", " 3,497 left."]), output_format="pcm_24000"
    )
    # It puts spaces between the pieces.
    assert b"".join(pieces) == spoken(client, text="The answer is no.  3,497 left. ").tobytes()


def test_realtime_text_is_spoken_at_the_pace_asked_for(secure: ElevenLabs, whole: np.ndarray[Any, Any]) -> None:
    data = b"".join(
        secure.text_to_speech.convert_realtime(
            "heart",
            text=iter([TEXT]),
            model_id="eleven_turbo_v2_5",
            output_format="ulaw_8000",
            voice_settings=VoiceSettings(stability=0.5, speed=2.0),
        )
    )
    assert len(data) / 8_000 == pytest.approx(len(whole) / 24_000 / 2, rel=0.25)


def test_timestamps_cover_the_text(client: ElevenLabs, whole: np.ndarray[Any, Any]) -> None:
    found = client.text_to_speech.convert_with_timestamps("heart", text=TEXT, output_format="pcm_24000")
    assert base64.b64decode(found.audio_base_64) == whole.tobytes()
    alignment = found.alignment
    assert alignment is not None
    assert "".join(alignment.characters) == TEXT
    starts, ends = alignment.character_start_times_seconds, alignment.character_end_times_seconds
    assert starts == sorted(starts)
    assert all(start <= end for start, end in zip(starts, ends, strict=True))
    assert 0 <= starts[0] < 0.2
    assert ends[-1] == pytest.approx(len(whole) / 24_000, abs=0.01)


def test_streamed_timestamps_say_the_same(client: ElevenLabs, whole: np.ndarray[Any, Any]) -> None:
    chunks = list(client.text_to_speech.stream_with_timestamps("heart", text=TEXT, output_format="pcm_24000"))
    assert len(chunks) > 2
    assert b"".join(base64.b64decode(chunk.audio_base_64) for chunk in chunks) == whole.tobytes()
    assert "".join(c for chunk in chunks if chunk.alignment for c in chunk.alignment.characters) == TEXT


def test_voices_are_in_both_forms(client: ElevenLabs, running: Running) -> None:
    assert [voice.voice_id for voice in client.voices.get_all().voices] == ["heart"]
    assert client.voices.get("alloy").voice_id == "heart"
    assert client.voices.search(search="american").total_count == 1
    assert client.voices.search(search="nobody").voices == []

    async def ours() -> Any:
        async with ClientSession() as session, session.get(f"{running.http}/v1/voices") as answer:
            return await answer.json()

    assert asyncio.run(ours())["data"][0]["id"] == "heart"


def test_an_unknown_voice_is_not_found(client: ElevenLabs, secure: ElevenLabs) -> None:
    with pytest.raises(ApiError) as raised:
        list(client.text_to_speech.stream("JBFqnCBwsd6RMkjVDRZzb", text=TEXT))
    assert raised.value.status_code == 404
    assert raised.value.body["detail"]["status"] == "voice_not_found"
    with pytest.raises(ApiError) as raised:
        client.voices.get("nobody")
    assert raised.value.status_code == 404
    with pytest.raises(ApiError) as raised:
        list(secure.text_to_speech.convert_realtime("nobody", text=iter([TEXT])))
    assert raised.value.status_code == 1008
    assert "voice" in str(raised.value.body)


@pytest.mark.parametrize(
    ("more", "place"),
    [
        ({"text": ""}, ["body", "text"]),
        ({"text": "a" * 10_001}, ["body", "text"]),
        ({"voice_settings": VoiceSettings(speed=0)}, ["body", "voice_settings", "speed"]),
        ({"seed": -1}, ["body", "seed"]),
    ],
)
def test_a_wrong_field_is_named(client: ElevenLabs, more: dict[str, Any], place: list[str]) -> None:
    with pytest.raises(UnprocessableEntityError) as raised:
        spoken(client, **more)
    assert raised.value.body["detail"][0]["loc"] == place


@pytest.mark.parametrize(
    ("more", "param"),
    [
        ({"output_format": "mp3_1_1"}, "output_format"),
        ({"language_code": "de"}, "language_code"),
        ({"model_id": "tiny.en"}, "model"),
        (
            {"pronunciation_dictionary_locators": [{"pronunciation_dictionary_id": "a"}]},
            "pronunciation_dictionary_locators",
        ),
    ],
)
def test_what_is_not_here_is_refused(client: ElevenLabs, more: dict[str, Any], param: str) -> None:
    with pytest.raises(ApiError) as raised:
        spoken(client, **more)
    assert raised.value.body["detail"]["param"] == param


def test_nothing_to_say_is_silence(client: ElevenLabs, secure: ElevenLabs) -> None:
    for text in (" ", "🙂", "..."):
        samples = spoken(client, text=text)
        assert len(samples) == 2_400
        assert not samples.any()
    assert b"".join(secure.text_to_speech.convert_realtime("heart", text=iter(["🙂"]))) == b""


def test_the_key_comes_as_their_header(server: Server) -> None:
    running = server.serve(api_keys=(KEY,))
    try:
        assert len(spoken(ElevenLabs(base_url=running.http, api_key=KEY), text="Yes.")) > 2_400
        with pytest.raises(ApiError) as raised:
            spoken(ElevenLabs(base_url=running.http, api_key="wrong"), text="Yes.")
        assert raised.value.status_code == 401
        assert raised.value.body["detail"]["status"] == "invalid_api_key"
    finally:
        running.stop()


async def test_the_asynchronous_client(running: Running, whole: np.ndarray[Any, Any]) -> None:
    client = AsyncElevenLabs(base_url=running.http, api_key="not needed")
    data = b"".join(
        [piece async for piece in client.text_to_speech.stream("heart", text=TEXT, output_format="pcm_24000")]
    )
    assert data == whole.tobytes()
