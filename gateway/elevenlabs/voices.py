"""Voices as ElevenLabs' clients read them: beside our own list on /v1/voices, one by one, and searched."""

from __future__ import annotations

from typing import Any

from aiohttp import web

from gateway.state import SERVICE
from speech.tts import VoiceInfo


def as_voice(voice: VoiceInfo) -> dict[str, Any]:
    """A voice in their form. It is named by what it is asked for."""
    return {
        "voice_id": voice.name,
        "name": voice.name,
        "category": "premade",
        "description": voice.description,
        "labels": {"model": voice.model, "language": ", ".join(voice.languages)},
        "samples": None,
        "preview_url": None,
        "settings": {"speed": 1.0},
        "available_for_tiers": [],
        "high_quality_base_model_ids": [voice.model],
    }


async def get_voice(request: web.Request) -> web.Response:
    """One voice, by its name or an alias."""
    found = request.app[SERVICE].engine.resolve_voice(request.match_info["voice_id"])
    return web.json_response(as_voice(found))


async def search_voices(request: web.Request) -> web.Response:
    """All voices on one page, or those whose name or description holds `search`."""
    wanted = request.query.get("search", "").casefold()
    voices = [
        voice
        for voice in request.app[SERVICE].engine.voices()
        if wanted in f"{voice.name} {voice.description}".casefold()
    ]
    found = {
        "voices": [as_voice(voice) for voice in voices],
        "has_more": False,
        "total_count": len(voices),
        "next_page_token": None,
    }
    return web.json_response(found)
