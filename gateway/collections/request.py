"""Bodies of the requests, checked: every refusal names its field."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

MOST_DOCUMENTS = 2048
"""Of one request."""
MOST_LIMIT = 200
"""Hits of one search."""
MOST_QUERY = 4000
"""Characters."""

_STRICT = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

Name = Annotated[str, StringConstraints(min_length=1, max_length=64)]
Id = Annotated[str, StringConstraints(min_length=1, max_length=512)]


class CreateRequest(BaseModel):
    """A collection to be."""

    model_config = _STRICT

    name: Name
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = None
    precision: Literal["float32", "float16", "int8", "binary"] = "float32"
    fields: dict[str, Literal["text", "number", "boolean"]] = {}
    """What filters may name."""


class DocumentBody(BaseModel):
    """A document; whatever else it holds is a field, or shown with what is found."""

    model_config = ConfigDict(strict=True, extra="allow", frozen=True, allow_inf_nan=False)

    id: Id
    text: str
    source: Annotated[str, StringConstraints(max_length=512)] = ""


class PutRequest(BaseModel):
    """Documents to store, in place of what is stored under their ids."""

    model_config = _STRICT

    documents: Annotated[list[Any], Field(min_length=1, max_length=MOST_DOCUMENTS)]


class DeleteRequest(BaseModel):
    """Documents to remove: by id, by source, or by a filter."""

    model_config = _STRICT

    documents: Annotated[list[Id], Field(max_length=MOST_DOCUMENTS)] = []
    source: Annotated[str, StringConstraints(max_length=512)] | None = None
    filter: dict[str, Any] | None = None


class SearchRequest(BaseModel):
    """What is searched for, and where."""

    model_config = _STRICT

    collection: Name
    query: Annotated[str, StringConstraints(min_length=1, max_length=MOST_QUERY)] | None = None
    mode: Literal["auto", "hybrid", "vector", "words"] = "auto"
    """auto: hybrid where the collection's model is loaded, else words; the answer says which."""
    limit: Annotated[int, Field(ge=1, le=MOST_LIMIT)] = 10
    filter: dict[str, Any] | None = None
    vector: Annotated[list[float], Field(max_length=65_536)] | None = None
    """In place of the query's own vector, with the fingerprint of the space that it is of."""
    space: Annotated[str, StringConstraints(max_length=64)] | None = None
