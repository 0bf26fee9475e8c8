"""POST /v1/listen with the unmodified deepgram-sdk."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from deepgram import DeepgramClient
from deepgram.core.api_error import ApiError
from deepgram.environment import DeepgramClientEnvironment
from deepgram.errors import BadRequestError

from gateway.deepgram.grouping import paragraphs, utterances
from gateway.plain_words import plain_text, plain_word, whole_words
from speech.events import Word
from tests.gateway.hearing.conftest import pcm, stereo, wav
from tests.gateway.speak.conftest import Running, Server


def sdk(running: Running, key: str = "not needed") -> DeepgramClient:
    http, ws = running.http, f"ws://{running.address}"
    environment = DeepgramClientEnvironment(base=http, production=ws, agent=ws, agent_rest=http)
    return DeepgramClient(api_key=key, environment=environment)


@pytest.mark.parametrize("name", ["austen-0870.wav", "austen-0890.wav"])
def test_the_words_are_those_of_our_own_path(
    running: Running, data: Path, name: str, file_words: Callable[[bytes], str]
) -> None:
    listen = sdk(running).listen.v1.media
    answer = listen.transcribe_file(
        request=(data / name).read_bytes(), model="nova-3", smart_format=True, utterances=True
    )
    (channel,) = answer.results.channels
    (reading,) = channel.alternatives
    assert reading.transcript == file_words((data / name).read_bytes())
    assert answer.metadata.duration == pytest.approx(len(pcm(name)) / 32_000, abs=0.01)
    assert answer.metadata.channels == 1
    assert " ".join(u.transcript for u in answer.results.utterances) == reading.transcript
    assert reading.paragraphs.transcript.replace("\n\n", " ") == reading.transcript
    assert sum(p.num_words for p in reading.paragraphs.paragraphs) == len(reading.words)
    plain = listen.transcribe_file(request=(data / name).read_bytes()).results.channels[0].alternatives[0]
    assert plain.transcript == plain_text(reading.transcript)
    assert plain.paragraphs is None and all(0 <= word.confidence <= 1 for word in plain.words)


def test_channels_are_heard_apart_raw_and_in_a_container(running: Running, file_words: Callable[[bytes], str]) -> None:
    right = pcm("austen-0930.wav")
    left = pcm("austen-0880.wav").ljust(len(right), b"\0")
    both = stereo(left, right)
    raw = {"encoding": "linear16", "sample_rate": "16000", "channels": "2"}
    for sound, query in ((both, raw), (wav(both, 2), {})):
        answer = httpx.post(
            f"{running.http}/v1/listen",
            content=sound,
            params={"multichannel": "true", "punctuate": "true", "utterances": "true", **query},
            timeout=30,
        ).json()
        texts = [channel["alternatives"][0]["transcript"] for channel in answer["results"]["channels"]]
        assert texts == [file_words(wav(left)), file_words(wav(right))]
        assert {utterance["channel"] for utterance in answer["results"]["utterances"]} == {0, 1}
        assert answer["metadata"]["channels"] == 2


def test_no_url_is_opened(running: Running) -> None:
    with pytest.raises(BadRequestError) as refused:
        sdk(running).listen.v1.media.transcribe_url(url="http://127.0.0.1/secret.wav")
    assert "No URL is opened" in refused.value.body["err_msg"]
    assert refused.value.body["request_id"]


@pytest.mark.parametrize(
    ("body", "query", "status", "told"),
    [
        (b"", "", 400, "empty"),
        (b"no sound at all, by no means", "", 400, "not a sound file"),
        (b"ab", "summarize=v2", 400, "summarize"),
        (b"ab", "encoding=amr-nb", 400, "encoding"),
        (bytes(3_000_000), "encoding=mulaw&sample_rate=8000", 413, "longer"),
        (bytes(5_000_000), "", 413, "larger"),
    ],
)
def test_what_cannot_be_had_is_refused_in_their_form(
    server: Server, body: bytes, query: str, status: int, told: str
) -> None:
    running = server.serve(max_audio_seconds=60.0, max_upload_bytes=4_000_000)
    try:
        answer = httpx.post(f"{running.http}/v1/listen?{query}", content=body, timeout=30)
        assert answer.status_code == status
        assert told in answer.json()["err_msg"] and answer.json()["err_code"]
    finally:
        running.stop()


def test_a_key_is_asked_for_and_a_full_service_says_when_to_come_back(server: Server) -> None:
    running = server.serve(api_keys="the-key-0123456789abcdef", max_files=1)
    try:
        with pytest.raises(ApiError) as refused:
            sdk(running, "wrong").listen.v1.media.transcribe_file(request=b"ab")
        assert (refused.value.status_code, refused.value.body["err_code"]) == (401, "INVALID_AUTH")
        with running.service.file():
            answer = httpx.post(
                f"{running.http}/v1/listen", content=b"ab", headers={"Authorization": "Token the-key-0123456789abcdef"}
            )
        assert (answer.status_code, answer.json()["err_code"]) == (429, "TOO_MANY_REQUESTS")
        assert int(answer.headers["Retry-After"]) > 0
    finally:
        running.stop()


def test_words_are_grouped_by_their_pauses_and_their_punctuation() -> None:
    words = [
        Word(f" {text}", start, start + 0.4, 0.5)
        for text, start in (("Yes.", 0.0), ("I", 0.5), ("do.", 1.0), ("And", 4.0), ("you?", 4.5))
    ]
    found = utterances(words, 1, 0.8, formatted=True)
    assert [(u["transcript"], u["start"], u["end"], u["channel"]) for u in found] == [
        ("Yes. I do.", 0.0, 1.4, 1),
        ("And you?", 4.0, 4.9, 1),
    ]
    grouped = paragraphs(words)
    assert grouped["transcript"] == "Yes. I do.\n\nAnd you?"
    assert [sentence["text"] for sentence in grouped["paragraphs"][0]["sentences"]] == ["Yes.", "I do."]
    assert utterances([], 0, 0.8, formatted=True) == [] and paragraphs([])["transcript"] == ""


def test_plain_words_keep_what_belongs_to_them() -> None:
    assert [plain_word(text) for text in (" 'Well,", "don't", "50%", "$5.50.", "—", "Ill-disposed!")] == [
        "well",
        "don't",
        "50%",
        "$5.50",
        "",
        "ill-disposed",
    ]
    pieces = [Word(text, 0.0, 0.1, 1.0) for text in (" ill", "-disposed", ",", " o", "'clock", " $", "5", ".50")]
    assert [word.text for word in whole_words(pieces)] == [" ill-disposed,", " o'clock", " $5.50"]
    spaceless = [Word(text, 0.0, 0.1, 1.0) for text in ("你", "好，", "吗？")]
    assert plain_text("你好，吗？", spaceless) == "你好吗"
