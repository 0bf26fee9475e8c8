"""What can be wrong with a model when the service starts. Read by the operator; never sent to a client."""

from __future__ import annotations


class ModelError(Exception):
    """A model cannot be used; the message names the model and the remedy."""


class ModelNotFound(ModelError):
    """No path, bundle or downloaded model has this name."""


class ModelCorrupt(ModelError):
    """A file of the model is not what the manifest says, or a part of the model is missing."""
