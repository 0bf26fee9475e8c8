"""What a client of ElevenLabs asks for beside the text, and the configuration of a speaker that it makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from aiohttp import web
from pydantic import BaseModel, ConfigDict, Field, StringConstraints

from gateway.elevenlabs.formats import DEFAULT, named_format
from gateway.languages import language_code
from gateway.speak.request import checked
from speech.encode import OutputFormat
from speech.speaking.config import SpeakConfig
from speech.text.segmenter import LONGEST
from speech.tts import VoiceInfo
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from speech.engine import Engine

Short = Annotated[str, StringConstraints(max_length=256)]

THEIR_MODELS = ("eleven_",)
"""How the names of their models begin, which stand for whatever model has the voice."""

LEAST_SEGMENT = 120
"""Sentences are not cut into less than their schedule's own first step, however small a client sets it."""


class VoiceSettings(BaseModel):
    """Only `speed` has an effect: the voices here have one manner of speaking."""

    model_config = ConfigDict(strict=True, extra="ignore", frozen=True, allow_inf_nan=False)

    stability: float | None = None
    similarity_boost: float | None = None
    style: float | None = None
    use_speaker_boost: bool | None = None
    speed: Annotated[float, Field(ge=0.25, le=4.0)] | None = None


class GenerationConfig(BaseModel):
    """When to make sound of what has been given."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    chunk_length_schedule: Annotated[list[Annotated[float, Field(ge=1, le=1000)]], Field(max_length=64)] | None = None

    @property
    def longest(self) -> int:
        """The longest text that is planned at once, in characters.

        Speech begins with the first clause and at every pause, so nothing waits for a step of the schedule to be full;
        what is left of it is where a text without sentences is cut.
        """
        return min(LONGEST, max(LEAST_SEGMENT, *map(int, self.chunk_length_schedule or [LONGEST])))


class Query(BaseModel):
    """The query of a request; names that are not here are for features that do not change the sound."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    model_id: Short | None = None
    language_code: Short | None = None
    output_format: Short = DEFAULT
    inactivity_timeout: Annotated[float, Field(ge=1, le=180)] = 20.0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    enable_ssml_parsing: bool = False
    auto_mode: bool = False
    sync_alignment: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """What holds for all of a connection or request."""

    voice: VoiceInfo
    form: OutputFormat
    seed: int = 0
    inactivity: float = 20.0
    """Seconds without text after which a stream is ended."""

    def config(
        self, settings: VoiceSettings | None, generation: GenerationConfig | None, lead: float | None
    ) -> SpeakConfig:
        """For a speaker that makes sound `lead` seconds ahead."""
        return SpeakConfig(
            voice=self.voice.name,
            speed=(settings and settings.speed) or 1.0,
            seed=self.seed,
            lead=lead,
            max_characters=(generation or GenerationConfig()).longest,
        )


def asked(request: web.Request, engine: Engine, **body: Any) -> Asked:
    """What path and query ask for; a body may name what the query does not. Raises InputInvalid."""
    checked(Query, dict(request.query))  # also what the body goes before
    given = {**request.query, **{name: value for name, value in body.items() if value is not None}}
    query = checked(Query, given)
    if query.enable_ssml_parsing:
        raise InputInvalid("SSML is not read here; send plain text.", param="enable_ssml_parsing")
    voice = _voice(engine, request.match_info["voice_id"], query.model_id)
    if query.language_code:
        code = language_code(query.language_code)
        if code not in voice.languages:
            raise InputInvalid(
                f"{voice.name} does not speak {query.language_code[:60]!r} but {', '.join(voice.languages)}.",
                param="language_code",
            )
    return Asked(voice, named_format(query.output_format), query.seed, query.inactivity_timeout)


def refuse_dictionaries(locators: list[Any] | None) -> None:
    """Raises InputInvalid when there are any: words would sound otherwise than the client expects."""
    if locators:
        raise InputInvalid(
            "There are no pronunciation dictionaries here; leave the field out, or use the lexicon of /v1/speak.",
            param="pronunciation_dictionary_locators",
        )


def _voice(engine: Engine, voice: str, model: str | None) -> VoiceInfo:
    if model is not None and model.startswith(THEIR_MODELS):
        model = None
    found: VoiceInfo = engine.resolve_voice(voice, model)
    return found
