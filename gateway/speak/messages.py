"""What a client may say on /v1/speak. Unknown fields are refused, so that nothing asked for is silently ignored."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, InstanceOf, StringConstraints, ValidationError

from gateway.speak.fields import FieldInvalid, json_object, mended, refusal
from gateway.speak.spec import Spec
from speech.encode.formats import Name
from workers.errors import InputTooLarge

ContextName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
EventId = Annotated[str, StringConstraints(max_length=512)]


class Message(BaseModel):
    """What all messages share. `event_id` comes back in an error that answers the message."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    type: str
    context: ContextName
    event_id: EventId | None = None


class Format(BaseModel):
    """The sound that is wanted: raw samples, or a file as a stream. `rate` in Hz; left out: the voice's own."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True)

    name: Name = "pcm16"
    rate: int | None = None


class Create(Message, Spec):
    """create: a context, which is one stream of speech."""

    format: Format = Format()
    audio: Literal["binary", "base64"] = "binary"
    words: bool = True


class Text(Message):
    """text: more of what is to be said. `flush` and `end` do what the messages of that name do."""

    text: InstanceOf[str]
    flush: bool = False
    end: bool = False


class Flush(Message):
    """flush: speak what there is without waiting for the end of its sentence."""


class End(Message):
    """end: no more text comes."""


class Cancel(Message):
    """cancel: stop at once."""


class Playback(Message):
    """playback: the listener has heard `seconds` of the context's sound."""

    seconds: float = Field(ge=0)


class Hold(Message):
    """hold: somebody may be interrupting; make and send nothing for now."""


class Resume(Message):
    """resume: nobody did; go on with the same samples."""


MESSAGES: dict[str, type[Message]] = {
    "create": Create,
    "text": Text,
    "flush": Flush,
    "end": End,
    "cancel": Cancel,
    "playback": Playback,
    "hold": Hold,
    "resume": Resume,
}


class Refused(Exception):
    """A message that cannot be carried out, with what is known of it. The socket goes on."""

    def __init__(self, error: FieldInvalid | InputTooLarge, fields: dict[str, Any]) -> None:
        super().__init__(error.message)
        self.error = error
        self.context, self.event_id = (_short(fields.get(name)) for name in ("context", "event_id"))


def parse(source: str, max_text: int) -> Message:
    """The message in a text frame; a text has at most `max_text` characters. Raises `Refused`."""
    fields: dict[str, Any] = {}
    try:
        fields = json_object(source)
        # The two halves of a character may come in two messages, so the context puts the text together.
        text = fields.pop("text", None)
        fields = mended(fields, source)
        if text is not None:
            fields["text"] = text
            if isinstance(text, str) and len(text) > max_text:
                raise InputTooLarge(
                    f"text has {len(text)} characters; send at most {max_text} in one message.", param="text"
                )
        return _message(fields)
    except (FieldInvalid, InputTooLarge) as error:
        raise Refused(error, fields) from None


def _message(fields: dict[str, Any]) -> Message:
    kind = fields.get("type")
    if kind is None:
        raise FieldInvalid("Missing required parameter: 'type'.", code="missing_required_parameter", param="type")
    known = MESSAGES.get(kind) if isinstance(kind, str) else None
    if known is None:
        raise FieldInvalid(
            f"type is {str(kind)[:60]!r} but can be {', '.join(MESSAGES)}.", code="invalid_value", param="type"
        )
    try:
        return known.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0]) from None


def _short(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= 512 else None
