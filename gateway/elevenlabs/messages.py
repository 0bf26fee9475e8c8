"""What a client says on stream-input and multi-stream-input: one kind of message, whose fields say what it is for."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, InstanceOf, StringConstraints, ValidationError

from gateway.elevenlabs.options import GenerationConfig, VoiceSettings
from gateway.speak.fields import FieldInvalid, json_object, mended, refusal, whole_text
from workers.errors import InputTooLarge

ContextName = Annotated[str, StringConstraints(min_length=1, max_length=128)]
Key = Annotated[str, StringConstraints(max_length=4096)]

MOST_TEXT = 64 * 1024
"""Characters of one message."""


class Message(BaseModel):
    """Fields that are null count as left out; those that are not here have no effect, as with them."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    text: InstanceOf[str] | None = None
    flush: bool = False
    try_trigger_generation: bool = False
    """No effect: nothing waits longer than for the end of its clause, or for a pause."""
    voice_settings: VoiceSettings | None = None
    generation_config: GenerationConfig | None = Field(
        None, validation_alias=AliasChoices("generation_config", "generator_config")
    )
    pronunciation_dictionary_locators: list[Any] | None = None
    context_id: ContextName | None = Field(None, validation_alias=AliasChoices("context_id", "contextId"))
    close_context: bool = False
    close_socket: bool = False
    xi_api_key: Key | None = Field(None, validation_alias=AliasChoices("xi_api_key", "xi-api-key"), repr=False)
    authorization: Key | None = Field(None, repr=False)

    @property
    def key(self) -> str | None:
        """The key that it carries, not yet checked."""
        if self.xi_api_key:
            return self.xi_api_key
        scheme, _, value = (self.authorization or "").strip().rpartition(" ")
        return value if value and scheme.lower() in ("", "bearer") else None


def parse(source: str) -> Message:
    """The message in a text frame. Raises FieldInvalid, InputTooLarge."""
    fields = json_object(source)
    # The two halves of a character may come in two messages, so the context puts the text together.
    text = fields.pop("text", None)
    fields = {name: value for name, value in mended(fields, source).items() if value is not None}
    if text is not None:
        fields["text"] = text
        if isinstance(text, str) and len(text) > MOST_TEXT:
            raise InputTooLarge(f"text has {len(text)} characters; send at most {MOST_TEXT} at once.", param="text")
    try:
        return Message.model_validate(fields)
    except ValidationError as error:
        raise refusal(error.errors(include_url=False, include_input=False)[0]) from None


def context_of(source: str) -> str | None:
    """The context that a message which could not be read was for, if it says so."""
    try:
        fields = json_object(source)
    except FieldInvalid:
        return None
    name = fields.get("context_id", fields.get("contextId"))
    return whole_text(name) if isinstance(name, str) and 0 < len(name) <= 128 else None
