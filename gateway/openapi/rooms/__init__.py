"""One file for each group of routes, and one line here. What it says of limits it takes from the handlers' own code."""

from __future__ import annotations

from collections.abc import Callable

from gateway.openapi.here import Here
from gateway.openapi.operation import Room
from gateway.openapi.rooms.chat import room as chat
from gateway.openapi.rooms.collections import room as collections
from gateway.openapi.rooms.deepgram import room as deepgram
from gateway.openapi.rooms.documents import room as documents
from gateway.openapi.rooms.elevenlabs import room as elevenlabs
from gateway.openapi.rooms.embeddings import room as embeddings
from gateway.openapi.rooms.images import room as images
from gateway.openapi.rooms.jobs import room as jobs
from gateway.openapi.rooms.models import room as models
from gateway.openapi.rooms.realtime import room as realtime
from gateway.openapi.rooms.service import room as service
from gateway.openapi.rooms.speech import room as speech
from gateway.openapi.rooms.transcriptions import room as transcriptions
from gateway.openapi.rooms.uploads import room as uploads
from gateway.openapi.rooms.videos import room as videos

ROOMS: tuple[Callable[[Here], Room], ...] = (
    transcriptions,
    speech,
    realtime,
    jobs,
    uploads,
    embeddings,
    collections,
    documents,
    chat,
    images,
    videos,
    models,
    elevenlabs,
    deepgram,
    service,
)
