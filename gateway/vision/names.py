"""Names that fields have on the wire, and others where a model is asked."""

from __future__ import annotations

from workers.errors import ServingError

FIELDS = {"width": "size", "height": "size", "negative": "negative_prompt"}


def on_the_wire(error: ServingError) -> ServingError:
    """The error with the name of its field as the client knows it."""
    if error.param is not None:
        error.param = FIELDS.get(error.param, error.param)
    return error
