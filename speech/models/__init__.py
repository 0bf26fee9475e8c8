"""The model store: which files a model's name stands for, and that they are the right ones."""

from speech.models.cache import cache_dir
from speech.models.errors import ModelCorrupt, ModelError, ModelNotFound
from speech.models.resolve import KnownModel, ModelFiles, Verification, known_models, resolve, verify

__all__ = [
    "KnownModel",
    "ModelCorrupt",
    "ModelError",
    "ModelFiles",
    "ModelNotFound",
    "Verification",
    "cache_dir",
    "known_models",
    "resolve",
    "verify",
]
