"""Inputs on which something failed once, by the fuzzers' names."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.fuzz.everything import targets
from tests.fuzz.messages import framed

LONG = "x" * 70_000
HUGE = 10**4299
"""The longest number that Python reads; the sum of two is one that it does not write."""


def nested(levels: int, inside: Any = "\ud800") -> Any:
    for _ in range(levels):
        inside = [inside]
    return inside


FOUND: dict[str, list[Any]] = {
    "realtime": [
        {"type": "none", "event_id": LONG},
        {"type": "session.update", "session": {"audio": {"input": {LONG: 1}}}},
    ],
    "conversation": [
        {"type": "session.update", "session": {"input_audio_format": []}},
        {"type": "response.create", "response": {"output_audio_format": {"a": "b"}}},
        {"type": "session.update", "session": {"type": "realtime", "tracing": [LONG] * 50}},
    ],
    "client_secret": [
        {"session": {"type": "realtime", "tracing": "\ud800"}},
    ],
    "speak": [
        {"type": "create", "context": "a", "lexicon": nested(480)},
        {"type": "create", "context": "a", LONG: 1},
    ],
    "deepgram_message": [{"type": "KeepAlive", "x": nested(480)}],
    "vosk_message": [{"eof": 1, "x": nested(480)}],
    "elevenlabs_message": [
        {"text": "a", "x": nested(480), "context_id": "\ud800"},
        {"text": 1, "context_id": "a\ud800"},
    ],
    "wyoming": [
        framed(({"type": "\ud800", "data": 1}, None, b"")),
        framed(({"type": "ping", "data": {"text": "\ud800"}}, None, b"")),
        framed(({"type": "audio-start"}, {"rate": nested(480), "width": HUGE, "channels": "\ud800"}, b"")),
        json.dumps({"type": "a", "data_length": HUGE * 9, "payload_length": HUGE * 9}).encode() + b"\n",
        framed(({"type": "transcribe"}, {"name": LONG}, b"")),
    ],
    "transcription_form": [f"model={LONG}".encode(), f"{LONG}=1".encode()],
    "job_json": [{LONG: {}}],
    "job_record": [{}, {"name": "a", "chunks": "inf"}],
    "webhook_url": [b"http://[fd00::1]x1]1]/", b"http://\\[fd00::1]/"],
    "headers": [b"Upgrade: websocket\nConnection: Upgrade\xff"],
    "tus_headers": ["filename é".encode(), "sha1 é".encode()],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, several in FOUND.items() for n in range(len(several))]
)
def test_what_failed_once(name: str, number: int) -> None:
    given = FOUND[name][number]
    targets()[name].check(given if isinstance(given, bytes) else json.dumps(given).encode())
