"""From JSON to checked fields: every refusal names the field and what it can be. Any text at all is taken."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Any

from pydantic_core import ErrorDetails

from workers.errors import InputInvalid

_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")
_SURROGATE = re.compile(r"[\ud800-\udfff]")
_FIRST_HALF, _LAST_FIRST_HALF = "\ud800", "\udbff"
_KEEP = "surrogatepass"
_WHOLE = 2**53
NAME_CHARACTERS = 100
"""Of a name that a refusal repeats."""


class FieldInvalid(InputInvalid):
    """A request that cannot be carried out as it is; `code` is OpenAI's word for the kind of mistake."""

    def __init__(self, message: str, *, code: str, param: str | None = None) -> None:
        super().__init__(message, param=param)
        self.code = code


def json_object(text: str) -> dict[str, Any]:
    """The object in a text, NaN and halves of surrogate pairs included; those are for the fields to judge."""
    try:
        found = json.loads(text, parse_float=json_number)
    except (ValueError, RecursionError) as error:
        raise FieldInvalid(f"This is not valid JSON: {str(error)[:200]}.", code="invalid_json") from None
    if not isinstance(found, dict):
        raise FieldInvalid("Send a JSON object.", code="invalid_json")
    return found


def json_number(text: str) -> int | float:
    """JSON has one kind of number: what is written 183.0 is as whole as 183."""
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < _WHOLE else value


def mended(value: Any, source: str) -> Any:
    """Parsed JSON without halves of surrogate pairs; `source` is its text. Raises FieldInvalid when it is too deep."""
    try:
        return _mended(value) if _ESCAPED_SURROGATE.search(source) else value
    except RecursionError:
        raise FieldInvalid("This is JSON within JSON, too many times.", code="invalid_json") from None


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return whole_text(value)
    if isinstance(value, list):
        return [_mended(entry) for entry in value]
    if isinstance(value, dict):
        return {whole_text(name): _mended(entry) for name, entry in value.items()}
    return value


def whole_text(text: str) -> str:
    """Two halves of a pair that stand together become their character; a half that stands alone becomes U+FFFD."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


class TextPieces:
    """Joins what a client cut between the two halves of a character, as strings of UTF-16 can be."""

    def __init__(self) -> None:
        self._half = ""

    def take(self, piece: str) -> str:
        """The piece, whole; a first half at its end waits for the next one."""
        piece, self._half = self._half + piece, ""
        if piece and _FIRST_HALF <= piece[-1] <= _LAST_FIRST_HALF:
            piece, self._half = piece[:-1], piece[-1]
        return piece if piece.isascii() else piece.encode("utf-16-le", _KEEP).decode("utf-16-le", _KEEP)

    def rest(self) -> str:
        """What waits, when nothing follows it."""
        half, self._half = self._half, ""
        return half


def refusal(error: ErrorDetails) -> FieldInvalid:
    """What a client is told of a field that does not fit."""
    kind, param = error["type"], path(error["loc"])
    if kind == "missing":
        return FieldInvalid(f"Missing required parameter: '{param}'.", code="missing_required_parameter", param=param)
    if kind == "extra_forbidden":
        return FieldInvalid(f"Unknown parameter: '{param}'; leave it out.", code="unknown_parameter", param=param)
    code = kind if kind == "string_above_max_length" else "invalid_value"
    said = error["msg"].removeprefix("Input should be ").removeprefix("Value error, ")
    if kind.endswith("_type") or kind == "is_instance_of":
        return FieldInvalid(f"Invalid type for '{param}': it should be {said}.", code="invalid_type", param=param)
    return FieldInvalid(f"Invalid value for '{param}': it should be {said}.", code=code, param=param)


def path(location: Sequence[str | int]) -> str:
    """A location as clients write it: format.rate, items[0]. A name that a client made up may be long; it is cut."""
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f"{'.' if text else ''}{part[:NAME_CHARACTERS]}"
    return text
