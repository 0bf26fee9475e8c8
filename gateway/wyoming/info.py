"""The answer to describe: which voices and models there are."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from gateway.wyoming.events import Event

if TYPE_CHECKING:
    from speech.engine import Engine

NAME = "speechlane"


def info(engine: Engine) -> Event:
    """One program for each direction that is loaded."""
    voices = [
        _artifact(voice.name, voice.description) | {"languages": list(voice.languages), "speakers": None}
        for voice in engine.voices()
    ]
    models = [
        _artifact(model.name, f"Whisper {model.name}") | {"languages": list(model.languages)}
        for model in engine.models()
        if model.loaded
    ]
    speaking = _artifact(NAME, "Streaming speech synthesis") | {
        "voices": voices,
        "supports_synthesize_streaming": True,
    }
    hearing = _artifact(NAME, "Live transcription") | {
        "models": models,
        "supports_transcript_streaming": False,
        "requires_external_vad": True,
        "prefers_auto_gain_enabled": False,
        "prefers_noise_reduction_enabled": False,
    }
    programs: dict[str, Any] = {name: [] for name in ("handle", "intent", "wake", "mic", "snd")}
    return Event("info", {"asr": [hearing] if models else [], "tts": [speaking] if voices else [], **programs})


def _artifact(name: str, description: str) -> dict[str, Any]:
    return {
        "name": name,
        "attribution": {"name": NAME, "url": ""},
        "installed": True,
        "description": description,
        "version": _version(),
    }


def _version() -> str | None:
    try:
        return version(NAME)
    except PackageNotFoundError:  # it runs from its source
        return None
