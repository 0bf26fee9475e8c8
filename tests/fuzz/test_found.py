"""Inputs on which something failed once, by the fuzzers' names."""

from __future__ import annotations

import io
import json
from typing import Any

import av
import numpy as np
import pytest

from batch_jobs.job import Channels
from batch_jobs.media.decode import Media
from speech.asr import SAMPLE_RATE
from speech.containers import decode_file
from tests.fuzz.everything import targets
from tests.fuzz.messages import framed
from tests.speech.sounds import recording

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
    "webhook_url": [b"http://[fd00::1]x1]1]/", b"http://\\[fd00::1]/", b"http://[fd00::1]@/"],
    "headers": [b"Upgrade: websocket\nConnection: Upgrade\xff", b"Host: 0i" + LONG.encode()],
    "picture": [
        bytes.fromhex(
            "47494638376118001000810000c811000000000000000000002c000000001800100040082f000308"
            "1c48b0a04183004944415412263cc890a0c2850012263cc890a0c2850d234a9c4851e24310008100"
            "00c81e1e0000000000000000002c00"
        ),
    ],
    "tus_headers": ["filename é".encode(), "sha1 é".encode()],
}


@pytest.mark.parametrize(
    ("name", "number"), [(name, n) for name, several in FOUND.items() for n in range(len(several))]
)
def test_what_failed_once(name: str, number: int) -> None:
    given = FOUND[name][number]
    targets()[name].check(given if isinstance(given, bytes) else json.dumps(given).encode())


@pytest.mark.parametrize(("kind", "codec"), [("ogg", "libopus"), ("mp4", "aac"), ("flac", "flac")])
def test_eight_channels(kind: str, codec: str) -> None:
    """PyAV reads behind the last of eight planes: a recording in 7.1 ended the whole process."""
    voice = recording("austen-0880.wav")[: 2 * SAMPLE_RATE]
    out = io.BytesIO()
    with av.open(out, "w", format=kind) as file:
        track = file.add_stream(codec, rate=48_000)
        track.codec_context.layout = "7.1"
        track.bit_rate = 512_000
        size = track.codec_context.frame_size or None
        convert = av.AudioResampler(track.codec_context.format, "7.1", 48_000, size)
        frame = av.AudioFrame.from_ndarray(np.repeat(voice, 8)[None], "flt", "7.1")
        frame.sample_rate = SAMPLE_RATE
        for ready in [*convert.resample(frame), *convert.resample(None)]:
            file.mux(track.encode(ready))
        file.mux(track.encode(None))
    mixed = np.concatenate(list(decode_file(out.getvalue(), max_seconds=10)))
    with Media(io.BytesIO(out.getvalue()), Channels.EACH, 10) as media:
        apart = np.concatenate([one.samples for sounds in media.sounds() for one in sounds if one.channel == 0])
    loudness = np.sqrt(np.mean(voice**2))
    for sound in (mixed, apart):
        assert 0.5 < np.sqrt(np.mean(sound**2)) / loudness < 1.5
