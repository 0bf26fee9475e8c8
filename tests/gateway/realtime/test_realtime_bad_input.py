"""Everything wrong that a client can send, its right answer, and the session that goes on."""

from __future__ import annotations

import asyncio
import base64
import json
import socket
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed

from tests.gateway.realtime.client import PCM, TRANSCRIPTION, check_contract, recording, session, silence, update
from tests.gateway.realtime.conftest import Running, Server

INPUT = "session.audio.input"
MIB = 1024 * 1024


def vad(**fields: Any) -> dict[str, Any]:
    return update(turn_detection={"type": "server_vad", **fields})


def configured(**fields: Any) -> dict[str, Any]:
    return {"type": "session.update", "session": fields}


REFUSED: list[tuple[Any, str, str | None]] = [
    ("{", "invalid_json", None),
    ("", "invalid_json", None),
    ("[]", "invalid_json", None),
    ("null", "invalid_json", None),
    ('{"type": NaN}', "invalid_json", None),
    ("[" * 100_000, "invalid_json", None),
    ('{"type": "\\ud800"}', "invalid_json", None),
    (b"\x00\x01\x02\x03", "invalid_frame", None),
    ({}, "missing_required_parameter", "type"),
    ({"type": 7}, "invalid_type", "type"),
    ({"type": "session.updat"}, "invalid_value", "type"),
    ({"type": "response.create"}, "invalid_value", "type"),
    ({"type": "input_audio_buffer.append"}, "missing_required_parameter", "audio"),
    ({"type": "input_audio_buffer.append", "audio": 5}, "invalid_type", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "AAAA*AAA"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "AAAAA"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "AA AA"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "éé=="}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.append", "audio": "data:audio/wav;base64,AAAA"}, "invalid_value", "audio"),
    ({"type": "input_audio_buffer.commit"}, "input_audio_buffer_commit_empty", "audio"),
    ({"type": "conversation.item.retrieve"}, "missing_required_parameter", "item_id"),
    ({"type": "conversation.item.retrieve", "item_id": "x"}, "item_retrieve_invalid_item_id", "item_id"),
    ({"type": "conversation.item.delete", "item_id": ["x"]}, "invalid_type", "item_id"),
    ({"type": "session.update"}, "missing_required_parameter", "session"),
    ({"type": "session.update", "session": "fast"}, "invalid_type", "session"),
    (configured(type="realtime"), "invalid_value", "session.type"),
    (configured(voice="alloy"), "unknown_parameter", "session.voice"),
    (configured(include=["x.everything"]), "invalid_value", "session.include[0]"),
    (configured(include="x.words"), "invalid_type", "session.include"),
    (configured(audio=None), "invalid_type", "session.audio"),
    (vad(threshold="loud"), "invalid_type", f"{INPUT}.turn_detection.threshold"),
    (vad(threshold=True), "invalid_type", f"{INPUT}.turn_detection.threshold"),
    (vad(threshold=1.5), "invalid_value", f"{INPUT}.turn_detection.threshold"),
    (vad(silence_duration_ms=500.5), "invalid_type", f"{INPUT}.turn_detection.silence_duration_ms"),
    (vad(silence_duration_ms=-1), "invalid_value", f"{INPUT}.turn_detection.silence_duration_ms"),
    (vad(prefix_padding_ms=10**9), "invalid_value", f"{INPUT}.turn_detection.prefix_padding_ms"),
    (vad(eagerness="low"), "unknown_parameter", f"{INPUT}.turn_detection.eagerness"),
    (update(turn_detection={"type": "magic"}), "invalid_value", f"{INPUT}.turn_detection.type"),
    (update(turn_detection=True), "invalid_type", f"{INPUT}.turn_detection"),
    (update(format={"type": "audio/pcm", "rate": 96_000}), "invalid_value", f"{INPUT}.format.rate"),
    (update(format={"type": "audio/pcm", "rate": 4_000}), "invalid_value", f"{INPUT}.format.rate"),
    (update(format={"type": "audio/pcm", "rate": "24000"}), "invalid_type", f"{INPUT}.format.rate"),
    (update(format={"type": "audio/pcmu", "rate": 16_000}), "invalid_value", f"{INPUT}.format.rate"),
    (update(format={"type": "audio/opus"}), "invalid_value", f"{INPUT}.format.type"),
    (update(transcription={"model": "gpt-9"}), "model_not_found", f"{INPUT}.transcription.model"),
    (update(transcription={"model": 5}), "invalid_type", f"{INPUT}.transcription.model"),
    (update(transcription={"language": "de"}), "invalid_value", f"{INPUT}.transcription.language"),
    (update(transcription={"language": "klingon"}), "invalid_value", f"{INPUT}.transcription.language"),
    (update(transcription={"languages": ["en", "fr"]}), "invalid_value", f"{INPUT}.transcription.languages[1]"),
    (update(transcription={"keywords": [""]}), "invalid_value", f"{INPUT}.transcription.keywords[0]"),
    (update(noise_reduction={"type": "strong"}), "invalid_value", f"{INPUT}.noise_reduction.type"),
]


async def test_each_gets_its_answer_and_the_session_lives(running: Running) -> None:
    async with session(running.url) as client:
        for event, code, param in REFUSED:
            error = await client.refused(event)
            assert (error["code"], error["param"]) == (code, param), event
            assert error["type"] == "invalid_request_error"
            assert error["message"]
            assert error["event_id"] is None
        for event, code, _ in REFUSED:
            if isinstance(event, dict):
                error = await client.refused({**event, "event_id": "mine"})
                assert (error["code"], error["event_id"]) == (code, "mine")
        await client.alive()
        assert client.seen[-1]["session"] == client.seen[0]["session"]
        # And it still hears: nothing wrong was mistaken for audio.
        await client.ask(update(format=PCM, turn_detection=None), "session.updated")
        await client.append(silence(1))
        await client.commit()
        completed = await client.until(TRANSCRIPTION + "completed")
        assert completed["usage"]["seconds"] == 1.0


async def test_append_that_is_too_large(running: Running) -> None:
    async with session(running.url) as client:
        for size in (15 * MIB, 16 * MIB):  # bytes before base64 and so a third more characters
            audio = base64.b64encode(bytes(size)).decode()
            error = await client.refused({"type": "input_audio_buffer.append", "audio": audio, "event_id": "big"})
            assert (error["code"], error["param"], error["event_id"]) == ("input_too_large", "audio", "big")
        await client.alive()


async def test_message_beyond_all_limits_closes(running: Running) -> None:
    async with session(running.url) as client:
        with pytest.raises(ConnectionClosed) as closed:
            await client.send("x" * (25 * MIB))
            await client.receive()
        assert closed.value.rcvd is not None and closed.value.rcvd.code == 1009


async def test_double_commit(running: Running) -> None:
    async with session(running.url, update(format=PCM, turn_detection=None)) as client:
        await client.append(recording("austen-0880.wav"))
        await client.commit()
        error = await client.refused({"type": "input_audio_buffer.commit", "event_id": "second"})
        assert (error["code"], error["event_id"]) == ("input_audio_buffer_commit_empty", "second")
        if not client.of(TRANSCRIPTION + "completed"):
            await client.until(TRANSCRIPTION + "completed")
        assert len(check_contract(client.seen)) == 1


async def test_client_commit_after_the_server_committed(running: Running) -> None:
    async with session(running.url, update(format=PCM)) as client:
        await client.append(recording("austen-0880.wav") + silence(0.6), 0.1)
        await client.until("input_audio_buffer.committed")
        await client.ask({"type": "input_audio_buffer.clear"}, "input_audio_buffer.cleared")
        error = await client.refused({"type": "input_audio_buffer.commit"})
        assert error["code"] == "input_audio_buffer_commit_empty"
        if not client.of(TRANSCRIPTION + "completed"):
            await client.until(TRANSCRIPTION + "completed")
        check_contract(client.seen)


async def test_bytes_cut_anywhere_are_the_same_audio(running: Running) -> None:
    speech = recording("austen-0880.wav")
    texts = []
    for size in (len(speech), 4801, 641):  # odd sizes split samples over appends
        async with session(running.url, update(format=PCM, turn_detection=None)) as client:
            for at in range(0, len(speech), size):
                await client.append(speech[at : at + size])
            await client.commit()
            completed = await client.until(TRANSCRIPTION + "completed")
            texts.append((completed["transcript"], completed["usage"]))
    assert texts[0] == texts[1] == texts[2]


async def test_one_append_with_two_utterances(running: Running) -> None:
    speech = silence(0.5) + recording("austen-0930.wav") + silence(1.0)
    async with session(running.url, update(format=PCM)) as client:
        await client.append(speech + speech)
        for _ in range(2):
            await client.until(TRANSCRIPTION + "completed")
        ends = check_contract(client.seen)
        assert ends[0]["transcript"] == ends[1]["transcript"] != ""


async def test_a_frame_after_close_is_ignored(running: Running, server: Server) -> None:
    reader, writer = await handshake(running)
    writer.write(frame(8, (1000).to_bytes(2, "big")) + frame(1, b'{"type": "input_audio_buffer.commit"}') * 10)
    await writer.drain()
    received = await asyncio.wait_for(reader.read(), 10)
    assert received[-4:-2] == bytes([0x88, 2])  # the last thing is the answer to the close frame
    writer.close()
    async with session(running.url) as client:
        await client.alive()


async def test_broken_frames_close_only_their_connection(running: Running) -> None:
    for bad in (b"\xf1\x80\x00\x00\x00\x00", frame(1, b"\xff\xfe"), frame(3, b""), b"\x81\xff" + b"\xff" * 12):
        reader, writer = await handshake(running)
        writer.write(bad)
        await asyncio.wait_for(reader.read(), 10)
        writer.close()
    async with session(running.url) as client:
        await client.alive()


async def handshake(
    running: Running, sock: socket.socket | None = None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """A connection below any library, upgraded; on a connected socket, if one is given."""
    host, port = running.address.split(":")
    reader, writer = await (asyncio.open_connection(sock=sock) if sock else asyncio.open_connection(host, int(port)))
    lines = [
        "GET /v1/realtime?intent=transcription HTTP/1.1",
        f"Host: {running.address}",
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
    ]
    writer.write(("\r\n".join(lines) + "\r\n\r\n").encode())
    assert b" 101 " in await reader.readuntil(b"\r\n\r\n")
    return reader, writer


def frame(opcode: int, payload: bytes) -> bytes:
    """A masked frame with a mask of zeros."""
    assert len(payload) < 126
    return bytes([0x80 | opcode, 0x80 | len(payload), 0, 0, 0, 0]) + payload


async def test_refusals_are_valid_json_with_ids(running: Running) -> None:
    async with session(running.url) as client:
        await client.send(json.dumps({"type": "é\u2028" * 500}))
        error = await client.receive()
        assert error["event_id"].startswith("event_")
        assert len(error["error"]["message"]) < 2000
