"""What a vosk client sends beside its sound: {"config": …}, {"eof": 1} and {"reset": 1}."""

from __future__ import annotations

from typing import Annotated, Any

from aiohttp import WSMessage, WSMsgType
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.speak.fields import FieldInvalid, json_object, mended
from gateway.speak.request import checked
from speech.audio import MAX_RATE, MIN_RATE

Phrase = Annotated[str, StringConstraints(max_length=200)]

UNKNOWN_WORD = "[unk]"
"""Stands in a phrase list for everything that is not in it."""
MOST_CHARACTERS = 64 * 1024
ORDER_BYTES = 64
"""Some clients send their orders as binary frames; no longer one is taken for anything but sound."""


class Config(BaseModel):
    """Fields that are left out keep their value; those that are not here have no effect."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    sample_rate: Annotated[float, Field(ge=MIN_RATE, le=MAX_RATE)] | None = None
    words: bool | None = None
    max_alternatives: Annotated[int, Field(ge=0, le=100)] | None = None
    phrase_list: Annotated[list[Phrase], Field(max_length=1000)] | None = None
    model: Annotated[str, StringConstraints(max_length=256)] | None = None


class Order(BaseModel):
    """One message; it may hold several of them, in this order."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    config: Config | None = None
    reset: bool = False
    eof: bool = False


def order(frame: WSMessage) -> Order | None:
    """The order in a frame; None when it is sound. Raises FieldInvalid."""
    if frame.type is WSMsgType.TEXT:
        return _parsed(frame.data)
    if len(frame.data) <= ORDER_BYTES and frame.data[:1] == b"{":
        try:
            return _parsed(frame.data.decode("ascii"))
        except (FieldInvalid, UnicodeDecodeError):
            return None
    return None


def _parsed(text: str) -> Order:
    if len(text) > MOST_CHARACTERS:
        raise FieldInvalid(f"A message may have {MOST_CHARACTERS} characters.", code="invalid_json")
    found: dict[str, Any] = mended(json_object(text), text)
    if not found.keys() & Order.model_fields.keys():
        raise FieldInvalid("Send config, reset or eof, or sound as binary frames.", code="unknown_parameter")
    return checked(Order, found)
