"""The document against the service that publishes it: every route is in it, and answers are as it says."""

from __future__ import annotations

import copy
import json
import re
import shutil
import subprocess
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiohttp import hdrs
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from gateway.app import build_app
from gateway.openapi.document import document
from gateway.openapi.here import Here
from gateway.settings import load_settings
from gateway.state import SERVICE
from tests.conftest import RunningService

NOT_DESCRIBED = {
    ("GET", "/static"): "files of the pages",
    ("GET", "/v1/realtime"): "a socket",
    ("GET", "/v1/speak"): "a socket",
    ("GET", "/v1/listen"): "a socket",
    ("GET", "/vosk"): "a socket",
    ("GET", "/v1/text-to-speech/{voice_id}/stream-input"): "a socket",
    ("GET", "/v1/text-to-speech/{voice_id}/multi-stream-input"): "a socket",
}


@pytest.fixture(scope="module")
def published(service: str) -> dict[str, Any]:
    with urllib.request.urlopen(f"{service}/openapi.json") as answer:
        found: dict[str, Any] = json.load(answer)
    return found


@pytest.fixture(scope="module")
def http(service: str) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=service, timeout=60) as client:
        yield client


def test_it_is_a_valid_document(published: dict[str, Any]) -> None:
    validate(published)
    ids = [operation["operationId"] for path in published["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))


def test_every_route_is_described_and_no_other() -> None:
    app = build_app(load_settings())
    served = set()
    for route in app.router.routes():
        assert route.resource is not None
        # aiohttp adds HEAD to every GET by itself.
        if route.method != hdrs.METH_HEAD or "uploads" in route.resource.canonical:
            served.add((route.method, route.resource.canonical))
    found = document(Here.of(app[SERVICE]))
    described = {(method.upper(), path) for path, item in found["paths"].items() for method in item}
    assert served - described == set(NOT_DESCRIBED), "describe them in a file of gateway/openapi/rooms"
    assert described - served == set()
    sockets = {("GET", socket["path"]) for socket in found["x-websockets"]}
    assert sockets == {route for route, reason in NOT_DESCRIBED.items() if reason == "a socket"}


def test_keys_are_asked_for_where_they_are_needed() -> None:
    app = build_app(load_settings(api_keys="one"))
    found = document(Here.of(app[SERVICE]))
    assert set(found["components"]["securitySchemes"]) == {"bearer", "header"}
    open_to_all = {path for path, item in found["paths"].items() for operation in item.values() if not operation["security"]}
    assert open_to_all == {
        "/", "/jobs", "/voice", "/status", "/docs", "/docs/{guide}", "/openapi.json", "/healthz", "/readyz",
    }  # fmt: skip
    speech = found["paths"]["/v1/audio/speech"]["post"]
    assert {"bearer": ["speech"]} in speech["security"]
    assert {"401", "429"} <= set(speech["responses"])
    assert '-H "Authorization: Bearer $KEY"' in speech["x-codeSamples"][0]["source"]
    without = document(Here.of(build_app(load_settings())[SERVICE]))
    assert "security" not in without
    assert "401" not in without["paths"]["/v1/audio/speech"]["post"]["responses"]


def test_what_is_loaded_and_what_is_allowed_is_in_it(published: dict[str, Any]) -> None:
    form = published["paths"]["/v1/audio/transcriptions"]["post"]["requestBody"]["content"]["multipart/form-data"]
    fields = form["schema"]["properties"]
    assert {"tiny.en", "whisper-1"} <= set(fields["model"]["enum"])
    assert fields["language"]["enum"] == ["en"]
    speech = published["components"]["schemas"]["SpeechRequest"]
    assert speech["properties"]["input"]["maxLength"] == 4096
    assert "heart" in speech["properties"]["voice"]["anyOf"][0]["enum"]
    # Before the models are loaded there is nothing to name.
    early = document(Here(load_settings(), keys=False))
    validate(early)
    assert "enum" not in early["components"]["schemas"]["SpeechRequest"]["properties"]["model"]


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
    file = (data / "austen-0870.wav").read_bytes()
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
    answer = http.post(f"/v1/listen?{query}", content=(data / "austen-0870.wav").read_bytes())
    check(published, "/v1/listen", "post", answer)


@pytest.mark.skipif(shutil.which("curl") is None, reason="needs curl")
def test_the_examples_work_as_they_stand(
    published: dict[str, Any], running_service: RunningService, data: Path, tmp_path: Path
) -> None:
    """All of them, in the order in which one thing follows from another: a job is made before it is looked at."""
    for name in ("talk.wav", "talk.mp3"):
        shutil.copy(data / "austen-0870.wav", tmp_path / name)
    samples = {
        operation["operationId"]: operation["x-codeSamples"][0]["source"]
        for item in published["paths"].values()
        for operation in item.values()
    }
    last = ["cancelJob", "retryJob", "deleteJob", "uploadOptionsOfOne", "uploadState", "continueUpload", "overrideUpload"]
    once, job, upload = ["watchJobs", "deleteUpload"], "", ""
    order = ["createJob", "createUpload", *(name for name in samples if name not in (*last, *once)), *last]
    may = {"getJobResult": ("200", "409"), "cancelJob": ("200", "409"), "retryJob": ("200", "409")}
    for name in dict.fromkeys(order):
        source = samples[name].replace("http://127.0.0.1:8700", running_service.url)
        source = source.replace("Upload-Length: 1000", f"Upload-Length: {(tmp_path / 'talk.mp3').stat().st_size}")
        command = f"{re.sub('JOB', job, source)} -sS -w ' %{{http_code}}'".replace("UPLOAD", upload)
        ran = subprocess.run(command, shell=True, cwd=tmp_path, capture_output=True, timeout=60)
        said, _, status = ran.stdout.decode("utf-8", "replace").rpartition(" ")
        assert ran.returncode == 0, (command, ran.stderr)
        assert status in may.get(name, ("200", "201", "204")), (command, ran.stdout[:2000])
        if name == "createJob":
            job = json.loads(said)["id"]
        elif name == "createUpload":
            upload = re.search(r"uploads/([0-9a-f]{32})", said)[1]  # type: ignore[index]
