"""The events a client may send and the session they configure, as OpenAI's transcription sessions define them.

The configuration models serve twice: as what a client sends (only the fields it set count) and, complete, as the state
of a session. Unknown fields inside a session are refused, so that nothing asked for is silently ignored; unknown
fields beside it are not.
"""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, StringConstraints

Include = Literal["item.input_audio_transcription.logprobs", "x.words", "x.unstable", "x.lag"]
Name = Annotated[str, StringConstraints(min_length=1, max_length=256)]
Keyword = Annotated[str, StringConstraints(min_length=1, max_length=200)]
EVENT_ID_CHARACTERS = 512
EventId = Annotated[str, StringConstraints(max_length=EVENT_ID_CHARACTERS)]


class Part(BaseModel):
    """A piece of configuration."""

    model_config = ConfigDict(strict=True, extra="forbid", frozen=True, allow_inf_nan=False)

    def updated(self, patch: Self) -> Self:
        """This with every field that `patch` sets, null included."""
        return self.model_copy(update={name: getattr(patch, name) for name in patch.model_fields_set})


class Format(Part):
    """Encoding of the audio that comes in. `rate` (Hz) belongs to audio/pcm; G.711 is always 8000 Hz."""

    type: Literal["audio/pcm", "audio/pcmu", "audio/pcma"] = "audio/pcm"
    rate: int | None = Field(default=None, ge=8_000, le=48_000)


class NoiseReduction(Part):
    """Accepted and echoed for compatibility. The models here are trained on noisy audio and hear the input as it is."""

    type: Literal["near_field", "far_field"] | None = None
    strength: float | None = Field(default=None, ge=0, le=1)


class Transcription(Part):
    """What to listen for. `delay` sets how often partial results are made."""

    model: Name | None = None
    language: Annotated[str, StringConstraints(max_length=16)] | None = None
    languages: Annotated[list[Annotated[str, StringConstraints(max_length=16)]], Field(max_length=100)] | None = None
    prompt: Annotated[str, StringConstraints(max_length=8192)] | None = None
    keywords: Annotated[list[Keyword], Field(max_length=256)] | None = None
    delay: Literal["minimal", "low", "medium", "high", "xhigh"] | None = None


class TurnDetection(Part):
    """Who ends a turn: a length of silence ("server_vad"), or one chosen by eagerness ("semantic_vad")."""

    type: Literal["server_vad", "semantic_vad"] | None = None
    threshold: float | None = Field(default=None, ge=0, le=1)
    prefix_padding_ms: int | None = Field(default=None, ge=0, le=5_000)
    silence_duration_ms: int | None = Field(default=None, ge=30, le=20_000)
    idle_timeout_ms: int | None = Field(default=None, ge=500, le=3_600_000)
    eagerness: Literal["low", "medium", "high", "auto"] | None = None
    create_response: bool | None = None
    interrupt_response: bool | None = None


class AudioInput(Part):
    """session.audio.input"""

    format: Format = Format()
    noise_reduction: NoiseReduction | None = None
    transcription: Transcription | None = None
    turn_detection: TurnDetection | None = None


class Audio(Part):
    """session.audio"""

    input: AudioInput = AudioInput()


class AnySession(Part):
    """What the two kinds of session share: audio that comes in and is transcribed."""

    audio: Audio = Audio()


class Session(AnySession):
    """The session of a session.update."""

    type: Literal["transcription"] = "transcription"
    include: list[Include] | None = None


class BetaSession(Part):
    """The session of a transcription_session.update, the flat shape of the beta."""

    input_audio_format: Literal["pcm16", "g711_ulaw", "g711_alaw"] = "pcm16"
    input_audio_noise_reduction: NoiseReduction | None = None
    input_audio_transcription: Transcription | None = None
    turn_detection: TurnDetection | None = None
    include: list[Include] | None = None
    modalities: list[Literal["text", "audio"]] | None = None
    """Accepted for compatibility; a transcription session only ever answers with text."""


class ClientEvent(BaseModel):
    """What all events share."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True)

    event_id: EventId | None = None


class SessionUpdate(ClientEvent):
    """session.update"""

    session: Session


class BetaSessionUpdate(ClientEvent):
    """transcription_session.update"""

    session: BetaSession


class Append(ClientEvent):
    """input_audio_buffer.append; `audio` is base64 on the wire and decoded here."""

    audio: bytes


class Commit(ClientEvent):
    """input_audio_buffer.commit"""


class Clear(ClientEvent):
    """input_audio_buffer.clear"""


class Retrieve(ClientEvent):
    """conversation.item.retrieve"""

    item_id: Name


class Delete(ClientEvent):
    """conversation.item.delete"""

    item_id: Name


EVENTS: dict[str, type[ClientEvent]] = {
    "session.update": SessionUpdate,
    "transcription_session.update": BetaSessionUpdate,
    "input_audio_buffer.append": Append,
    "input_audio_buffer.commit": Commit,
    "input_audio_buffer.clear": Clear,
    "conversation.item.retrieve": Retrieve,
    "conversation.item.delete": Delete,
}

CONVERSATION_EVENTS = frozenset(
    {
        "conversation.item.create",
        "conversation.item.truncate",
        "response.create",
        "response.cancel",
        "output_audio_buffer.clear",
    }
)
"""Events of OpenAI's voice sessions, which have no meaning where nobody answers."""
