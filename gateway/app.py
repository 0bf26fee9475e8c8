"""The application: routes, middlewares, and the life of the engine behind them."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import suppress
from typing import TYPE_CHECKING

from aiohttp import web

from gateway import health, pages
from gateway.batch.routes import add_routes
from gateway.chat.routes import add_chat_routes
from gateway.collections.background import keep_collections
from gateway.collections.routes import add_collection_routes
from gateway.connections import plain_bodies
from gateway.deepgram.errors import deepgram_errors
from gateway.deepgram.routes import add_deepgram_routes
from gateway.documents.routes import add_document_routes
from gateway.elevenlabs.errors import elevenlabs_errors
from gateway.elevenlabs.routes import add_elevenlabs_routes
from gateway.embeddings.routes import add_embedding_routes
from gateway.http_errors import errors_middleware, hide_requests_in_logs
from gateway.images.routes import add_image_routes
from gateway.openapi import add_openapi_routes
from gateway.realtime import add_realtime_route
from gateway.settings import Settings
from gateway.speak import add_speech_routes
from gateway.state import SERVICE, Service
from gateway.status import add_status_routes
from gateway.telemetry.access import name_answer, observed
from gateway.transcriptions import transcribe_handler
from gateway.tune.serving import note_speech
from gateway.videos.routes import add_video_routes
from gateway.vosk.handler import add_vosk_routes
from speech.models import ModelError

if TYPE_CHECKING:
    from speech.engine import Engine

log = logging.getLogger("speechlane")

StartEngine = Callable[[Settings], Awaitable["Engine"]]


async def start_engine(settings: Settings) -> Engine:
    """Load the models that the settings name."""
    # Importing torch takes seconds, in which the loop has to answer /healthz.
    module = await asyncio.to_thread(importlib.import_module, "speech.engine")
    tuned = importlib.import_module("speech.tuned")
    engine: Engine = await module.Engine.start(
        module.EngineSettings(
            models=settings.models,
            voices=settings.voices,
            piper_python=settings.piper_python,
            device=settings.device,
            threads=settings.threads,
            asr_engine=settings.asr_engine,
            utilisation=settings.utilisation,
            admission=settings.admission,
            download=settings.download,
            cluster=settings.cluster,
            cluster_resources=settings.cluster_resources,
            tuned=tuned.found,
        )
    )
    return engine


def build_app(settings: Settings, start: StartEngine = start_engine) -> web.Application:
    """The whole service. The engine is started by `start` in the background as soon as the application runs."""
    hide_requests_in_logs()
    service = Service(settings)
    app = web.Application(
        middlewares=[
            observed,
            pages.security_headers,
            errors_middleware,
            elevenlabs_errors,
            deepgram_errors,
            service.guard.origins.middleware,
            plain_bodies,
            service.guard.middleware,
        ]
    )
    app[SERVICE] = service
    app.on_response_prepare.append(service.guard.origins.on_prepare)
    app.on_response_prepare.append(name_answer)
    app.router.add_get("/healthz", health.healthz)
    app.router.add_get("/readyz", health.readyz)
    app.router.add_get("/metrics", health.metrics)
    app.router.add_get("/v1/models", health.list_models)
    app.router.add_get("/v1/models/{model:.+}", health.get_model)
    add_realtime_route(app)
    app.router.add_post("/v1/audio/transcriptions", transcribe_handler)
    add_speech_routes(app)
    add_elevenlabs_routes(app)
    add_deepgram_routes(app)
    add_routes(app)
    add_collection_routes(app)
    add_embedding_routes(app)
    add_document_routes(app)
    add_chat_routes(app)
    add_image_routes(app)
    add_video_routes(app)
    add_vosk_routes(app, pages.index)
    app.router.add_get("/jobs", pages.jobs)
    app.router.add_get("/voice", pages.voice)
    app.router.add_get("/vision", pages.vision)
    add_status_routes(app)
    add_openapi_routes(app)
    app.router.add_static("/static/", pages.WEB)
    app.cleanup_ctx.append(_background(service, start))
    if service.guard.limits is not None:
        app.cleanup_ctx.append(service.guard.limits.keep)
    app.cleanup_ctx.append(keep_collections)
    app.on_cleanup.append(_close_assistant)
    app.on_cleanup.append(_close_documents)
    app.on_cleanup.append(_close_traces)
    return app


def _background(service: Service, start: StartEngine) -> Callable[[web.Application], AsyncIterator[None]]:
    async def run(app: web.Application) -> AsyncIterator[None]:
        service.loading = asyncio.create_task(_load(service, start))
        lag = asyncio.create_task(service.metrics.watch_loop())
        service.metrics.watch_engine(lambda: service.loaded)
        batch = asyncio.create_task(service.batch.run(service.when_loaded))
        embeddings = asyncio.create_task(service.embeddings.run(service.when_loaded))
        vision = asyncio.create_task(service.vision.run(service.when_loaded))
        noting = asyncio.create_task(note_speech(app))
        yield
        noting.cancel()
        with suppress(asyncio.CancelledError):
            await noting
        # First, because its worker uses the engine.
        batch.cancel()
        with suppress(asyncio.CancelledError):
            await batch
        embeddings.cancel()
        with suppress(asyncio.CancelledError):
            await embeddings
        await service.videos.close()
        vision.cancel()
        with suppress(asyncio.CancelledError):
            await vision
        service.loading.cancel()
        lag.cancel()
        with suppress(asyncio.CancelledError):
            await service.loading
        with suppress(asyncio.CancelledError):
            await lag
        if service.loaded is not None:
            await service.loaded.close()

    return run


async def _close_assistant(app: web.Application) -> None:
    await app[SERVICE].assistant.close()


async def _close_documents(app: web.Application) -> None:
    await app[SERVICE].documents.close()


async def _close_traces(app: web.Application) -> None:
    traces = app[SERVICE].metrics.traces
    if traces is not None:
        await asyncio.to_thread(traces.close)


async def _load(service: Service, start: StartEngine) -> None:
    try:
        service.engine = await start(service.settings)
    except Exception as error:
        service.failure = error
        # A model that is missing or damaged is said in a line; a traceback is for what nobody foresaw.
        foreseen = isinstance(error, ModelError | ValueError)
        log.error("the models could not be loaded: %s", error, exc_info=None if foreseen else error)
