"""The body of POST /v1/embeddings, checked: every refusal names its field, and the item where it is one."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.speak.fields import FieldInvalid
from workers.errors import InputTooLarge
from workers.task import Lane

if TYPE_CHECKING:
    from vision_text.embeddings.embedder import Input

MOST_ITEMS = 2048
"""Of one request, as OpenAI has it."""
MOST_TOKENS = 300_000
"""Of one request, where a client sends tokens; as OpenAI has it."""
LANES = {"interactive": Lane.INTERACTIVE, "bulk": Lane.BULK}


class EmbeddingRequest(BaseModel):
    """What a client wants embedded."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    input: Any
    """A text, a list of texts, the token ids of one, or a list of such lists; see `items`."""
    model: Annotated[str, StringConstraints(min_length=1, max_length=256)] | None = None
    encoding_format: Literal["float", "base64"] = "float"
    dimensions: Annotated[int, Field(ge=1, le=65_536)] | None = None
    user: str | None = None
    """Taken, and of no consequence."""
    precision: Literal["float32", "float16", "int8", "binary"] = "float32"
    prompt: Annotated[str, StringConstraints(max_length=4096)] = ""
    """Ours: what to put before each text, or the model's own name for that."""
    truncate: bool = False
    """Ours: leave out the end of texts that are too long, which the answer then says, in place of a refusal."""
    lane: Literal["interactive", "bulk"] | None = None
    """Ours: bulk waits for whatever else there is to do."""


def items(given: Any) -> list[Input]:
    """The inputs of a request, in order. Raises `FieldInvalid`, `InputTooLarge`."""
    if isinstance(given, str):
        return [given]
    if not isinstance(given, list):
        raise _invalid("input should be a text, a list of texts, token ids or a list of lists of token ids", "input")
    if not given:
        raise _invalid("input is an empty list; give at least one text", "input")
    if _is_ids(given):
        return [_ids(given, "input")]
    if len(given) > MOST_ITEMS:
        raise InputTooLarge(
            f"input has {len(given)} items and can have {MOST_ITEMS}; send several requests, or use speechlane embed",
            param="input",
        )
    found = [_item(item, f"input[{n}]") for n, item in enumerate(given)]
    total = sum(len(item) for item in found if isinstance(item, list))
    if total > MOST_TOKENS:
        raise InputTooLarge(
            f"input has {total} tokens and can have {MOST_TOKENS}; send several requests", param="input"
        )
    return found


def _item(item: Any, name: str) -> Input:
    if isinstance(item, str):
        return item
    if isinstance(item, dict) and set(item) == {"text"} and isinstance(item["text"], str):
        return str(item["text"])
    if isinstance(item, dict) and set(item) == {"image"} and isinstance(item["image"], str):
        return _picture(item["image"], name)
    if isinstance(item, list):
        if not item:
            raise _invalid(f"{name} is an empty list; leave it out", name)
        if _is_ids(item):
            return _ids(item, name)
    raise _invalid(f'{name} should be a text, a list of token ids, {{"text": ...}} or {{"image": base64}}', name)


def _picture(data: str, name: str) -> Input:
    from vision_text.embeddings.pictures import Picture

    if data.startswith(("http://", "https://")):
        raise _invalid(f"{name} is an address; nothing is fetched, so send the picture itself in base64", name)
    try:
        return Picture(base64.b64decode(data.partition(",")[2] if data.startswith("data:") else data, validate=True))
    except ValueError as error:  # binascii.Error, or a character that is not ASCII
        raise _invalid(f"{name} is not base64: {error}", name) from None


def _is_ids(given: list[Any]) -> bool:
    return all(type(item) is int for item in given)


def _ids(given: list[int], name: str) -> list[int]:
    if len(given) > MOST_TOKENS:
        raise InputTooLarge(f"{name} has {len(given)} tokens and can have {MOST_TOKENS}", param=name)
    return given


def _invalid(message: str, param: str) -> FieldInvalid:
    return FieldInvalid(f"{message}.", code="invalid_value", param=param)
