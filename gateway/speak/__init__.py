"""Speech out: POST /v1/audio/speech in OpenAI's form, GET /v1/speak for streams, and what goes with them."""

from __future__ import annotations

from aiohttp import web

from gateway.speak.explain import explain_handler
from gateway.speak.handler import speak_handler
from gateway.speak.speech import speech_handler
from gateway.speak.voices import list_voices


def add_speech_routes(app: web.Application) -> None:
    """Add the routes of this package."""
    app.router.add_post("/v1/audio/speech", speech_handler)
    app.router.add_get("/v1/speak", speak_handler)
    app.router.add_post("/v1/text/explain", explain_handler)
    app.router.add_get("/v1/voices", list_voices)
