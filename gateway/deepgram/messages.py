"""What a client says in text on a live socket."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from gateway.deepgram.options import Terms
from gateway.speak.fields import FieldInvalid, json_object, mended
from gateway.speak.request import checked

Kind = Literal["KeepAlive", "Finalize", "CloseStream", "Configure"]
MOST_CHARACTERS = 64 * 1024


class Message(BaseModel):
    """One message; fields of another type have no effect."""

    model_config = ConfigDict(extra="ignore", frozen=True)

    type: Kind
    channel: Annotated[int, Field(ge=0)] | None = None
    """Finalize: that channel alone."""
    keyterms: Terms | None = None
    features: dict[str, bool] | None = None


def parse(text: str) -> Message:
    """Raises FieldInvalid."""
    if len(text) > MOST_CHARACTERS:
        raise FieldInvalid(f"A message may have {MOST_CHARACTERS} characters.", code="invalid_json")
    return checked(Message, mended(json_object(text), text))
