"""Text fields of a request, taken one by one and checked: every refusal names its field and what it can be."""

from __future__ import annotations

import math

from gateway.languages import language_code
from workers.errors import InputInvalid

Fields = dict[str, list[str]]
"""Values by name; what has been taken is gone from it."""


def one(fields: Fields, name: str) -> str | None:
    """The only value of a field; None when it was not sent."""
    values = fields.pop(name, [])
    if len(values) > 1:
        raise InputInvalid(f"{name} was sent {len(values)} times; send it once.", param=name)
    return values[0] if values else None


def choice(fields: Fields, name: str, allowed: tuple[str, ...], default: str) -> str:
    """One of the allowed values."""
    value = one(fields, name) or default
    if value not in allowed:
        raise InputInvalid(f"{name} is {value[:60]!r} but can be {', '.join(allowed)}.", param=name)
    return value


def choices(fields: Fields, name: str, allowed: tuple[str, ...]) -> frozenset[str]:
    """Any of the allowed values."""
    values = fields.pop(name, [])
    for value in values:
        if value not in allowed:
            raise InputInvalid(f"{name} holds {value[:60]!r} but can hold {', '.join(allowed)}.", param=name)
    return frozenset(values)


def number(fields: Fields, name: str, least: float, most: float, default: float) -> float:
    """A finite number in the range."""
    text = one(fields, name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise InputInvalid(f"{name} is {text[:60]!r} but must be a number from {least:g} to {most:g}.", param=name)
    return value


def language(fields: Fields) -> str | None:
    """The language's code, or None to have it found; OpenAI's clients call the field language or languages."""
    listed = fields.pop("languages", [])
    if len(listed) > 1:
        raise InputInvalid("languages takes one language; leave it out to have it detected.", param="languages")
    name = "languages" if listed else "language"
    given = listed[0] if listed else one(fields, "language")
    if not given:
        return None
    code = language_code(given)
    if code is None:
        raise InputInvalid(f"{name} is {given[:60]!r}; give an ISO-639-1 code such as en, de or fr.", param=name)
    return code


def nothing_else(fields: Fields) -> None:
    """Raises `InputInvalid` for a field that nobody has taken."""
    if fields:
        name = next(iter(fields))
        raise InputInvalid(f"There is no field {name[:60]} here; leave it out.", param=name)
