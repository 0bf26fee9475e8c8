"""Which vector space a vector lives in. Vectors of two spaces cannot be compared, of equal length or not."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal, Self

from workers.errors import InputInvalid

Precision = Literal["float32", "float16", "int8", "binary"]
PRECISIONS: tuple[Precision, ...] = ("float32", "float16", "int8", "binary")


class SpaceMismatch(InputInvalid):
    """Vectors of two spaces were about to be compared or kept together."""

    code = "space_mismatch"
    status = 409


@dataclass(frozen=True, slots=True)
class Space:
    """Everything that decides whether two vectors can be compared.

    `revision` identifies the weights. `prompt` is what was put before each text ("" for nothing); a pair of prompts
    that a model was trained with, one for questions and one for documents, makes one space and is written as a pair.
    `dimensions` counts the numbers of a vector, for "binary" its bits. `ranges` is a hash of what int8 was calibrated
    with, "" for other precisions.
    """

    model: str
    revision: str
    pooling: str
    prompt: str
    normalised: bool
    dimensions: int
    precision: Precision
    ranges: str = ""

    @property
    def fingerprint(self) -> str:
        """Short name of the space: 16 hexadecimal digits, the same for equal spaces everywhere."""
        text = json.dumps(asdict(self), sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def to_dict(self) -> dict[str, Any]:
        """What JSON can hold, with the fingerprint for whoever only compares."""
        return {**asdict(self), "fingerprint": self.fingerprint}

    @classmethod
    def from_dict(cls, found: Mapping[str, Any]) -> Self:
        """What `to_dict` gave. Raises InputInvalid for anything else, and for a fingerprint of another space."""
        known = {field.name: str(field.type) for field in fields(cls)}
        kinds = {"str": str, "bool": bool, "int": int, "Precision": str}
        values = {name: value for name, value in found.items() if name in known}
        missing = [name for name in known if name not in values and name != "ranges"]
        wrong = [name for name, value in values.items() if type(value) is not kinds[known[name]]]
        if missing or wrong or values["precision"] not in PRECISIONS:
            what = f"lacks {', '.join(missing)}" if missing else f"has an unusable {(wrong or ['precision'])[0]}"
            raise InputInvalid(f"the description of a vector space {what}", param="space")
        space = cls(**values)
        if found.get("fingerprint", space.fingerprint) != space.fingerprint:
            raise InputInvalid(
                f"the description of a vector space says {found['fingerprint']!r} but is that of {space.fingerprint}; "
                "it was changed by hand, or written by another version",
                param="space",
            )
        return space


def check_same(stored: Space, given: Space, doing: str) -> None:
    """Refuse to mix two spaces. `doing` is what was about to happen: "query the collection 'talks'".

    Raises SpaceMismatch, which names every field that differs and what to do.
    """
    if stored == given:
        return
    differing = [
        f"{field.name} is {_shown(getattr(given, field.name))} where the stored vectors have "
        f"{_shown(getattr(stored, field.name))}"
        for field in fields(Space)
        if getattr(given, field.name) != getattr(stored, field.name)
    ]
    remedy = "Embed with what the stored vectors were made with"
    if (stored.model, stored.revision) != (given.model, given.revision):
        remedy += ", or move them to the new model: speechlane collections migrate"
    raise SpaceMismatch(
        f"Cannot {doing}: the vectors are of another space ({given.fingerprint}, not {stored.fingerprint}), and "
        f"numbers of two spaces cannot be compared, of equal length or not. {_sentence(differing)}. {remedy}.",
        param="model",
    )


def _shown(value: object) -> str:
    return json.dumps(value) if isinstance(value, str | bool) else str(value)


def _sentence(parts: list[str]) -> str:
    text = "; ".join(parts)
    return text[0].upper() + text[1:]
