"""JSON Schema of the types that the handlers themselves use, gathered into the components of a document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from pydantic import TypeAdapter

Json = dict[str, Any]
Mode = Literal["validation", "serialization"]
_REF = "#/components/schemas/"


@dataclass(frozen=True, eq=False)
class Shape:
    """Stands for the schema of `kind` (a pydantic model, dataclass or TypedDict) until the document is put together.

    `changes` are laid over the schemas of its properties: what they mean, and what only the running service knows; None
    takes a keyword away.
    `nullable`: null in a property that may be left out means that it was. `rules` are laid over the whole: what holds
    between its properties. `mode` "serialization" is what is answered.
    """

    kind: Any
    mode: Mode = "validation"
    changes: Mapping[str, Json] = field(default_factory=dict)
    nullable: bool = False
    rules: Mapping[str, Any] = field(default_factory=dict)


def answered(kind: Any) -> Shape:
    """What a handler answers with."""
    return Shape(kind, "serialization")


class Components:
    """The schemas that a document's shapes refer to."""

    def __init__(self, shapes: Sequence[Shape]) -> None:
        adapters = {(shape.kind, shape.mode): TypeAdapter(shape.kind) for shape in shapes}
        inputs = [(kind, mode, adapter) for (kind, mode), adapter in adapters.items()]
        found, definitions = TypeAdapter.json_schemas(inputs, ref_template=f"{_REF}{{model}}")
        self._found = _shorter(found)
        self.schemas: Json = dict(sorted(_shorter(definitions.get("$defs", {})).items()))
        for shape in shapes:
            self._change(shape)

    def of(self, shape: Shape) -> Json:
        """The schema that stands for the shape: a reference."""
        return dict(self._found[shape.kind, shape.mode])

    def _change(self, shape: Shape) -> None:
        if not (shape.changes or shape.nullable or shape.rules):
            return
        schema = self.schemas[self.of(shape)["$ref"].removeprefix(_REF)]
        schema |= shape.rules
        for name, change in shape.changes.items():
            schema["properties"][name] = changed(schema["properties"][name], resolved(change, self))
        if shape.nullable:
            required = schema.get("required", ())
            for name in schema["properties"]:
                if name not in required:
                    schema["properties"][name] = nullable(schema["properties"][name])


def _shorter(tree: Any) -> Any:
    """Two types of one name are told apart by their modules; without those that all have."""
    if isinstance(tree, Mapping):
        return {_short(name) if isinstance(name, str) else name: _shorter(part) for name, part in tree.items()}
    if isinstance(tree, list):
        return [_shorter(part) for part in tree]
    return _short(tree) if isinstance(tree, str) and tree.startswith(_REF) else tree


def _short(name: str) -> str:
    return name.replace("gateway__", "").replace("__", ".")


def changed(schema: Json, change: Json) -> Json:
    """The schema with other keywords laid over it; None takes one away."""
    return {keyword: value for keyword, value in (schema | change).items() if value is not None}


def nullable(schema: Json) -> Json:
    """The same, or null."""
    if any(option.get("type") == "null" for option in schema.get("anyOf", ())):
        return schema
    about: Json = {name: schema[name] for name in ("title", "description", "default") if name in schema}
    return {"anyOf": [{name: value for name, value in schema.items() if name not in about}, {"type": "null"}], **about}


def shapes_in(tree: Any) -> list[Shape]:
    """Every shape in a tree of dicts and lists."""
    if isinstance(tree, Shape):
        return [tree, *shapes_in(tree.changes)]
    inner = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list | tuple) else ()
    return [shape for part in inner for shape in shapes_in(part)]


def resolved(tree: Any, components: Components) -> Any:
    """The tree with the schema in the place of every shape."""
    if isinstance(tree, Shape):
        return components.of(tree)
    if isinstance(tree, Mapping):
        return {name: resolved(part, components) for name, part in tree.items()}
    if isinstance(tree, list | tuple):
        return [resolved(part, components) for part in tree]
    return tree
