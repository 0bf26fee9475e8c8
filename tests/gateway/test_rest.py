"""The files endpoint with the unmodified openai package, the real service and the real tiny.en."""

from __future__ import annotations

import io
import json
import math
import re
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import openai
import pytest
import soundfile
from aiohttp import ClientSession, FormData
from whisper_normalizer.english import EnglishTextNormalizer

normalise = EnglishTextNormalizer()
JFK = "jfk.flac"


@pytest.fixture(scope="module")
def client(service: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{service}/v1", api_key="not needed", max_retries=0) as client:
        yield client


@pytest.fixture
async def http(service: str) -> AsyncIterator[ClientSession]:
    async with ClientSession(service) as session:
        yield session


@dataclass
class Answer:
    """An HTTP answer, read."""

    status: int
    content_type: str
    text: str

    @property
    def json(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.text)
        return body


async def post(http: ClientSession, *parts: tuple[str, str | bytes], **more: Any) -> Answer:
    """Send a form of these parts in this order; bytes are the file."""
    if not more:
        form = FormData(default_to_multipart=True)
        for name, value in parts:
            form.add_field(name, value, filename="talk.wav" if isinstance(value, bytes) else None)
        more = {"data": form}
    async with http.post("/v1/audio/transcriptions", **more) as answer:
        return Answer(answer.status, answer.content_type, await answer.text())


def words_wrong(said: str, heard: str) -> float:
    return jiwer.wer(normalise(said), normalise(heard))


@pytest.mark.parametrize("model", ["tiny.en", "whisper-1", "gpt-4o-transcribe"])
def test_json_is_the_default(client: openai.OpenAI, data: Path, references: dict[str, str], model: str) -> None:
    answer = client.audio.transcriptions.create(file=data / "austen-0870.wav", model=model)
    assert words_wrong(references["austen-0870.wav"], answer.text) < 0.15
    assert answer.usage is not None
    assert answer.usage.type == "duration"
    assert answer.usage.seconds == pytest.approx(seconds_of(data / "austen-0870.wav"), abs=0.1)


def seconds_of(path: Path) -> float:
    return float(soundfile.info(path).duration)


def test_text(client: openai.OpenAI, data: Path, references: dict[str, str]) -> None:
    text = client.audio.transcriptions.create(file=data / JFK, model="whisper-1", response_format="text")
    assert isinstance(text, str)
    assert words_wrong(references[JFK], text) < 0.1


@pytest.mark.parametrize(("kind", "point"), [("srt", ","), ("vtt", ".")])
def test_subtitles(client: openai.OpenAI, data: Path, references: dict[str, str], kind: str, point: str) -> None:
    body = client.audio.transcriptions.create(file=data / JFK, model="whisper-1", response_format=kind)  # type: ignore[call-overload]
    stamp = r"(\d\d):(\d\d):(\d\d)" + re.escape(point) + r"(\d{3})"
    spans = re.findall(f"{stamp} --> {stamp}", body)
    assert spans
    assert body.startswith("WEBVTT") is (kind == "vtt")
    moments = [sum(int(part) * unit for part, unit in zip(span[at : at + 4], (3600, 60, 1, 0.001), strict=True))
               for span in spans for at in (0, 4)]  # fmt: skip
    assert moments == sorted(moments)
    assert moments[-1] <= seconds_of(data / JFK) + 0.5
    text = " ".join(line for line in body.splitlines() if re.search("[a-z]", line))
    assert words_wrong(references[JFK], text) < 0.1
    assert max(map(len, body.splitlines())) <= 60


def test_verbose_json_with_words_and_segments(client: openai.OpenAI, data: Path, references: dict[str, str]) -> None:
    answer = client.audio.transcriptions.create(
        file=data / JFK,
        model="whisper-1",
        response_format="verbose_json",
        timestamp_granularities=["word", "segment"],
        language="en",
        prompt="A speech of President Kennedy.",
        temperature=0,
    )
    assert answer.language == "english"
    assert answer.duration == pytest.approx(seconds_of(data / JFK), abs=0.1)
    assert words_wrong(references[JFK], answer.text) < 0.1
    assert answer.segments
    assert answer.words
    assert [segment.id for segment in answer.segments] == list(range(len(answer.segments)))
    assert "".join(segment.text for segment in answer.segments).split() == answer.text.split()
    for segment in answer.segments:
        assert 0 <= segment.start < segment.end <= answer.duration + 0.5
        assert segment.tokens
        assert -5 < segment.avg_logprob <= 0
        assert 0 <= segment.no_speech_prob <= 1
        assert math.isfinite(segment.compression_ratio)
    starts = [word.start for word in answer.words]
    assert starts == sorted(starts)
    assert "".join(word.word for word in answer.words) == answer.text.replace(" ", "")


@pytest.mark.parametrize(("asked", "words", "segments"), [(["word"], True, False), (["segment"], False, True)])
async def test_granularities_choose_what_is_there(
    http: ClientSession, data: Path, asked: list[str], words: bool, segments: bool
) -> None:
    form = [("response_format", "verbose_json"), *(("timestamp_granularities[]", value) for value in asked)]
    answer = await post(http, *form, ("file", (data / "austen-0880.wav").read_bytes()))
    assert ("words" in answer.json, "segments" in answer.json) == (words, segments)


def test_log_probabilities(client: openai.OpenAI, data: Path) -> None:
    answer = client.audio.transcriptions.create(
        file=data / "austen-0880.wav", model="gpt-4o-transcribe", include=["logprobs"]
    )
    assert answer.logprobs
    spelled = b"".join(bytes(int(value) for value in entry.bytes or ()) for entry in answer.logprobs)
    assert spelled.decode().strip() == answer.text
    assert all(entry.logprob is not None and entry.logprob <= 0 for entry in answer.logprobs)


def test_streaming(client: openai.OpenAI, data: Path, references: dict[str, str]) -> None:
    events = list(
        client.audio.transcriptions.create(
            file=data / JFK, model="gpt-4o-transcribe", stream=True, include=["logprobs"]
        )
    )
    assert [event.type for event in events[:-1]] == ["transcript.text.delta"] * (len(events) - 1)
    done = events[-1]
    assert done.type == "transcript.text.done"
    assert "".join(event.delta for event in events[:-1]) == done.text  # type: ignore[union-attr]
    assert words_wrong(references[JFK], done.text) < 0.1
    assert done.logprobs


async def test_the_asynchronous_client_streams_too(service: str, data: Path, references: dict[str, str]) -> None:
    async with openai.AsyncOpenAI(base_url=f"{service}/v1", api_key="not needed", max_retries=0) as client:
        stream = await client.audio.transcriptions.create(file=data / "austen-0880.wav", model="whisper-1", stream=True)
        kinds = [event.type async for event in stream]
    assert kinds[-1] == "transcript.text.done"


async def test_silence_has_no_words(http: ClientSession) -> None:
    file = io.BytesIO()
    soundfile.write(file, np.zeros(3 * 16_000), 16_000, format="WAV")
    silence = ("file", file.getvalue())
    assert (await post(http, silence)).json["text"] == ""
    verbose = (await post(http, silence, ("response_format", "verbose_json"))).json
    assert (verbose["text"], verbose["segments"], verbose["duration"]) == ("", [], 3.0)
    events = (await post(http, silence, ("stream", "true"))).text
    assert json.loads(events.strip().removeprefix("data: ")) == {"type": "transcript.text.done", "text": ""}


async def test_fields_may_come_after_the_file(http: ClientSession, data: Path) -> None:
    parts: list[tuple[str, str | bytes]] = [
        ("file", (data / "austen-0880.wav").read_bytes()),
        ("response_format", "text"),
        ("model", "whisper-1"),
    ]
    for order in (parts, parts[::-1]):
        answer = await post(http, *order)
        assert answer.content_type == "text/plain"
        assert "young man" in answer.text


@pytest.mark.parametrize(
    ("form", "param"),
    [
        ([("response_format", "docx")], "response_format"),
        ([("response_format", "diarized_json")], "response_format"),
        ([("temperature", "warm")], "temperature"),
        ([("temperature", "1.5")], "temperature"),
        ([("temperature", "nan")], "temperature"),
        ([("language", "klingon")], "language"),
        ([("language", "de")], "language"),
        ([("languages[]", "en"), ("languages[]", "fr")], "languages"),
        ([("stream", "maybe")], "stream"),
        ([("stream", "true"), ("response_format", "srt")], "stream"),
        ([("timestamp_granularities[]", "word")], "timestamp_granularities"),
        ([("timestamp_granularities[]", "syllable"), ("response_format", "verbose_json")], "timestamp_granularities"),
        ([("include[]", "everything")], "include"),
        ([("include[]", "logprobs"), ("response_format", "text")], "include"),
        ([("chunking_strategy", '{"type": "server_vad"}')], "chunking_strategy"),
        ([("model", "tiny.en"), ("model", "tiny.en")], "model"),
        ([("colour", "blue")], "colour"),
    ],
)
async def test_a_wrong_field_is_named(http: ClientSession, data: Path, form: list[tuple[str, str]], param: str) -> None:
    answer = await post(http, *form, ("file", (data / "austen-0880.wav").read_bytes()))
    error = answer.json["error"]
    assert (answer.status, error["type"], error["param"]) == (400, "invalid_request_error", param)


def test_what_is_no_sound_is_refused(client: openai.OpenAI) -> None:
    for content in (b"This is a text, not a recording. " * 100, b"RIFF\xff\xff\xff\xffWAVEfmt ", b"OggS" + bytes(500)):
        with pytest.raises(openai.BadRequestError) as caught:
            client.audio.transcriptions.create(file=("talk.wav", content), model="whisper-1")
        assert caught.value.param == "file"


def test_an_unknown_model_is_not_found(client: openai.OpenAI, data: Path) -> None:
    with pytest.raises(openai.NotFoundError) as caught:
        client.audio.transcriptions.create(file=data / "austen-0880.wav", model="no-such-model")
    assert (caught.value.code, caught.value.param) == ("model_not_found", "model")


@pytest.mark.parametrize(
    ("headers", "content", "param"),
    [
        ({"Content-Type": "application/json"}, b"{}", None),
        ({"Content-Type": "multipart/form-data"}, b"x", None),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"no boundary here", None),
        ({"Content-Type": "multipart/form-data; boundary=x"}, b"--x\r\n\r\nno name\r\n--x--\r\n", None),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\n\xff\xfe\r\n--x--\r\n',
            "model",
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n\r\n--x--\r\n',
            "file",
        ),
        (
            {"Content-Type": "multipart/form-data; boundary=x"},
            b'--x\r\nContent-Disposition: form-data; name="model"\r\n\r\ntiny.en\r\n--x--\r\n',
            "file",
        ),
    ],
)
async def test_a_malformed_form_is_refused(
    http: ClientSession, headers: dict[str, str], content: bytes, param: str | None
) -> None:
    answer = await post(http, headers=headers, data=content)
    assert (answer.status, answer.json["error"]["param"]) == (400, param)


async def test_a_field_without_end_is_refused(http: ClientSession, data: Path) -> None:
    answer = await post(http, ("prompt", "word " * 20_000), ("file", (data / "austen-0880.wav").read_bytes()))
    assert (answer.status, answer.json["error"]["param"]) == (413, "prompt")
