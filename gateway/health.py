"""Is it alive, is it ready, what does it serve, how is it doing: /healthz, /readyz, /v1/models, /metrics."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from aiohttp import web
from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4

from gateway.auth import presented_key
from gateway.batch.lane import Lane
from gateway.device_metrics import lane_name
from gateway.http_errors import ModelNotFound
from gateway.state import SERVICE, Service
from gateway.vision.room import Room
from workers.errors import ServingError

if TYPE_CHECKING:
    from speech.engine import EngineStatus, ModelInfo
    from vision_text.embeddings.embedder import ModelInfo as EmbeddingInfo


async def healthz(request: web.Request) -> web.Response:
    """200 as long as the event loop runs; a supervisor restarts the process when this stops answering."""
    return web.json_response({"status": "alive"})


async def readyz(request: web.Request) -> web.Response:
    """200 when new sessions are welcome, else 503 with the reason; a load balancer looks here.

    Without keys, and with one of the scope admin, it also tells the load.
    """
    service = request.app[SERVICE]
    state = readiness(service)
    body: dict[str, Any] = {"status": state}
    engine = service.loaded
    if engine is not None and await _may_look(service, request):
        status = engine.status()
        body |= {
            "sessions": service.sessions,
            "max_sessions": service.settings.max_sessions,
            "devices": _devices(status),
            "carried": _carried(status),
            "speech": {"speaking": status.speech.speaking, "free": status.speech.free},
            "batch": _batch(service.batch),
            "embeddings": service.embeddings.state,
            "vision": {room.kind.name: room.state for room in service.vision.rooms},
        }
    ready = state == "ready"
    return web.json_response(body, status=200 if ready else 503, headers={} if ready else {"Retry-After": "5"})


def readiness(service: Service) -> str:
    """One word: ready, loading, failed (the models could not be loaded), draining or device_dead."""
    if service.draining.is_set():
        return "draining"
    if service.failure is not None:
        return "failed"
    if service.loaded is None:
        return "loading"
    return "ready" if service.loaded.status().ready else "device_dead"


async def _may_look(service: Service, request: web.Request) -> bool:
    """Without keys everybody who can ask; with keys those that may see the whole of the service."""
    if not service.guard.open and presented_key(request) is None:
        return False
    try:
        return "admin" in (await service.guard.admit(request)).scopes
    except ServingError:
        return False


def _devices(status: EngineStatus) -> list[dict[str, Any]]:
    return [
        {
            "name": device.name,
            "utilisation": round(device.utilisation, 4),
            "reserved": round(device.reserved, 4),
            "streams": device.streams,
            "free_streams": device.free_streams,
            "basis": device.basis,
            "queue": {lane_name(lane): count for lane, count in device.queue.items()},
        }
        for device in status.devices
    ]


def _carried(status: EngineStatus) -> list[dict[str, Any]]:
    """`identity` is what a measured number holds for; `changed`, what has since become of that of the newest."""
    return [
        {
            "model": one.model,
            "task": one.task,
            "device": one.device,
            "streams": one.streams,
            "basis": one.basis,
            "objective": one.promise.objective if one.promise is not None else None,
            "measured_at": one.promise.at if one.promise is not None else None,
            "changed": list(one.changed),
            "identity": dict(one.identity),
        }
        for one in status.carried
    ]


def _batch(lane: Lane) -> dict[str, str | None]:
    """Jobs are no condition of readiness: live speech goes on without them."""
    return {"status": "unavailable" if lane.detail else lane.state, "detail": lane.detail or None}


async def list_models(request: web.Request) -> web.Response:
    """Every loaded model, in OpenAI's list."""
    service = request.app[SERVICE]
    data = [_model(info, service) for info in service.engine.models() if info.loaded]
    data += [_embedding_model(info, service) for info in _embedding_models(service)]
    data += [_vision_model(name, room, service) for room in service.vision.rooms for name in room.names]
    return web.json_response({"object": "list", "data": data})


async def get_model(request: web.Request) -> web.Response:
    """One loaded model by its name or an alias."""
    service = request.app[SERVICE]
    asked = request.match_info["model"]
    for info in service.engine.models():
        if info.loaded and (info.name == asked or asked in info.aliases):
            return web.json_response(_model(info, service) | {"id": asked})
    for found in _embedding_models(service):
        if found.name == asked or asked in found.aliases:
            return web.json_response(_embedding_model(found, service) | {"id": asked})
    for room in service.vision.rooms:
        if room.names and (asked in room.names or asked in room.kind.aliases):
            return web.json_response(_vision_model(room.resolve(asked), room, service) | {"id": asked})
    raise ModelNotFound(f"The model {asked[:200]!r} is not loaded here; GET /v1/models lists those that are.")


def _model(info: ModelInfo, service: Service) -> dict[str, Any]:
    return {
        "id": info.name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "speechlane",
        "task": info.task,
        "languages": list(info.languages),
        "aliases": list(info.aliases),
    }


def _embedding_models(service: Service) -> list[EmbeddingInfo]:
    embedder = service.embeddings.loaded
    return embedder.models() if embedder is not None else []


def _embedding_model(info: EmbeddingInfo, service: Service) -> dict[str, Any]:
    return {
        "id": info.name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "speechlane",
        "task": "embedding",
        "dimensions": info.dimensions,
        "sizes": list(info.sizes),
        "max_tokens": info.most_tokens,
        "pictures": info.pictures,
        "aliases": list(info.aliases),
    }


def _vision_model(name: str, room: Room[Any], service: Service) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": service.started_at,
        "owned_by": "speechlane",
        "task": room.kind.name,
        "loaded": name in room.loaded,
        "aliases": list(room.kind.aliases) if name == room.names[0] else [],
    }


async def metrics(request: web.Request) -> web.Response:
    """Prometheus' text format."""
    found = request.app[SERVICE].metrics
    found.tasks(len(asyncio.all_tasks()))
    body = found.exposition()
    return web.Response(body=body, headers={"Content-Type": CONTENT_TYPE_PLAIN_0_0_4})
