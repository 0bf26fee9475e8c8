"""Faults that fuzzing the API has found, as kinds."""

from __future__ import annotations

import json
import socket
import urllib.error
import urllib.request
from typing import Any
from urllib.parse import urlsplit

import pytest

from gateway.batch.job_request import json_fields
from gateway.elevenlabs.http import SpeechBody
from gateway.embeddings.request import items
from gateway.speak.fields import FieldInvalid, json_object
from gateway.speak.request import checked
from vision_text.ingest.document import Document, Part
from vision_text.ingest.pieces import Cutter
from workers.errors import InputInvalid


@pytest.mark.parametrize(
    "body",
    [
        {"repair": "false"},
        {"repair": 0},
        {"subtitle_line": "42"},
        {"subtitle_line": True},
        {"name": 7},
        {"name": ["talk"]},
        {"upload": {"id": "x"}},
        {"keywords": "Emma"},
        {"keywords": [1]},
        {"language": ["en"]},
    ],
    ids=str,
)
def test_a_value_of_another_type_is_not_taken_for_text(body: dict[str, Any]) -> None:
    (name,) = body
    with pytest.raises(InputInvalid) as refused:
        json_fields(body)
    assert refused.value.param == name


def test_values_of_the_right_type_are_what_a_form_would_have() -> None:
    body = {"repair": True, "subtitle_line": 42, "subtitle_gap": 0.5, "keywords": ["a", "b"], "prompt": None}
    assert json_fields(body) == {
        "repair": ["true"],
        "subtitle_line": ["42"],
        "subtitle_gap": ["0.5"],
        "keywords": ["a", "b"],
    }


def test_a_whole_number_may_be_written_with_a_point() -> None:
    found = json_object('{"seed": 183.0, "speed": 1.50, "far": 1e400, "long": 1e17, "least": -0.0}')
    assert [type(value) for value in found.values()] == [int, float, float, float, int]
    assert (found["seed"], found["speed"], found["least"]) == (183, 1.5, 0)


@pytest.mark.parametrize("image", ["Ä", "AA=", "data:image/png;base64,\udce4", "no base64"])
def test_a_picture_that_is_no_base64_is_refused_by_name(image: str) -> None:
    with pytest.raises(FieldInvalid) as refused:
        items([{"image": image}])
    assert refused.value.param == "input[0]"


def test_the_session_of_a_secret_is_looked_at_whole(service: str) -> None:
    body = json.dumps({"session": {"type": "realtime", "model": {}}}).encode()
    asked = urllib.request.Request(f"{service}/v1/realtime/client_secrets", body, {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    with refused.value as answer:
        assert json.load(answer)["error"]["param"] == "session.model"


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/v1/text-to-speech/heart?seed=0.2", {"text": "Hello.", "seed": 5}),
        ("/v1/batch/search", {}),
        ("/v1/batch/search", {"vector": None}),
    ],
)
def test_what_something_else_goes_before_is_looked_at_as_well(service: str, path: str, body: dict[str, Any]) -> None:
    asked = urllib.request.Request(f"{service}{path}", json.dumps(body).encode(), {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(asked)
    with refused.value as answer:
        assert answer.status in (400, 422)


def test_a_text_of_which_a_model_knows_no_character_is_refused() -> None:
    cutter = Cutter.of_model("all-MiniLM-L6-v2", 256)
    with pytest.raises(InputInvalid):
        cutter.cut(Document("one", (Part("\x89"),)))


@pytest.mark.parametrize(
    "body", [{"text": "Hello.", "seed": False}, {"text": "Hello.", "voice_settings": {"speed": "1"}}]
)
def test_numbers_in_json_are_numbers(body: dict[str, Any]) -> None:
    with pytest.raises(FieldInvalid):
        checked(SpeechBody, body)


@pytest.mark.parametrize(
    "head",
    [
        b"GET /" + b"x" * 9000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nNo colon\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: localhost\r\nContent-Length: -5\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n",
    ],
    ids=["long", "no header", "length", "tls"],
)
def test_what_is_no_request_is_told_as_other_errors_and_not_repeated(service: str, head: bytes) -> None:
    address = urlsplit(service)
    with socket.create_connection((str(address.hostname), int(address.port or 80)), timeout=20) as connection:
        connection.sendall(head)
        answer = b""
        while piece := connection.recv(65536):
            answer += piece
    status, _, body = answer.partition(b"\r\n\r\n")
    assert status.startswith((b"HTTP/1.1 400 ", b"HTTP/1.0 400 "))
    error = json.loads(body)["error"]
    assert (error["code"], error["type"]) == ("malformed_request", "invalid_request_error")
    assert len(body) < 300
    with urllib.request.urlopen(f"{service}/healthz") as alive:
        assert alive.status == 200
