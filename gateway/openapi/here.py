"""What the document of one service says that another's does not: limits, keys, and what is loaded."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gateway.languages import NAMES
from gateway.openapi.shapes import Json
from gateway.settings import Settings
from speech.languages import ANY
from speech.tts import OPENAI_MODELS, VoiceInfo

if TYPE_CHECKING:
    from gateway.state import Service
    from speech.engine import ModelInfo


@dataclass(frozen=True)
class Here:
    """A service as its document describes it. `loaded` is False while models still load."""

    settings: Settings
    keys: bool
    loaded: bool = False
    models: tuple[ModelInfo, ...] = ()
    voices: tuple[VoiceInfo, ...] = ()
    embeddings: tuple[str, ...] = ()
    """Names and aliases of models for embeddings."""
    dimensions: tuple[int, ...] = ()
    """Of their vectors, whole or cut."""
    pictures: bool = False
    """Whether one of them sees."""
    chats: tuple[str, ...] = ()
    images: tuple[str, ...] = ()
    videos: tuple[str, ...] = ()
    """Names and aliases of models that see and answer, that draw pictures, that make clips; loaded or not."""

    @classmethod
    def of(cls, service: Service) -> Here:
        engine, keys, embedder = service.loaded, not service.guard.open, service.embeddings.loaded
        chats, images, videos = (
            (*room.names, *(room.kind.aliases if room.names else ())) for room in service.vision.rooms
        )
        if engine is None:
            return cls(service.settings, keys, chats=chats, images=images, videos=videos)
        known = embedder.models() if embedder is not None else ()
        return cls(
            service.settings,
            keys,
            loaded=service.embeddings.state != "loading",
            models=tuple(engine.models()),
            voices=tuple(engine.voices()),
            embeddings=tuple(name for model in known for name in (model.name, *model.aliases)),
            dimensions=tuple(sorted({size for model in known for size in (model.dimensions, *model.sizes)})),
            pictures=any(model.pictures for model in known),
            chats=chats,
            images=images,
            videos=videos,
        )

    def model_names(self) -> Json:
        """Values of a field that names a model that listens."""
        return _one_of(name for model in self.models for name in (model.name, *model.aliases))

    def all_model_names(self) -> Json:
        """Values of a field that names a model that listens, one for embeddings, one that sees or draws."""
        names = self.model_names().get("enum", ())
        return _one_of((*names, *self.embeddings, *self.chats, *self.images, *self.videos)) if names else {}

    def chat_names(self) -> Json:
        """Values of a field that names a model that sees and answers."""
        return _one_of(self.chats)

    def image_names(self) -> Json:
        """Values of a field that names a model that draws."""
        return _one_of(self.images)

    def video_names(self) -> Json:
        """Values of a field that names a model that makes clips."""
        return _one_of(self.videos)

    def languages(self) -> Json:
        """Values of a field that names a language; a model may know fewer of them."""
        known = {code for model in self.models for code in model.languages}
        return _one_of(NAMES if ANY in known else sorted(known))

    def voice_names(self) -> Json:
        """Values of a field that names a voice."""
        return _one_of(name for voice in self.voices for name in (voice.name, *voice.aliases))

    def embedding_names(self) -> Json:
        """Values of a field that names a model for embeddings."""
        return _one_of(self.embeddings)

    def sizes(self) -> Json:
        """What vectors can be cut to, as a change of an optional number; a model may know fewer of them."""
        if not self.dimensions:
            return {}
        return {"anyOf": [{"type": "integer", "enum": [*self.dimensions]}, {"type": "null"}]}

    def voice_models(self) -> Json:
        """Values of a field that names the model of a voice."""
        return _one_of((*(voice.model for voice in self.voices), *OPENAI_MODELS) if self.voices else ())


def or_like(values: Json, pattern: str) -> Json:
    """Those values, all that is like the pattern, or nothing: a field in which many names stand for what is here."""
    if not values:
        return {}
    return {"pattern": f"^({'|'.join(map(re.escape, values['enum']))}|{pattern})?$"}


def _one_of(values: object) -> Json:
    names = list(dict.fromkeys(values))  # type: ignore[call-overload]
    return {"enum": names} if names else {}
