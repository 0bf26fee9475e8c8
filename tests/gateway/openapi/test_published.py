"""The document against the service that publishes it: answers are as it says, examples work, fuzzers find nothing."""

from __future__ import annotations

import copy
import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from load.api_fuzz import Fuzzed, fuzz, fuzzed_service

VISION = ("/v1/chat/", "/v1/images/", "/v1/videos")
"""Routes of models that this service is without; the tests of their rooms hold their answers against the document."""


@pytest.fixture(scope="module")
def fuzzed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fuzzed]:
    """A service with keys and small limits, and its own place for everything that it writes."""
    with fuzzed_service(tmp_path_factory.mktemp("fuzzed")) as running:
        yield running


@pytest.fixture(scope="module")
def http(fuzzed: Fuzzed) -> Iterator[httpx.Client]:
    headers = {"Authorization": f"Bearer {fuzzed.running.key}"}
    with httpx.Client(base_url=fuzzed.running.url, timeout=60, headers=headers) as client:
        yield client


@pytest.fixture(scope="module")
def published(http: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = http.get("/openapi.json").json()
    return found


def test_what_is_loaded_is_in_it(published: dict[str, Any]) -> None:
    validate(published)
    form = published["paths"]["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]["multipart/form-data"]
    fields = form["schema"]["properties"]
    assert {"tiny.en", "whisper-1"} <= set(fields["model"]["enum"])
    assert fields["language"]["enum"] == ["en"]
    speech = published["components"]["schemas"]["SpeechRequest"]["properties"]
    assert speech["input"]["maxLength"] == 4096
    assert "heart" in speech["voice"]["anyOf"][0]["enum"]


def closed(schema: Any) -> Any:
    """The same schema, in which no object has fields that are not named."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: closed(part) for name, part in schema.items()}
    if "properties" in found and "anyOf" not in found:
        found.setdefault("additionalProperties", False)
    return found


def check(published: dict[str, Any], path: str, method: str, answer: httpx.Response) -> None:
    """The answer is as the document says, and has nothing besides."""
    operation = published["paths"][path][method]
    assert str(answer.status_code) in operation["responses"], answer.text
    response = operation["responses"][str(answer.status_code)]
    for name, header in response.get("headers", {}).items():
        assert name in answer.headers or not header.get("required"), name
    content = response.get("content")
    if content is None:
        assert answer.content == b""
        return
    media = answer.headers["Content-Type"].partition(";")[0]
    assert media in content
    if media == "application/json" and "schema" in content[media]:
        schema = {**closed(content[media]["schema"]), "components": closed(copy.deepcopy(published["components"]))}
        Draft202012Validator(schema).validate(answer.json())


TRANSCRIPTIONS = "/v1/audio/transcriptions"
FORMS: list[dict[str, Any]] = [
    {},
    {"include[]": "logprobs"},
    {"response_format": "verbose_json", "timestamp_granularities[]": ["segment", "word"]},
    {"response_format": "verbose_json"},
    {"response_format": "text"},
    {"response_format": "srt"},
    {"response_format": "vtt"},
    {"stream": "true"},
    {"model": "none"},
    {"language": "xx"},
]


@pytest.mark.parametrize("fields", FORMS, ids=lambda fields: "-".join(map(str, fields.values())) or "json")
def test_transcripts(published: dict[str, Any], http: httpx.Client, data: Path, fields: dict[str, Any]) -> None:
    file = (data / "austen-0880.wav").read_bytes()
    check(published, TRANSCRIPTIONS, "post", http.post(TRANSCRIPTIONS, files={"file": file}, data=fields))


VOICE = "/v1/text-to-speech/{voice_id}"
HELLO = {"model": "tts-1", "voice": "alloy", "input": "Hello."}
REQUESTS: list[tuple[str, str, dict[str, str], Any]] = [
    ("get", "/healthz", {}, None),
    ("get", "/readyz", {}, None),
    ("get", "/metrics", {}, None),
    ("get", "/openapi.json", {}, None),
    ("get", "/", {}, None),
    ("get", "/docs", {}, None),
    ("get", "/docs/{guide}", {"guide": "realtime.md"}, None),
    ("get", "/docs/{guide}", {"guide": "..%2Fpyproject.toml"}, None),
    ("get", "/v1/models", {}, None),
    ("get", "/v1/models/{model}", {"model": "whisper-1"}, None),
    ("get", "/v1/models/{model}", {"model": "none"}, None),
    ("get", "/v1/voices", {}, None),
    ("get", "/v1/voices/{voice_id}", {"voice_id": "heart"}, None),
    ("get", "/v1/voices/{voice_id}", {"voice_id": "none"}, None),
    ("get", "/v2/voices", {}, None),
    *(("post", "/v1/audio/speech", {}, {**HELLO, "response_format": name}) for name in ("mp3", "opus", "wav", "pcm")),
    ("post", "/v1/audio/speech", {}, {**HELLO, "stream_format": "sse"}),
    ("post", "/v1/audio/speech", {}, {**HELLO, "speed": 9}),
    ("post", "/v1/text/explain", {}, {"input": "It is 9:05 :-) `code`"}),
    ("post", "/v1/text/explain", {}, {"input": 5}),
    ("post", VOICE, {"voice_id": "heart"}, {"text": "Hello."}),
    ("post", VOICE, {"voice_id": "heart"}, {"text": ""}),
    ("post", VOICE, {"voice_id": "none"}, {"text": "Hello."}),
    ("post", f"{VOICE}/stream", {"voice_id": "heart"}, {"text": "Hello."}),
    ("post", f"{VOICE}/with-timestamps", {"voice_id": "heart"}, {"text": "Hello."}),
    ("post", f"{VOICE}/stream/with-timestamps", {"voice_id": "heart"}, {"text": "Hello."}),
    ("post", "/v1/realtime/client_secrets", {}, {}),
    ("post", "/v1/realtime/client_secrets", {}, {"session": {"type": "realtime"}}),
    ("post", "/v1/realtime/client_secrets", {}, {"session": {"type": "other"}}),
    ("get", "/v1/status", {}, None),
    ("post", "/v1/embeddings", {}, {"input": ["One.", "Two."]}),
    ("post", "/v1/embeddings", {}, {"input": "One.", "encoding_format": "base64"}),
    ("post", "/v1/embeddings", {}, {"input": []}),
    ("post", "/v1/rerank", {}, {"query": "One?", "documents": ["Two.", {"text": "One."}], "return_documents": True}),
    ("get", "/v1/collections", {}, None),
    ("get", "/v1/collections/{collection}", {"collection": "none"}, None),
    ("post", "/v1/collections", {}, {"name": "found", "fields": {"year": "number"}}),
    ("post", "/v1/collections", {}, {"name": "found"}),
    ("post", "/v1/collections/{collection}/documents", {"collection": "found"},
        {"documents": [{"id": "a", "text": "A house.", "year": 1}, {"id": "b"}]}),
    ("get", "/v1/collections/{collection}", {"collection": "found"}, None),
    ("post", "/v1/search", {}, {"collection": "found", "query": "home"}),
    ("post", "/v1/search", {}, {"collection": "found", "query": "house", "mode": "words"}),
    ("post", "/v1/collections/{collection}/documents/delete", {"collection": "found"}, {"documents": ["a"]}),
    ("delete", "/v1/collections/{collection}", {"collection": "found"}, None),
    ("get", "/v1/batch/jobs", {}, None),
    ("post", "/v1/batch/jobs", {}, {"upload": "none"}),
    ("options", "/v1/batch/uploads", {}, None),
]  # fmt: skip


@pytest.mark.parametrize(("method", "path", "parts", "body"), REQUESTS, ids=lambda value: str(value)[:40])
def test_answers(
    published: dict[str, Any], http: httpx.Client, method: str, path: str, parts: dict[str, str], body: Any
) -> None:
    more = {} if body is None else {"json": body}
    check(published, path, method, http.request(method.upper(), path.format(**parts), **more))


@pytest.mark.parametrize("query", ["", "smart_format=true&utterances=true", "multichannel=true", "model=other"])
def test_deepgram(published: dict[str, Any], http: httpx.Client, data: Path, query: str) -> None:
    answer = http.post(f"/v1/listen?{query}", content=(data / "austen-0880.wav").read_bytes())
    check(published, "/v1/listen", "post", answer)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_examples_work_as_they_stand(published: dict[str, Any], fuzzed: Fuzzed, data: Path, tmp_path: Path) -> None:
    """All of them, in the order in which one thing follows from another: a job is made before it is looked at."""
    for name in ("talk.wav", "talk.mp3"):
        shutil.copy(data / "austen-0880.wav", tmp_path / name)
    _page(tmp_path / "page.png")
    samples = {
        operation["operationId"]: operation["x-codeSamples"][0]["source"]
        for path, item in published["paths"].items()
        if not path.startswith(VISION)
        for operation in item.values()
    }
    first = ["createJob", "createUpload", "createCollection", "putDocuments"]
    last = [
        "cancelJob",
        "retryJob",
        "deleteJob",
        "continueUpload",
        "overrideUpload",
        "removeDocuments",
        "deleteCollection",
    ]
    left_out = ["watchJobs", "deleteUpload"]  # it has no end; the upload is gone already
    order = dict.fromkeys([*first, *(name for name in samples if name not in (*last, *left_out)), *last])
    too_early = {"getJobResult", "cancelJob", "retryJob", "searchTranscripts"}
    job = upload = ""
    for name in order:
        source = samples[name].replace("http://127.0.0.1:8700", fuzzed.running.url)
        source = source.replace("Upload-Length: 1000", f"Upload-Length: {(tmp_path / 'talk.mp3').stat().st_size}")
        command = f"{re.sub('JOB', job, source)} -sS -w ' %{{http_code}}'".replace("UPLOAD", upload)
        environment = {**os.environ, "KEY": str(fuzzed.running.key)}
        ran = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, timeout=60, env=environment)
        said, _, status = ran.stdout.decode("utf-8", "replace").rpartition(" ")
        assert ran.returncode == 0, (command, ran.stderr)
        assert status.startswith("2") or (name in too_early and status in ("404", "409")), (command, ran.stdout[:2000])
        if name == "createJob":
            job = json.loads(said)["id"]
        elif name == "createUpload":
            found = re.search(r"uploads/([0-9a-f]{32})", said)
            assert found is not None
            upload = found[1]


def _page(path: Path) -> None:
    from PIL import Image, ImageDraw

    picture = Image.new("L", (600, 120), 255)
    ImageDraw.Draw(picture).text((20, 40), "Mr. Woodhouse lives at Hartfield.", fill=0, font_size=30)
    picture.save(path)


@pytest.mark.long
@pytest.mark.timeout(180)
def test_fuzzers_find_nothing_and_leave_nothing(fuzzed: Fuzzed) -> None:
    """A little of what `python -m load.api_fuzz` does for as long as one likes."""
    verdict = fuzz(fuzzed, "--phases=examples,fuzzing", "--max-examples=2", "--seed=1", "--no-shrink")
    assert verdict.clean, f"{verdict.report}\nleft: {verdict.left}, failed: {verdict.failed}"
    assert verdict.requests > 100
