"""The query of /v1/listen, checked, and the live stream that it asks for."""

from __future__ import annotations

import math
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any, Literal

from multidict import MultiMapping
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, PlainValidator, StringConstraints

from gateway.languages import language_code
from gateway.speak.request import checked
from speech.asr import DecodeOptions
from speech.audio import AudioFormat, Encoding
from speech.config import StreamConfig, VadConfig
from speech.languages import check_language
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from speech.engine import Engine

MOST_CHANNELS = 8
"""That are heard apart, each with a stream of its own."""

LEAST_SILENCE = 0.3
"""Seconds. Whisper hears phrases: cut at every breath it mistakes words, so shorter pauses end nothing here."""
LONGEST_SILENCE = 20.0

THEIR_MODELS = (
    "nova",
    "enhanced",
    "general",
    "meeting",
    "phonecall",
    "finance",
    "conversationalai",
    "voicemail",
    "video",
)
"""Their names, alone or with more behind a hyphen (nova-3), stand for the default model here. "base" is Whisper's name,
so of theirs only those with a hyphen count."""

RAW: Mapping[str, Encoding] = {"linear16": "pcm16", "linear32": "float32", "mulaw": "mulaw", "alaw": "alaw"}
CONTAINED = ("flac", "opus", "ogg-opus")
"""Codings that come in a container, which says everything else."""

REFUSED = {
    "callback": "no URL is ever called from here; wait for the answer, or use /v1/batch",
    "diarize": "speakers are not told apart here",
    "diarize_model": "speakers are not told apart here",
    "redact": "nothing is left out of transcripts here",
    "replace": "words are given as they were heard here",
    "search": "there is no search in the sound here",
    "profanity_filter": "words are given as they were heard here",
    "dictation": "spoken commands are words like others here",
    "detect_entities": "entities are not found here",
    "sentiment": "there is no analysis of texts here",
    "summarize": "there is no analysis of texts here",
    "topics": "there is no analysis of texts here",
    "custom_topic": "there is no analysis of texts here",
    "intents": "there is no analysis of texts here",
    "custom_intent": "there is no analysis of texts here",
    "translate": "there is no translation here",
}
"""What would change the answer and cannot be had; false is taken."""

LISTS = ("keyterm", "keywords", "tag", "extra")

Term = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Terms = Annotated[list[Term], Field(max_length=256)]


def _pause(value: object) -> float:
    """Milliseconds or false, as seconds; false is infinite."""
    if str(value).lower() == "false":
        return math.inf
    try:
        milliseconds = float(str(value))
    except ValueError:
        milliseconds = math.nan
    if not 0 <= milliseconds <= LONGEST_SILENCE * 1000:
        raise ValueError(f"milliseconds from 0 to {LONGEST_SILENCE * 1000:g}, or false")
    return milliseconds / 1000


def _lower(value: object) -> object:
    return value.lower() if isinstance(value, str) else value


class Query(BaseModel):
    """Names that are not here (numerals, filler_words, no_delay, version, tier…) have no effect on the words."""

    model_config = ConfigDict(extra="ignore", frozen=True, allow_inf_nan=False)

    model: Annotated[str, StringConstraints(max_length=256)] = ""
    language: Annotated[str, StringConstraints(max_length=60)] = ""
    detect_language: bool = False
    encoding: Annotated[
        Literal["", "linear16", "linear32", "mulaw", "alaw", "flac", "opus", "ogg-opus"], BeforeValidator(_lower)
    ] = ""
    sample_rate: Annotated[int, Field(ge=8000, le=48000)] | None = None
    channels: Annotated[int, Field(ge=1, le=32)] = 1
    multichannel: bool = False
    interim_results: bool = False
    endpointing: Annotated[float | None, PlainValidator(_pause)] = None
    utterance_end_ms: Annotated[int, Field(ge=1000, le=60_000)] | None = None
    vad_events: bool = False
    keyterm: Terms = Field(default_factory=list)
    keywords: Terms = Field(default_factory=list)
    punctuate: bool = False
    smart_format: bool = False
    paragraphs: bool = False
    utterances: bool = False
    utt_split: Annotated[float, Field(gt=0, le=60)] = 0.8
    tag: Terms = Field(default_factory=list)
    extra: Terms = Field(default_factory=list)

    @property
    def terms(self) -> tuple[str, ...]:
        """What to expect. Of a keyword's boost only the sign counts: one that is to be heard less is left out."""
        boosted = (word.rpartition(":") if ":" in word else (word, "", "") for word in self.keywords)
        return (*self.keyterm, *(word for word, _, boost in boosted if not boost.startswith("-")))

    @property
    def formatted(self) -> bool:
        """With capitals and punctuation; without, words are plain."""
        return self.punctuate or self.smart_format

    @property
    def layout(self) -> AudioFormat | None:
        """That of raw sound; None when it comes in a container. Raises InputInvalid."""
        if self.encoding not in RAW:
            return None
        rate = self.sample_rate or (8000 if self.encoding in ("mulaw", "alaw") else None)
        if rate is None:
            raise InputInvalid(f"{self.encoding} needs a sample_rate (8000 to 48000).", param="sample_rate")
        return AudioFormat(RAW[self.encoding], rate, self.channels)

    @property
    def streams(self) -> int:
        """Channels that are heard apart. Raises InputInvalid."""
        if not self.multichannel:
            return 1
        if self.channels > MOST_CHANNELS:
            raise InputInvalid(f"At most {MOST_CHANNELS} channels are heard apart.", param="channels")
        return self.channels

    @property
    def silence(self) -> float:
        """Seconds after which an utterance ends."""
        asked = VadConfig().silence
        if self.endpointing is not None and math.isfinite(self.endpointing):
            asked = max(self.endpointing, LEAST_SILENCE)
        return min(asked, self.utterance_end_ms / 1000) if self.utterance_end_ms else asked


class Asked:
    """A checked request: its query, the loaded model that it means, and the language to listen for."""

    def __init__(self, query: MultiMapping[str], engine: Engine) -> None:
        """Raises InputInvalid naming the parameter."""
        for name, why in REFUSED.items():
            if any(value.lower() not in ("", "false", "0") for value in query.getall(name, [])):
                raise InputInvalid(f"This cannot be had: {why}. Leave it out.", param=name)
        given: dict[str, Any] = {name: query.getall(name) if name in LISTS else query[name] for name in query}
        self.query = checked(Query, given)
        self.model = _model(engine, self.query.model)
        self.language = _language(engine, self.model, self.query)

    @property
    def options(self) -> DecodeOptions:
        """How to decode."""
        return DecodeOptions(language=self.language, keywords=self.query.terms)

    @property
    def stream(self) -> StreamConfig:
        """The live stream of a channel."""
        query = self.query
        idle = None
        if query.utterance_end_ms is not None:
            # Counted from the end of the utterance, which has waited for its own silence.
            idle = max(0.1, query.utterance_end_ms / 1000 - query.silence)
        return StreamConfig(
            self.model,
            self.options,
            vad=VadConfig(silence=query.silence),
            partials=query.interim_results,
            idle_timeout=idle,
        )


def _model(engine: Engine, name: str) -> str:
    loaded: str
    with suppress(InputInvalid):
        loaded = engine.resolve(name or None)
        return loaded
    family, hyphen, _ = name.partition("-")
    theirs = family in THEIR_MODELS or (hyphen and family == "base")
    loaded = engine.resolve(None if theirs else name)
    return loaded


def _language(engine: Engine, model: str, query: Query) -> str | None:
    """None lets the model find it."""
    if not query.language or query.language == "multi" or query.detect_language:
        return None
    code = language_code(query.language)
    if code is None:
        raise InputInvalid(
            f"{query.language!r} is no language known here; give a code such as en-US.", param="language"
        )
    check_language(engine.models(), model, code)
    return code
