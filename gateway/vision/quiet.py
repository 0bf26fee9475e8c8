"""Libraries of models say things at their first import, and draw bars while they load, that nobody can act upon."""

from __future__ import annotations

import logging
from contextlib import suppress
from importlib import import_module

_LOUD = ("torchao", "torch.utils._pytree")
_BARS = ("transformers.utils.logging", "diffusers.utils.logging")


def quiet() -> None:
    """Before a model is loaded. Blocks: it imports them."""
    for name in _LOUD:
        logging.getLogger(name).setLevel(logging.ERROR)
    for name in _BARS:
        with suppress(ImportError):
            library = import_module(name)
            library.disable_progress_bar()
            library.set_verbosity_error()
