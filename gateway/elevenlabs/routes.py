"""Which paths of ElevenLabs are served here."""

from __future__ import annotations

from functools import partial

from aiohttp import web

from gateway.elevenlabs import http
from gateway.elevenlabs.handler import UNKNOWN, multi_stream_input, stream_input
from gateway.elevenlabs.voices import get_voice, search_voices

SPEECH = "/v1/text-to-speech/{voice_id}"


def add_elevenlabs_routes(app: web.Application) -> None:
    """Add the routes of this package. GET /v1/voices and /v1/models are shared with the rest of the service."""
    app[UNKNOWN] = []
    app.router.add_get(f"{SPEECH}/stream-input", stream_input)
    app.router.add_get(f"{SPEECH}/multi-stream-input", multi_stream_input)
    # The whole file comes in pieces as well: a client that wants it whole waits for the end.
    app.router.add_post(SPEECH, http.sound)
    app.router.add_post(f"{SPEECH}/stream", http.sound)
    app.router.add_post(f"{SPEECH}/with-timestamps", partial(http.with_timestamps, stream=False))
    app.router.add_post(f"{SPEECH}/stream/with-timestamps", partial(http.with_timestamps, stream=True))
    app.router.add_get("/v1/voices/{voice_id}", get_voice)
    app.router.add_get("/v2/voices", search_voices)
