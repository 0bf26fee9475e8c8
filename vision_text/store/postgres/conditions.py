"""Filters as SQL for PostgreSQL: names of our own columns and %s for everything that was given."""

from __future__ import annotations

from collections.abc import Mapping

from psycopg.sql import SQL, Composable, Identifier, Literal

from vision_text.store.filters import All, Any_, Compare, Exists, Filter, Not, OneOf
from vision_text.store.rows import OWN_FIELDS, FieldKind

_SIGNS = {"eq": SQL("="), "ne": SQL("<>"), "gt": SQL(">"), "gte": SQL(">="), "lt": SQL("<"), "lte": SQL("<=")}
_KINDS = {"text": SQL("text"), "number": SQL("float8"), "boolean": SQL("boolean")}


def condition(where: Filter | None, fields: Mapping[str, FieldKind]) -> tuple[Composable, list[object]]:
    """The condition and the values of its places."""
    if where is None:
        return SQL("true"), []
    match where:
        case Compare(field, operator, value):
            return SQL("{} {} %s").format(_place(field, fields), _SIGNS[operator]), [value]
        case OneOf(field, values):
            return SQL("{} = ANY(%s)").format(_place(field, fields)), [list(values)]
        case Exists(field):
            return SQL("{} IS NOT NULL").format(_place(field, fields)), []
        case Not(of):
            inner, given = condition(of, fields)
            return SQL("NOT ({})").format(inner), given
        case All(of) | Any_(of):
            parts = [condition(part, fields) for part in of]
            word = SQL(" AND ") if isinstance(where, All) else SQL(" OR ")
            joined = word.join([SQL("({})").format(part) for part, _ in parts])
            return joined, [one for _, given in parts for one in given]


def _place(field: str, fields: Mapping[str, FieldKind]) -> Composable:
    if field in OWN_FIELDS:
        return Identifier(field)
    # The name was checked when the collection was made, and is written as a literal all the same.
    return SQL("(fields->>{})::{}").format(Literal(field), _KINDS[fields[field]])
