"""The OpenAPI document of a service, put together from what its rooms say of their routes."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import Any

from gateway.auth import is_open
from gateway.keys.scopes import scope_of
from gateway.openapi.errors import errors
from gateway.openapi.guides import GUIDES
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, Socket
from gateway.openapi.rooms import ROOMS
from gateway.openapi.shapes import Components, Json, resolved, shapes_in

OPENAPI = "3.1.0"
EXAMPLE_URL = "http://127.0.0.1:8700"
"""Stands in examples for the address of the service; the page puts its own there."""

ABOUT = """Speech to text while it is being spoken, and text to speech while it is being written.

A recording becomes text with `POST /v1/audio/transcriptions`, a long one as a job (`/v1/batch`). A text becomes sound \
with `POST /v1/audio/speech`. What is live goes over WebSockets, which this kind of document cannot describe: \
`x-websockets` lists them, with the guide to each. Clients of OpenAI, ElevenLabs and Deepgram find their own routes \
and their own form of errors."""

KEYS = {
    "bearer": {"type": "http", "scheme": "bearer", "description": "`Authorization: Bearer KEY`, or `Token KEY`."},
    "header": {"type": "apiKey", "in": "header", "name": "xi-api-key", "description": "As ElevenLabs' clients do."},
}


def document(here: Here) -> Json:
    """The whole document. Takes some 100 ms: not for the event loop."""
    rooms = [room(here) for room in ROOMS]
    paths: Json = {}
    for room in rooms:
        for operation in room.operations:
            paths.setdefault(operation.path, {})[operation.method.lower()] = _described(operation, here)
    sockets = [_socket(socket, room, here) for room in rooms for socket in room.sockets]
    components = Components(shapes_in([paths, sockets]))
    found: Json = {
        "openapi": OPENAPI,
        "info": {"title": "Speechlane", "version": _version(), "description": ABOUT, "license": {"name": "Apache-2.0"}},
        "servers": [{"url": "/", "description": "This service."}],
        "tags": [{"name": room.tag, "description": room.about} for room in rooms],
        "paths": resolved(paths, components),
        "x-websockets": resolved(sockets, components),
        "components": {"schemas": components.schemas},
    }
    if here.keys:
        found["components"]["securitySchemes"] = KEYS
        found["security"] = [{name: []} for name in KEYS]
    return found


def _described(operation: Operation, here: Here) -> Json:
    scope = scope_of(operation.path) if not is_open(operation.path) else None
    keys = here.keys and not is_open(operation.path)
    text = operation.description
    if keys and scope is not None:
        text = f"{text}\n\nNeeds a key with the scope `{scope}`.".strip()
    found: Json = {"operationId": operation.id, "tags": [operation.tag], "summary": operation.summary}
    if text:
        found["description"] = text
    if operation.parameters:
        found["parameters"] = list(operation.parameters)
    if operation.body is not None:
        found["requestBody"] = operation.body
    answers = {str(status): response for status, response in operation.answers.items()}
    found["responses"] = errors(operation.wire, operation.fails, keys=keys) | answers
    if here.keys:
        found["security"] = [{name: [scope] if scope else []} for name in KEYS] if keys else []
    found["x-codeSamples"] = [{"lang": "sh", "label": "curl", "source": _curl(operation, keys)}]
    return found


def _curl(operation: Operation, keys: bool) -> str:
    parts = [f"curl {EXAMPLE_URL}{operation.at or operation.path}"]
    if keys:
        parts.append('-H "Authorization: Bearer $KEY"')
    if operation.curl:
        parts.append(operation.curl)
    return " ".join(parts)


def _socket(socket: Socket, room: Room, here: Here) -> Json:
    found: dict[str, Any] = {
        "path": socket.path,
        "name": socket.name,
        "tag": room.tag,
        "summary": socket.summary,
        "subprotocols": list(socket.subprotocols),
        "parameters": list(socket.parameters),
        "guide": socket.guide,
    }
    if socket.guide in GUIDES:
        found["externalDocs"] = {"url": f"docs/{socket.guide}", "description": "What is spoken on it."}
    scope = scope_of(socket.path)
    return found | ({"scope": scope} if here.keys and scope else {})


def _version() -> str:
    try:
        return version("speechlane")
    except PackageNotFoundError:
        return "0"
