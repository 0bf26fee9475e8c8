"""Health, metrics, pages, and this document itself."""

from __future__ import annotations

from typing import Annotated, Literal, NotRequired

from pydantic import Field
from typing_extensions import TypedDict

from gateway.openapi.guides import GUIDES
from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, header, in_path
from gateway.openapi.shapes import Json, answered

TAG = "Service"
HTML = "text/html"
Count = Annotated[int, Field(ge=0)]
PAGES = {
    "/": ("page", "The page for live transcription", "A WebSocket here is vosk's."),
    "/jobs": ("jobsPage", "The page for recordings", ""),
    "/voice": ("voicePage", "The page for voices and conversations", ""),
    "/vision": ("visionPage", "The page for pictures and clips", ""),
    "/status": ("statusPage", "The page that shows how the service is doing", ""),
    "/docs": ("docsPage", "The page of this document", ""),
}


class Alive(TypedDict):
    """It answers."""

    status: Literal["alive"]


class QueueOfLanes(TypedDict):
    """Tasks that wait, by lane."""

    final: Count
    partial: Count
    interactive: Count
    bulk: Count


class DeviceState(TypedDict):
    """How busy a device is: shares of its time that it works, and that it has promised."""

    name: str
    utilisation: float
    reserved: float
    streams: Count
    free_streams: Count
    basis: Literal["measured", "estimated"]
    queue: QueueOfLanes


class StreamsCarried(TypedDict):
    """How many streams of one model alone a device carries, by measurement or by estimate, and what that holds for."""

    model: str
    task: Literal["asr", "tts"]
    device: str
    streams: Count
    basis: Literal["measured", "estimated"]
    objective: str | None
    measured_at: float | None
    changed: list[str]
    identity: dict[str, str]


class SpeechState(TypedDict):
    """Streams of speech now, and how many more live listeners would be taken."""

    speaking: Count
    free: Count


class BatchState(TypedDict):
    """Whether jobs are taken; `detail` is what is wrong."""

    status: Literal["off", "opening", "ready", "unavailable"]
    detail: str | None


Loading = Literal["off", "not_installed", "idle", "loading", "failed", "ready"]


class VisionState(TypedDict):
    """Models that see and draw; `idle`: loaded at the first request."""

    chat: Loading
    image: Loading
    video: Loading


class Readiness(TypedDict):
    """Whether new sessions are welcome; the load, without keys and for those with the scope `admin`."""

    status: Literal["ready", "loading", "failed", "draining", "device_dead"]
    sessions: NotRequired[Count]
    max_sessions: NotRequired[Count]
    devices: NotRequired[list[DeviceState]]
    carried: NotRequired[list[StreamsCarried]]
    speech: NotRequired[SpeechState]
    batch: NotRequired[BatchState]
    embeddings: NotRequired[Literal["off", "not_installed", "loading", "failed", "ready"]]
    vision: NotRequired[VisionState]


def room(here: Here) -> Room:
    """The routes."""
    retry = {"Retry-After": header("Seconds after which to ask again.", type="integer")}
    ready = answered(Readiness)
    return Room(
        tag=TAG,
        about="Health checks, metrics and pages. Pages, health and this document need no key.",
        operations=[
            Operation(
                method="GET", path="/healthz", id="isAlive", tag=TAG, summary="Is it alive",
                answers={200: answer("As long as the process answers.", answered(Alive))},
            ),
            Operation(
                method="GET", path="/readyz", id="isReady", tag=TAG, summary="Does it take work, and how much more",
                answers={
                    200: answer("It does.", ready),
                    503: answer("It does not, for this reason.", ready, headers=retry),
                },
            ),
            Operation(
                method="GET", path="/metrics", id="getMetrics", tag=TAG, summary="Figures for Prometheus",
                answers={200: answer("Its text format.", {"type": "string"}, "text/plain")}, fails=(500,),
            ),
            Operation(
                method="GET", path="/v1/status", id="getStatus", tag=TAG, summary="How the service is doing",
                description="The figures of the page `/status`, which are those of `/metrics`, with their recent past.",
                answers={200: answer("The figures.", {"type": "object", "required": ["state", "devices", "latency"]})},
                fails=(500,),
            ),
            Operation(
                method="GET", path="/openapi.json", id="getDocument", tag=TAG, summary="This document",
                answers={200: answer("In OpenAPI 3.1.", {"type": "object", "required": ["openapi", "info", "paths"]})},
                fails=(500,),
            ),
            *(
                Operation(
                    method="GET", path=path, id=id, tag=TAG, summary=summary, description=text,
                    answers={200: answer("The page.", {"type": "string"}, HTML)},
                )
                for path, (id, summary, text) in PAGES.items()
            ),
            Operation(
                method="GET", path="/docs/{guide}", id="getGuide", tag=TAG, summary="A guide",
                description="What WebSockets speak, formats, keys and limits, in words.",
                parameters=[in_path("guide", "Its file.", **_guides())],
                answers={200: answer("Markdown.", {"type": "string"}, "text/plain")}, fails=(404,),
                at="/docs/realtime.md",
            ),
        ],
    )  # fmt: skip


def _guides() -> Json:
    return {"enum": sorted(GUIDES)} if GUIDES else {}
