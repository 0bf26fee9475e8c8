"""POST /v1/audio/transcriptions: a recording in, its text out, in OpenAI's formats, whole or as it is made."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, aclosing, asynccontextmanager
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from aiohttp import web

from gateway.http_errors import ModelNotFound, error_fields
from gateway.state import SERVICE
from gateway.transcript_formats import delta, json_body, plain_text, token_logprobs, verbose_body
from gateway.transcription_request import TranscriptionRequest
from gateway.uploads import read_form
from speech.asr import SAMPLE_RATE, DecodeOptions, Samples
from speech.containers import decode_file
from speech.cues import cues
from speech.languages import check_language
from speech.subtitles import srt, vtt
from workers.errors import Draining, InputInvalid, Overloaded, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine, Segment

log = logging.getLogger("speechlane.http")

GONE_POLL = 0.2
"""Seconds between looks at whether the client is still there."""


async def transcribe_handler(request: web.Request) -> web.StreamResponse:
    """The route. Admission comes first, so that a full service refuses before it has read an upload."""
    service = request.app[SERVICE]
    try:
        with service.file():
            engine = service.engine
            async with (
                cancelled_when_gone(request),
                read_form(request, max_file_bytes=service.settings.max_upload_bytes) as form,
            ):
                asked = TranscriptionRequest.parse(form.fields)
                model = resolve_model(engine, asked.model)
                check_language(engine.models(), model, asked.options.language)
                samples = await decode(form.file, service.settings.max_audio_seconds)
                service.metrics.audio("file", len(samples) / SAMPLE_RATE)
                async with transcribing(engine, samples, asked.options, model) as segments:
                    if asked.stream:
                        return await _stream(request, segments, asked)
                    found = [segment async for segment in segments]
                return _whole(found, len(samples) / SAMPLE_RATE, asked)
    except (Overloaded, Draining) as error:
        service.metrics.refused("file", error.code)
        raise


def resolve_model(engine: Engine, name: str | None) -> str:
    """The loaded model for a wire name; raises `ModelNotFound`."""
    try:
        resolved: str = engine.resolve(name)
    except InputInvalid as error:
        raise ModelNotFound(error.message, param="model") from error
    return resolved


def transcribing(
    engine: Engine, samples: Samples, options: DecodeOptions, model: str
) -> AbstractAsyncContextManager[AsyncIterator[Segment]]:
    """The segments of a recording; what is still being decoded is cancelled when the context ends."""
    return aclosing(engine.transcribe(samples, options, model))


async def decode(file: BinaryIO, max_seconds: float) -> Samples:
    """All samples of the file, 16 kHz mono, decoded in a thread that stops early when this is cancelled."""
    stopped = threading.Event()

    def work() -> Samples:
        pieces: list[Samples] = []
        for piece in decode_file(file, max_seconds=max_seconds):
            if stopped.is_set():
                break
            pieces.append(piece)
        return np.concatenate(pieces) if pieces else np.zeros(0, np.float32)

    thread = asyncio.get_running_loop().run_in_executor(None, work)
    try:
        return await asyncio.shield(thread)
    except asyncio.CancelledError:
        # The thread reads the file, so the file may not be closed under it.
        stopped.set()
        await asyncio.wait([thread])
        raise
    except InputInvalid as error:
        error.param = error.param or "file"
        raise


def _whole(segments: list[Segment], duration: float, asked: TranscriptionRequest) -> web.Response:
    match asked.response_format:
        case "text":
            return web.Response(text=plain_text(segments) + "\n")
        case "srt":
            text = srt(cues(segments, until=duration))
            return web.Response(text=text, content_type="application/x-subrip", charset="utf-8")
        case "vtt":
            return web.Response(text=vtt(cues(segments, until=duration)), content_type="text/vtt", charset="utf-8")
        case "verbose_json":
            return web.json_response(verbose_body(segments, duration, asked.granularities))
        case "json":
            return web.json_response(json_body(segments, duration, logprobs=asked.logprobs))


async def _stream(
    request: web.Request, segments: AsyncIterator[Segment], asked: TranscriptionRequest
) -> web.StreamResponse:
    """Server-sent events. What fails before the first segment still gets its HTTP status."""
    done: list[Segment] = []
    segment = await anext(segments, None)
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)
    try:
        while segment is not None:
            event: dict[str, Any] = {"type": "transcript.text.delta", "delta": delta(segment, first=not done)}
            if asked.logprobs:
                event["logprobs"] = token_logprobs(segment)
            await _send(response, event)
            done.append(segment)
            segment = await anext(segments, None)
    except ConnectionError:
        raise
    except Exception as error:
        # The status is sent already: clients take an event with an error in it for the exception that it is.
        if not isinstance(error, ServingError):
            log.exception("%s failed", request.path)
            error = ServingError("The service failed on this file; its log says why.")
        await _send(response, {"error": error_fields(error)})
    else:
        finished: dict[str, Any] = {"type": "transcript.text.done", "text": plain_text(done)}
        if asked.logprobs:
            finished["logprobs"] = [entry for segment in done for entry in token_logprobs(segment)]
        await _send(response, finished)
    await response.write_eof()
    return response


async def _send(response: web.StreamResponse, event: dict[str, Any]) -> None:
    await response.write(f"data: {json.dumps(event, ensure_ascii=False)}\n\n".encode())


@asynccontextmanager
async def cancelled_when_gone(request: web.Request) -> AsyncIterator[None]:
    """Cancel what runs inside when the client closes its connection; it then ends with `ConnectionResetError`."""
    task = asyncio.current_task()
    assert task is not None
    gone = False

    async def watch() -> None:
        nonlocal gone
        # aiohttp tells nobody that a connection was lost, except by cancelling every kind of handler.
        while request.transport is not None and not request.transport.is_closing():  # noqa: ASYNC110
            await asyncio.sleep(GONE_POLL)
        gone = True
        task.cancel()

    watcher = asyncio.create_task(watch())
    try:
        yield
    except asyncio.CancelledError:
        if gone and not task.uncancel():
            raise ConnectionResetError("the client went away") from None
        raise
    finally:
        watcher.cancel()
