"""The lane's dataclasses as JSON text and back, checked on the way in."""

from __future__ import annotations

from collections.abc import Hashable
from functools import cache
from typing import Any, TypeVar, cast

from pydantic import TypeAdapter
from pydantic_core import to_json

T = TypeVar("T")


@cache
def _adapters(kind: Hashable) -> TypeAdapter[Any]:
    return TypeAdapter(cast(Any, kind))


def _adapter(kind: Any) -> TypeAdapter[Any]:
    return _adapters(kind)


def dump(value: Any) -> str:
    """JSON of a dataclass of this package; the same value gives the same text. What is not finite is a string there."""
    return to_json(value, inf_nan_mode="strings").decode()


def load(kind: type[T], text: str | bytes) -> T:
    """The value that `dump` was given. Raises ValueError on anything else."""
    value: T = _adapter(kind).validate_json(text)
    return value
