"""OpenAI's Realtime protocol for live transcription, in its general (GA) and its beta shape.

Deviations and extensions, all additive: PCM at any rate from 8000 to 48000 Hz; `semantic_vad` turns eagerness into a
length of silence; and with `include`, words with times and confidence on completed ("x.words"), the tail that may still
change as x.transcription.unstable ("x.unstable"), and how far behind the service is ("x.lag"); and with `resume=1`
sessions that their client may take up again when its connection broke.
"""

from aiohttp import web

from gateway.realtime.handler import realtime_handler
from gateway.realtime.parking import PARKING, Parking
from gateway.realtime.starting import client_secrets_handler
from gateway.state import SERVICE

__all__ = ["add_realtime_route"]


def add_realtime_route(app: web.Application) -> None:
    """GET /v1/realtime, secrets for browsers that use it, and the sessions that wait for their clients."""
    app[PARKING] = parking = Parking(app[SERVICE])
    app.on_shutdown.append(parking.close)
    app.cleanup_ctx.append(parking.keep_shared)
    app.router.add_get("/v1/realtime", realtime_handler)
    app.router.add_post("/v1/realtime/client_secrets", client_secrets_handler)
