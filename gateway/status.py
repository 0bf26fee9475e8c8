"""How the service is doing: the page /status, and its figures at GET /v1/status, which are those of /metrics."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import suppress
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway import pages
from gateway.health import readiness
from gateway.state import SERVICE, Service
from gateway.status_history import EVERY, LATENCIES, Buckets, Figures, History, Moment, quantile, rise, rounded
from gateway.tune.serving import PROOFS, keep_proofs

if TYPE_CHECKING:
    from speech.engine import ModelInfo
    from speech.tts import VoiceInfo
    from vision_text.embeddings.embedder import ModelInfo as EmbeddingInfo

QUANTILES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


def report(service: Service, history: History, options: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
    """Everything the page shows. No key, and nothing of what anybody said. `options`: what is proven of models."""
    figures = Figures(service.metrics.registry)
    now = history.clock()
    current = Moment.of(figures, now)
    oldest = history.moments[0] if history.moments else current
    settings = service.settings
    return {
        "state": readiness(service),
        "version": _version(),
        "now": round(now, 3),
        "started_at": service.started_at,
        "every": EVERY,
        "window": round(now - oldest.at, 1),
        "limit": settings.utilisation,
        "sessions": {
            "live": current.sessions,
            "most": settings.max_sessions,
            "parked": figures.total("speechlane_sessions_parked"),
            "admitted": figures.total("speechlane_sessions_admitted_total"),
            "protocols": figures.each("speechlane_sessions", "protocol"),
        },
        "devices": list(_devices(figures, settings.utilisation)),
        "latency": {name: _latency(oldest.latencies[name], current.latencies[name]) for name in LATENCIES},
        "refused": _refused(oldest, current),
        "jobs": {
            "state": "unavailable" if service.batch.detail else service.batch.state,
            "detail": service.batch.detail or None,
            "now": figures.each("speechlane_jobs", "state"),
            "ended": figures.each("speechlane_jobs_ended_total", "state"),
            "audio": round(figures.total("speechlane_job_audio_seconds_total"), 1),
        },
        "files": figures.total("speechlane_files"),
        "voices": {
            "speaking": current.speakers,
            "free": figures.total("speechlane_free_speakers"),
            "underruns": current.underruns,
            "lately": max(0.0, current.underruns - oldest.underruns),
            "sent": round(figures.total("speechlane_speech_sent_seconds_total"), 1),
            "made": round(figures.total("speechlane_speech_made_seconds_total"), 1),
            "wasted": round(figures.total("speechlane_wasted_audio_seconds_total"), 1),
        },
        "models": list(_models(service)),
        "options": list(options),
        "history": history.charts(current),
    }


def _devices(figures: Figures, limit: float) -> Iterable[dict[str, Any]]:
    """Null where a device does not take live streams, as that of voice activity."""
    reserved, utilisation, streams, free = (
        figures.each(f"speechlane_device_{what}", "device")
        for what in ("reserved", "utilisation", "streams", "free_streams")
    )
    queues = figures.by("speechlane_queue_tasks", "device", "lane")
    carried = figures.by("speechlane_carried_streams", "device", "model", "basis")
    for name in sorted(utilisation, key=lambda name: name not in reserved):
        yield {
            "name": name,
            "utilisation": rounded(utilisation[name]),
            "reserved": rounded(reserved.get(name)),
            "headroom": rounded(max(0.0, limit - reserved[name])) if name in reserved else None,
            "streams": streams.get(name),
            "free_streams": free.get(name),
            "queue": {lane: count for (device, lane), count in queues.items() if device == name},
            "carried": [
                {"model": model, "streams": streams, "basis": basis}
                for (device, model, basis), streams in carried.items()
                if device == name
            ],
        }


def _latency(before: Buckets, after: Buckets) -> dict[str, float | None]:
    """Quantiles of the recent past in seconds, and how many observations they are made of."""
    seen = {name: rounded(quantile(share, before, after)) for name, share in QUANTILES.items()}
    return {**seen, "count": max(rise(before, after).values(), default=0.0)}


def _refused(oldest: Moment, current: Moment) -> list[dict[str, Any]]:
    lately = rise(oldest.refused, current.refused)
    refused = [
        {"kind": key[0], "reason": key[1], "count": count, "lately": lately[key]}
        for key, count in current.refused.items()
    ]
    return sorted(refused, key=lambda one: (-one["lately"], -one["count"]))


def _models(service: Service) -> Iterable[dict[str, Any]]:
    """Those that hear, the voices, those that embed; the defaults first."""
    if (engine := service.loaded) is not None:
        for model in engine.models():
            yield _model(model, "hears", model.languages, engine.precision(model.name))
        for voice in engine.voices():
            yield _model(voice, "speaks", voice.languages)
    if (embedder := service.embeddings.loaded) is not None:
        for found in embedder.models():
            yield _model(found, "embeds")


def _model(
    info: ModelInfo | VoiceInfo | EmbeddingInfo, task: str, languages: Sequence[str] = (), precision: str | None = None
) -> dict[str, Any]:
    return {
        "name": info.name,
        "task": task,
        "languages": list(languages),
        "precision": precision,
        "aliases": list(info.aliases),
    }


def _version() -> str | None:
    try:
        return version("speechlane")
    except PackageNotFoundError:  # it runs from its source
        return None


HISTORY = web.AppKey("history", History)


async def status(request: web.Request) -> web.Response:
    """The figures of the page, for those who may see the whole of the service."""
    app = request.app
    return web.json_response(report(app[SERVICE], app[HISTORY], app[PROOFS].known.report()))


def add_status_routes(app: web.Application) -> None:
    """The page and its figures, which are kept while the application runs."""
    keep_proofs(app)
    app[HISTORY] = history = History(app[SERVICE].metrics.registry)

    async def watch(app: web.Application) -> AsyncIterator[None]:
        watching = asyncio.create_task(history.watch())
        yield
        watching.cancel()
        with suppress(asyncio.CancelledError):
            await watching

    app.cleanup_ctx.append(watch)
    app.router.add_get("/status", pages.status)
    app.router.add_get("/v1/status", status)
