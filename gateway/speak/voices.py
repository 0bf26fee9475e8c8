"""GET /v1/voices: who can speak here, in our form and in ElevenLabs', whose clients ask the same path."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway.elevenlabs.voices import as_voice
from gateway.state import SERVICE
from speech.tts import VoiceInfo


async def list_voices(request: web.Request) -> web.Response:
    """Every loaded voice, the default first."""
    voices = request.app[SERVICE].engine.voices()
    listed = {"object": "list", "data": [described(voice) for voice in voices]}
    return web.json_response(listed | {"voices": [as_voice(voice) for voice in voices]})


def described(voice: VoiceInfo) -> dict[str, Any]:
    """A voice as clients see it. `exact`: it sounds the same however it is streamed."""
    return {
        "id": voice.name,
        "object": "voice",
        "model": voice.model,
        "languages": list(voice.languages),
        "rate": voice.rate,
        "exact": voice.exact,
        "aliases": list(voice.aliases),
        "description": voice.description,
    }
