"""Filters: which pieces a search may find. A small language in JSON, checked before any store sees it.

    {"year": 1815}                                   equal
    {"year": {"gte": 1800, "lt": 1900}}              gt, gte, lt, lte, ne
    {"author": {"in": ["Austen", "Eliot"]}}
    {"year": {"exists": false}}
    {"and": [...]}  {"or": [...]}  {"not": {...}}    several keys of one object mean "and"

Names are those of the collection's fields, values are data: neither reaches a database as text of a query. (A field
that is called and, or, not cannot be filtered by.)
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from vision_text.store.rows import FieldKind, FieldValue, fits
from workers.errors import InputInvalid

Operator = Literal["eq", "ne", "gt", "gte", "lt", "lte"]
OPERATORS: tuple[Operator, ...] = get_args(Operator)

MAX_CONDITIONS = 64
MAX_DEPTH = 8
MAX_CHOICES = 1000
"""Values of an "in"."""


@dataclass(frozen=True, slots=True)
class Compare:
    field: str
    operator: Operator
    value: FieldValue


@dataclass(frozen=True, slots=True)
class OneOf:
    field: str
    values: tuple[FieldValue, ...]


@dataclass(frozen=True, slots=True)
class Exists:
    field: str


@dataclass(frozen=True, slots=True)
class Not:
    of: Filter


@dataclass(frozen=True, slots=True)
class All:
    of: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Any_:
    of: tuple[Filter, ...]


Filter = Compare | OneOf | Exists | Not | All | Any_

_WORDS: dict[str, type[All] | type[Any_]] = {"and": All, "or": Any_}
_SHORT = re.compile(r"\s*([A-Za-z][A-Za-z0-9_]*)\s*(>=|<=|!=|=|>|<)\s*(.*?)\s*", re.DOTALL)
_SIGNS: dict[str, Operator] = {"=": "eq", "!=": "ne", ">": "gt", ">=": "gte", "<": "lt", "<=": "lte"}


def parse_filter(given: object, fields: Mapping[str, FieldKind]) -> Filter | None:
    """A filter from JSON, for a collection with these fields; None for none. Raises InputInvalid (param "filter")."""
    if given is None or given == {}:
        return None
    return _Parser(fields).parse(given, 0)


def parse_where(conditions: Sequence[str], fields: Mapping[str, FieldKind]) -> Filter | None:
    """A filter from conditions as a person types them ("year >= 1800"), all of which have to hold. Raises
    InputInvalid."""
    return parse_filter(where_body(conditions, fields), fields)


def where_body(conditions: Sequence[str], fields: Mapping[str, FieldKind]) -> dict[str, object]:
    """The same in JSON; {} for none."""
    parsed: list[object] = []
    for text in conditions:
        found = _SHORT.fullmatch(text)
        if found is None:
            raise _wrong(f"{text[:80]!r} is no condition; write FIELD, then = != < <= > or >=, then a value")
        field, sign, value = found.groups()
        parsed.append({field: {_SIGNS[sign]: _typed(value, fields.get(field, "text"))}})
    return {"and": parsed} if parsed else {}


def within(field: str, values: Sequence[str]) -> Filter:
    """One of these values of a field of text, of any number of them: for the code's own use."""
    return OneOf(field, tuple(values))


class _Parser:
    def __init__(self, fields: Mapping[str, FieldKind]) -> None:
        self._fields, self._conditions = fields, 0

    def parse(self, given: object, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise _wrong(f"it is more than {MAX_DEPTH} deep")
        if not isinstance(given, Mapping) or not given:
            raise _wrong('each part of it is an object such as {"year": {"gte": 1800}}')
        parts: list[Filter] = []
        for name, wanted in given.items():
            if name in _WORDS:
                if not isinstance(wanted, list) or not wanted:
                    raise _wrong(f'"{name}" takes a list of conditions')
                parts.append(_WORDS[name](tuple(self.parse(one, depth + 1) for one in wanted)))
            elif name == "not":
                parts.append(Not(self.parse(wanted, depth + 1)))
            else:
                parts += self._conditions_of(name, wanted)
        return parts[0] if len(parts) == 1 else All(tuple(parts))

    def _conditions_of(self, name: object, wanted: object) -> list[Filter]:
        kind = self._fields.get(name) if isinstance(name, str) else None
        if kind is None or not isinstance(name, str):
            raise _wrong(f"there is no field {str(name)[:60]!r}; there is {', '.join(sorted(self._fields))}")
        asked = wanted if isinstance(wanted, Mapping) else {"eq": wanted}
        if not asked:
            raise _wrong(f"nothing is asked of {name}")
        found: list[Filter] = []
        for word, value in asked.items():
            self._conditions += 1
            if self._conditions > MAX_CONDITIONS:
                raise _wrong(f"it has more than {MAX_CONDITIONS} conditions")
            found.append(self._condition(name, kind, word, value))
        return found

    def _condition(self, name: str, kind: FieldKind, word: object, value: object) -> Filter:
        if word == "exists":
            if not isinstance(value, bool):
                raise _wrong(f"exists of {name} is true or false")
            return Exists(name) if value else Not(Exists(name))
        if word == "in":
            if not isinstance(value, list) or not 0 < len(value) <= MAX_CHOICES:
                raise _wrong(f"in of {name} takes a list of 1 to {MAX_CHOICES} values")
            return OneOf(name, tuple(self._value(name, kind, one) for one in value))
        operator = next((one for one in OPERATORS if one == word), None)
        if operator is None:
            raise _wrong(f"{str(word)[:40]!r} cannot be asked of {name}; there is {', '.join(OPERATORS)}, in, exists")
        if kind == "boolean" and operator not in ("eq", "ne"):
            raise _wrong(f"{name} is true or false, which is neither more nor less")
        return Compare(name, operator, self._value(name, kind, value))

    def _value(self, name: str, kind: FieldKind, value: Any) -> FieldValue:
        whole = not (isinstance(value, float) and not math.isfinite(value))
        clean = not (isinstance(value, str) and ("\0" in value or any("\ud800" <= one <= "\udfff" for one in value)))
        if not fits(value, kind) or not whole or not clean:
            raise _wrong(f"{name} is a {kind}, which {str(value)[:40]!r} is not")
        return float(value) if kind == "number" else value


def _typed(text: str, kind: FieldKind) -> FieldValue:
    if len(text) > 1 and text[0] == text[-1] and text[0] in "\"'":
        text = text[1:-1]
    if kind == "boolean" and text.lower() in ("true", "false"):
        return text.lower() == "true"
    if kind == "number":
        try:
            return float(text)
        except ValueError:
            return text  # which is then refused as what it is
    return text


def _wrong(why: str) -> InputInvalid:
    return InputInvalid(f"The filter cannot be used: {why}.", param="filter")
