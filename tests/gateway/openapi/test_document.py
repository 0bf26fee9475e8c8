"""The document by itself: every route is in it, it is valid, and it says what the service was told."""

from __future__ import annotations

from functools import cache
from typing import Any

from aiohttp import hdrs
from openapi_spec_validator import validate

from gateway.app import build_app
from gateway.openapi.document import document
from gateway.openapi.here import Here
from gateway.settings import load_settings
from gateway.state import SERVICE

SOCKET = "a socket"
NOT_DESCRIBED = {
    ("GET", "/static"): "files of the pages",
    ("GET", "/v1/realtime"): SOCKET,
    ("GET", "/v1/speak"): SOCKET,
    ("GET", "/v1/listen"): SOCKET,
    ("GET", "/vosk"): SOCKET,
    ("GET", "/v1/text-to-speech/{voice_id}/stream-input"): SOCKET,
    ("GET", "/v1/text-to-speech/{voice_id}/multi-stream-input"): SOCKET,
}
OPEN = {"/", "/jobs", "/voice", "/vision", "/status", "/docs", "/docs/{guide}", "/openapi.json", "/healthz", "/readyz"}


@cache
def described(**settings: Any) -> dict[str, Any]:
    """The document of a service with these settings, whose models are still loading."""
    return document(Here.of(build_app(load_settings(**settings))[SERVICE]))


def test_every_route_is_described_and_no_other() -> None:
    routes = set()
    for route in build_app(load_settings()).router.routes():
        assert route.resource is not None
        # aiohttp adds HEAD to every GET by itself.
        if route.method != hdrs.METH_HEAD or "uploads" in route.resource.canonical:
            routes.add((route.method, route.resource.canonical))
    found = described()
    known = {(method.upper(), path) for path, item in found["paths"].items() for method in item}
    assert routes - known == set(NOT_DESCRIBED), "describe them in a file of gateway/openapi/rooms"
    assert known - routes == set()
    sockets = {("GET", socket["path"]) for socket in found["x-websockets"]}
    assert sockets == {route for route, reason in NOT_DESCRIBED.items() if reason is SOCKET}


def test_it_is_valid_also_before_anything_is_loaded() -> None:
    found = described()
    validate(found)
    ids = [operation["operationId"] for path in found["paths"].values() for operation in path.values()]
    assert len(ids) == len(set(ids))
    assert "enum" not in found["components"]["schemas"]["SpeechRequest"]["properties"]["model"]


def test_keys_are_asked_for_where_they_are_needed() -> None:
    found = described(api_keys="one")
    validate(found)
    assert set(found["components"]["securitySchemes"]) == {"bearer", "header"}
    assert {path for path, item in found["paths"].items() for one in item.values() if not one["security"]} == OPEN
    speech = found["paths"]["/v1/audio/speech"]["post"]
    assert {"bearer": ["speech"]} in speech["security"]
    assert {"401", "429"} <= set(speech["responses"])
    assert '-H "Authorization: Bearer $KEY"' in speech["x-codeSamples"][0]["source"]
    without = described()
    assert "security" not in without
    assert "401" not in without["paths"]["/v1/audio/speech"]["post"]["responses"]


def test_limits_are_those_of_the_settings() -> None:
    assert (
        "up to 12345 bytes"
        in described(max_upload_bytes=12345)["paths"]["/v1/audio/transcriptions"]["post"]["description"]
    )
    lengths = described(batch_max_file_bytes=777)["paths"]["/v1/batch/uploads"]["post"]["parameters"][1]["schema"]
    assert lengths["maximum"] == 777

    def fields(**settings: Any) -> set[str]:
        content = described(**settings)["paths"]["/v1/batch/jobs"]["post"]["requestBody"]["content"]
        return set(content["multipart/form-data"]["schema"]["properties"])

    hooks = {"webhook_hosts": "hooks.example.com", "webhook_secret": "0123456789abcdef"}
    assert fields(**hooks) - fields() == {"webhook"}
