"""Filters as LanceDB's own expressions. Never as text: its parser takes a backslash for an escape where SQL does not,
so that no quoting is safe in both."""

from __future__ import annotations

from collections.abc import Mapping
from functools import reduce

from lancedb.expr import Expr, col, lit

from vision_text.store.filters import All, Any_, Compare, Exists, Filter, Not, OneOf
from vision_text.store.lance.columns import column
from vision_text.store.rows import OWN_FIELDS, FieldKind

_ALWAYS = ("id", "document", "source", "piece")
"""What no piece lacks."""


def expression(where: Filter, fields: Mapping[str, FieldKind]) -> Expr:
    """The filter for the table of a collection with these fields."""
    match where:
        case Compare(field, operator, value):
            place = col(_column(field, fields))
            found: Expr = {
                "eq": place.eq,
                "ne": place.ne,
                "gt": place.gt,
                "gte": place.gte,
                "lt": place.lt,
                "lte": place.lte,
            }[operator](lit(value))
            return found
        case OneOf(field, values):
            return col(_column(field, fields)).isin(list(values))
        case Exists(field):
            if field in _ALWAYS:
                return col("id").ne(lit(""))
            return col("has").contains(f",{field},")
        case Not(of):
            return ~expression(of, fields)
        case All(of):
            return reduce(lambda one, other: one.and_(other), (expression(part, fields) for part in of))
        case Any_(of):
            return reduce(lambda one, other: one.or_(other), (expression(part, fields) for part in of))


def _column(field: str, fields: Mapping[str, FieldKind]) -> str:
    if field in OWN_FIELDS:
        return field
    if field not in fields:
        raise KeyError(field)  # parse_filter lets none through
    return column(field)
