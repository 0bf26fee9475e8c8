"""POST /v1/listen: a recording in, its words out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.deepgram import results
from gateway.deepgram.errors import REQUEST_ID
from gateway.deepgram.grouping import paragraphs, utterances
from gateway.deepgram.options import Asked
from gateway.deepgram.recording import decoded, received
from gateway.plain_words import whole_words
from gateway.state import SERVICE
from gateway.transcript_formats import plain_text
from gateway.transcriptions import cancelled_when_gone, transcribing
from speech.asr import SAMPLE_RATE, Samples
from workers.errors import Draining, Overloaded

if TYPE_CHECKING:
    from speech.engine import Engine, Segment


async def transcribe(request: web.Request) -> web.StreamResponse:
    """The route. Admission comes first, so that a full service refuses before it has read an upload."""
    service = request.app[SERVICE]
    settings = service.settings
    try:
        with service.file():
            asked = Asked(request.query, service.engine)
            async with cancelled_when_gone(request), received(request, settings.max_upload_bytes) as recording:
                channels = await decoded(recording, asked.query, settings.max_audio_seconds)
                duration = max(map(len, channels)) / SAMPLE_RATE
                service.metrics.audio("file", sum(map(len, channels)) / SAMPLE_RATE)
                segments = [await _segments(service.engine, samples, asked) for samples in channels]
    except (Overloaded, Draining) as error:
        service.metrics.refused("file", error.code)
        raise
    uuid = results.model_uuid(asked.model)
    metadata: dict[str, Any] = {
        "transaction_key": "deprecated",
        "request_id": request[REQUEST_ID],
        "sha256": recording.sha256,
        "created": results.created(),
        "duration": results.seconds(duration),
        "channels": len(channels),
        "models": [uuid],
        "model_info": {uuid: results.model_info(asked.model)},
    }
    metadata |= {name: value for name, value in (("tags", asked.query.tag), ("extra", asked.query.extra)) if value}
    return web.json_response(
        {"metadata": metadata, "results": _results(segments, asked)}, headers={"dg-request-id": request[REQUEST_ID]}
    )


async def _segments(engine: Engine, samples: Samples, asked: Asked) -> list[Segment]:
    async with transcribing(engine, samples, asked.options, asked.model) as segments:
        return [segment async for segment in segments]


def _results(channels: list[list[Segment]], asked: Asked) -> dict[str, Any]:
    query, found = asked.query, list[dict[str, Any]]()
    answer: dict[str, Any] = {"channels": [_channel(segments, asked) for segments in channels]}
    if query.utterances:
        for number, segments in enumerate(channels):
            words = whole_words(word for segment in segments for word in segment.words)
            found += utterances(words, number, query.utt_split, formatted=query.formatted)
        answer["utterances"] = sorted(found, key=lambda utterance: (utterance["start"], utterance["channel"]))
    return answer


def _channel(segments: list[Segment], asked: Asked) -> dict[str, Any]:
    query = asked.query
    words = whole_words(word for segment in segments for word in segment.words)
    confidence = sum(word.confidence for word in words) / len(words) if words else 0.0
    reading = results.alternative(plain_text(segments), words, confidence, formatted=query.formatted)
    if query.paragraphs or query.smart_format:
        reading["paragraphs"] = paragraphs(words)
    channel: dict[str, Any] = {"alternatives": [reading]}
    if query.detect_language and segments:
        channel["detected_language"] = segments[0].language
    return channel
