"""Which languages a loaded model takes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from workers.errors import InputInvalid

ANY = "*"
"""Stands in a model's languages for all of them."""
_NAMED = 8
"""Languages that a refusal names at most."""


class Speaks(Protocol):
    """What is asked of a model here; `ModelInfo` is one."""

    @property
    def name(self) -> str: ...

    @property
    def languages(self) -> tuple[str, ...]: ...


def check_language(models: Iterable[Speaks], model: str, language: str | None) -> None:
    """Raises `InputInvalid` when the loaded `model` does not know a language that was asked for.

    Any will do for a model whose languages are `ANY`, or not known.
    """
    known = next((info.languages for info in models if info.name == model), ())
    if language is None or not known or ANY in known or language in known:
        return
    more = f" and {len(known) - _NAMED} more" if len(known) > _NAMED else ""
    raise InputInvalid(f"The model {model} knows {', '.join(known[:_NAMED])}{more}, not {language}.", param="language")
