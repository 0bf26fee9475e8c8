"""Fields of events, checked: every refusal names the field and what it can be."""

from __future__ import annotations

from typing import Any

from gateway.speak.fields import FieldInvalid, whole_text


def text(data: dict[str, Any], name: str = "text") -> str:
    """A field that has to be there. Halves of surrogate pairs are made whole. Raises FieldInvalid."""
    value = data.get(name)
    if value is None:
        raise FieldInvalid(f"{name} is missing.", code="missing_required_parameter", param=name)
    if not isinstance(value, str):
        raise FieldInvalid(f"{name} is not a string.", code="invalid_type", param=name)
    return whole_text(value)


def optional_text(data: dict[str, Any], name: str) -> str | None:
    """A field that may be missing or null. Raises FieldInvalid."""
    return None if data.get(name) is None else text(data, name)


def whole_number(data: dict[str, Any], name: str) -> int:
    """A whole number of at most 9 digits that has to be there. Raises FieldInvalid."""
    value = data.get(name)
    if type(value) is not int or abs(value) >= 10**9:
        shown = str(value)[:60] if isinstance(value, str | int | float | None) else f"of type {type(value).__name__}"
        raise FieldInvalid(f"{name} is {shown} but has to be a whole number.", code="invalid_type", param=name)
    return value


def nested(data: dict[str, Any], name: str) -> dict[str, Any]:
    """An object that may be missing or null. Raises FieldInvalid."""
    value = data.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise FieldInvalid(f"{name} is not an object.", code="invalid_type", param=name)
    return value
