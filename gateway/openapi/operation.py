"""What a room says of one of its routes, and the pieces that such a description is made of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, TypeAdapter

from gateway.openapi.errors import OPENAI, Wire
from gateway.openapi.shapes import Json, Shape, changed

JSON = "application/json"


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One method of one route. `path` is as the router has it, {name} for what varies.

    `answers` are those to a request that is right; `fails` the statuses of the errors that it may meet beside those
    that every route has, in the form of `wire`. `curl` is what follows `curl URL` in the example, `at` the path there
    when it differs.
    """

    method: str
    path: str
    id: str
    tag: str
    summary: str
    description: str = ""
    parameters: Sequence[Json] = ()
    body: Json | None = None
    answers: Mapping[int, Json]
    fails: Sequence[int] = ()
    wire: Wire = OPENAI
    curl: str = ""
    at: str = ""


@dataclass(frozen=True, kw_only=True)
class Socket:
    """A route that becomes a WebSocket, which OpenAPI has no words for. `guide` is the file of docs/ that has them."""

    path: str
    name: str
    summary: str
    guide: str
    subprotocols: Sequence[str] = ()
    parameters: Sequence[Json] = ()


@dataclass(frozen=True, kw_only=True)
class Room:
    """What a fragment of the document holds: one group of routes. `scope` is told by the path of each."""

    tag: str
    about: str
    operations: Sequence[Operation] = ()
    sockets: Sequence[Socket] = field(default=())


def size(count: int) -> str:
    """Bytes, as people say it."""
    for unit, name in ((2**30, "GiB"), (2**20, "MiB"), (2**10, "KiB")):
        if count % unit == 0:
            return f"{count // unit} {name}"
    return f"{count} bytes"


def answer(description: str, schema: Any = None, media: str = JSON, headers: Json | None = None) -> Json:
    """A response; without a schema it has no body."""
    found: Json = {"description": description}
    if headers:
        found["headers"] = headers
    if schema is not None:
        found["content"] = {media: {"schema": schema}}
    return found


def header(description: str, *, required: bool = True, **schema: Any) -> Json:
    """A header of a response; text unless the schema says otherwise."""
    return {"description": description, "required": required, "schema": {"type": "string"} | schema}


def body(schema: Any, media: str = JSON, description: str = "", *, required: bool = True, **more: Any) -> Json:
    """A request's body."""
    found: Json = {"content": {media: {"schema": schema, **more}}, "required": required}
    return found | ({"description": description} if description else {})


def in_path(name: str, description: str, **schema: Any) -> Json:
    """A part of the path."""
    return {
        "name": name, "in": "path", "required": True, "description": description, "schema": {"type": "string"} | schema
    }  # fmt: skip


def in_query(name: str, description: str, **schema: Any) -> Json:
    """A parameter of the query that may be left out; an empty value is none."""
    return {
        "name": name, "in": "query", "description": description, "allowEmptyValue": True,
        "schema": {"type": "string"} | schema,
    }  # fmt: skip


def in_header(name: str, description: str, *, required: bool = False, **schema: Any) -> Json:
    """A header of the request."""
    return {
        "name": name, "in": "header", "required": required, "description": description,
        "schema": {"type": "string"} | schema,
    }  # fmt: skip


def query_of(model: type[BaseModel], about: Mapping[str, str], changes: Mapping[str, Json] | None = None) -> list[Json]:
    """The fields of a model that reads a query, those that `about` says something of."""
    properties = TypeAdapter(model).json_schema()["properties"]
    found = []
    for name, description in about.items():
        schema = changed(plain(properties[name]), (changes or {}).get(name, {}))
        found.append({"name": name, "in": "query", "description": description, "schema": schema})
    return found


def plain(schema: Json) -> Json:
    """Without null, which a query cannot hold, an empty default, and the title, which is the name once more."""
    options = [option for option in schema.get("anyOf", ()) if option.get("type") != "null"]
    if len(options) == 1:
        schema = {name: value for name, value in schema.items() if name != "anyOf"} | options[0]
    return {name: value for name, value in schema.items() if name != "title" and value not in (None, "", [])}


def described(
    kind: type[Any],
    about: Mapping[str, str],
    changes: Mapping[str, Json] | None = None,
    *,
    nullable: bool = False,
    rules: Mapping[str, Any] | None = None,
) -> Shape:
    """The shape of a body, with what its fields mean, and `rules` between them. `nullable`: null in an optional one
    stands for nothing."""
    merged = {name: {"description": text} for name, text in about.items()}
    for name, change in (changes or {}).items():
        merged[name] = merged.get(name, {}) | change
    return Shape(kind, changes=merged, nullable=nullable, rules=rules or {})
