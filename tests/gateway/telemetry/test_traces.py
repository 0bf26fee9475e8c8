"""Spans of real work: an utterance over a real socket, a speech, a file, and their way to a collector."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, FormData, web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from batch_jobs.job import Job, JobOptions, State
from gateway.settings import Settings
from gateway.telemetry.opening import open_traces
from gateway.telemetry.traces import Traces
from tests.conftest import ROOT, clean_environment
from tests.gateway.realtime.client import DATA, PCM, recording, session, silence, update
from tests.gateway.speak.conftest import Running, Server
from tests.gateway.telemetry.conftest import Lines

CLIP = "austen-0870.wav"
TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
TRACEPARENT = {"traceparent": f"00-{TRACE}-{SPAN}-01"}


class Spans:
    """What has been made, and what it is a part of."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.traces = Traces(self.exporter)

    @property
    def all(self) -> list[ReadableSpan]:
        self.traces.flush()
        return list(self.exporter.get_finished_spans())

    def named(self, name: str) -> list[ReadableSpan]:
        return [span for span in self.all if span.name == name]

    def below(self, span: ReadableSpan) -> list[ReadableSpan]:
        """Its children, in the order of their beginnings."""
        assert span.context is not None
        found = [one for one in self.all if one.parent is not None and one.parent.span_id == span.context.span_id]
        return sorted(found, key=lambda one: one.start_time or 0)

    async def until(self, name: str, count: int = 1) -> list[ReadableSpan]:
        """The spans of this name, once there are so many."""
        async with asyncio.timeout(20):
            while len(found := await asyncio.to_thread(self.named, name)) < count:
                await asyncio.sleep(0.05)
        return found


@pytest.fixture
def spans() -> Iterator[Spans]:
    spans = Spans()
    yield spans
    spans.traces.close()


@asynccontextmanager
async def traced(server: Server, spans: Spans | None, **settings: Any) -> AsyncIterator[Running]:
    running = await asyncio.to_thread(server.serve, **settings)
    if spans is not None:
        running.service.metrics.traces = spans.traces
    try:
        yield running
    finally:
        # The exporter outlives the application, for a look at what it has got.
        if spans is not None:
            running.service.metrics.traces = None
        await asyncio.to_thread(running.stop)


async def say(running: Running, **options: Any) -> dict[str, Any]:
    """One utterance, as fast as it goes; its final."""
    async with session(
        f"ws://{running.address}/v1/realtime?intent=transcription", update(format=PCM), **options
    ) as client:
        await client.append(recording(CLIP) + silence(1.5), 0.1)
        return await client.until(lambda event: event["type"].endswith("transcription.completed"))


def seconds(span: ReadableSpan) -> float:
    assert span.start_time is not None and span.end_time is not None
    return (span.end_time - span.start_time) / 1e9


def nested(spans: Spans, span: ReadableSpan) -> None:
    """What is below it lies within it, and so on."""
    assert span.start_time is not None and span.end_time is not None and span.start_time <= span.end_time
    for child in spans.below(span):
        assert span.start_time <= (child.start_time or 0) and (child.end_time or 0) <= span.end_time, child.name
        nested(spans, child)


def in_order(parts: list[ReadableSpan]) -> None:
    """Each begins where the one before has ended."""
    for one, next_one in itertools.pairwise(parts):
        assert one.end_time == next_one.start_time, (one.name, next_one.name)


async def test_an_utterance_is_one_tree_below_the_clients_span(server: Server, spans: Spans, lines: Lines) -> None:
    async with traced(server, spans) as running:
        final = await say(running, additional_headers=TRACEPARENT)
        (root,) = await spans.until("utterance")
    assert root.context is not None and root.parent is not None
    assert (f"{root.context.trace_id:032x}", f"{root.parent.span_id:016x}") == (TRACE, SPAN)
    nested(spans, root)
    children = spans.below(root)
    kinds = [span.name for span in children]
    assert kinds.count("vad") == kinds.count("delivery") == 1
    assert kinds.count("final") >= 1 <= kinds.count("partial")
    for child in children:
        parts = spans.below(child)
        in_order(parts)
        if child.name == "final":
            assert [part.name for part in parts] == ["queue", "encode", "decode"]
            assert sum(map(seconds, parts)) == pytest.approx(seconds(child), abs=1e-6)
            spent = dict(child.attributes or {})
            assert 0 < float(str(spent["speechlane.opening_seconds"])) < float(str(spent["speechlane.step_seconds"]))
            assert float(str(spent["speechlane.step_seconds"])) <= seconds(parts[1]) + seconds(parts[2]) + 1e-3
        elif child.name == "vad":
            assert [part.name for part in parts] == ["queue", "run"]
    delivery = next(span for span in children if span.name == "delivery")
    last = max(span.end_time or 0 for span in children if span.name == "final")
    assert last <= (delivery.start_time or 0)
    assert delivery.end_time == root.end_time
    about = dict(root.attributes or {})
    assert about["speechlane.item"] == final["item_id"]
    assert about["speechlane.commit_reason"] == "vad"
    assert 5 < float(str(about["speechlane.audio_seconds"])) < 9
    told = json.dumps([dict(span.attributes or {}) for span in spans.all])
    assert "Dashwood" not in told
    # The lines of the log name the same session, and the trace.
    (begun,) = [line for line in lines.of(session=about["speechlane.session"]) if "begins" in line["event"]]
    assert begun["trace"] == TRACE
    (said,) = lines.of(event="utterance final", session=about["speechlane.session"])
    assert said["item"] == final["item_id"] and said["lag_seconds"] > 0 and said["decode_seconds"] > 0
    assert "Dashwood" not in lines.stream.getvalue()


async def test_without_a_clients_span_each_utterance_is_a_trace_with_a_link(server: Server, spans: Spans) -> None:
    async with traced(server, spans) as running:
        await say(running)
        await say(running, additional_headers={"traceparent": "00-nonsense"})
        utterances = await spans.until("utterance", 2)
        sockets = await spans.until("GET /v1/realtime", 2)
    ids = set()
    for root in utterances:
        assert root.parent is None and root.context is not None
        ids.add(root.context.trace_id)
        (link,) = root.links
        assert link.context.span_id in {socket.context.span_id for socket in sockets if socket.context}
    assert len(ids) == 2
    assert all((socket.attributes or {})["http.response.status_code"] == 101 for socket in sockets)


async def test_a_session_in_the_log_from_its_beginning_to_its_end(server: Server, lines: Lines) -> None:
    async with traced(server, None, log_transcripts=True) as running:
        await say(running)
        async with asyncio.timeout(10):
            while not (ends := [line for line in lines.all if " ends: " in line["event"]]):
                await asyncio.sleep(0.05)
    (end,) = ends
    of_it = [line["event"] for line in lines.of(session=end["session"])]
    first, last = of_it.index("utterance committed"), of_it.index("utterance final")
    assert "begins" in of_it[0] and 0 < first < last < of_it.index(end["event"])
    assert end["event"].endswith("the client has closed the connection")
    assert end["code"] == "left" and end["protocol"] == "realtime" and end["key"] == "local"
    assert (end["utterances"], end["failed_utterances"]) == (1, 0)
    assert 8 < end["audio_seconds"] < 9 and 0 < end["slowest_final_seconds"] < end["seconds"]
    (said,) = lines.of(event="utterance final")
    assert "Dashwood" in said["text"], "asked for with log_transcripts"


async def test_requests_have_spans_and_lines(server: Server, spans: Spans, lines: Lines) -> None:
    async with traced(server, spans) as running, ClientSession(f"http://{running.address}") as http:
        form = FormData()
        form.add_field("file", (DATA / CLIP).read_bytes(), filename="secret-name.wav")
        form.add_field("model", "tiny.en")
        async with http.post("/v1/audio/transcriptions", data=form, headers=TRACEPARENT) as answer:
            assert answer.status == 200
        async with http.get("/v1/models/no%20such?key=secret-key") as answer:
            assert answer.status == 404
        async with http.get("/healthz") as answer:
            assert answer.status == 200
        async with http.post(
            "/v1/audio/speech", json={"model": "tts-1", "input": "One. Two three four.", "voice": "heart"}
        ) as answer:
            assert answer.status == 200 and await answer.read()
        (request,) = await spans.until("POST /v1/audio/transcriptions")
        (speech,) = await spans.until("speech")
        await spans.until("POST /v1/audio/speech")
    assert request.context is not None and f"{request.context.trace_id:032x}" == TRACE
    assert (request.attributes or {})["http.response.status_code"] == 200
    assert not spans.named("GET /healthz")
    (line,) = lines.of(logger="speechlane.access", route="/v1/audio/transcriptions")
    assert line["status"] == 200 and line["key"] == "local" and line["trace"] == TRACE
    assert line["bytes_in"] > 200_000 and line["bytes_out"] > 50 and line["seconds"] > 0
    (missing,) = lines.of(logger="speechlane.access", status=404)
    assert missing["route"] == "/v1/models/{model}"
    assert not [line for line in lines.all if "secret" in json.dumps(line)]
    # Speech: a span for each segment, with its plan, its windows and its first sound.
    nested(spans, speech)
    segments = spans.below(speech)
    assert segments and all(span.name == "segment" for span in segments)
    for segment in segments:
        kinds = [span.name for span in spans.below(segment)]
        assert kinds.count("plan") == kinds.count("first_sound") == 1 <= kinds.count("window")
    assert (speech.attributes or {})["speechlane.outcome"] == "done"
    assert 0.5 < float(str((speech.attributes or {})["speechlane.sound_seconds"])) < 5


def test_a_job_is_a_part_of_the_request_that_handed_it_in(spans: Spans) -> None:
    request = spans.traces.server("POST /v1/batch/jobs", None, {})
    spans.traces.job_begins("job_1", request)
    request.end()
    timings = {"asr": 1.5}
    job = Job(
        "job_1", "name.wav", JobOptions(), State.DONE, "", created=100.0, started=102.0, ended=110.0, timings=timings
    )
    spans.traces.job_ended(job)
    spans.traces.job_ended(job)  # of one that came in elsewhere
    mine, other = spans.named("job")
    assert mine.parent is not None and mine.parent.span_id == request.get_span_context().span_id
    assert other.parent is None
    assert [(span.name, seconds(span)) for span in spans.below(mine)] == [("wait", 2.0), ("work", 8.0)]
    assert (mine.attributes or {})["speechlane.asr_seconds"] == 1.5
    assert "name.wav" not in str(mine.attributes)


async def test_a_collector_gets_them_over_http(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    got: list[tuple[str, ExportTraceServiceRequest]] = []

    async def collect(request: web.Request) -> web.Response:
        got.append((request.headers["Content-Type"], ExportTraceServiceRequest.FromString(await request.read())))
        return web.Response()

    app = web.Application()
    app.router.add_post("/v1/traces", collect)
    runner = web.AppRunner(app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    monkeypatch.setenv("OTEL_SERVICE_NAME", "ears")
    endpoint = f"http://127.0.0.1:{runner.addresses[0][1]}"
    async with traced(server, None, otlp_endpoint=endpoint) as running:
        await say(running)
        async with ClientSession(f"http://{running.address}") as http, http.get("/v1/models") as answer:
            assert answer.status == 200
    await runner.cleanup()
    assert {kind for kind, _ in got} == {"application/x-protobuf"}
    resources = [resource for _, request in got for resource in request.resource_spans]
    names = {span.name for resource in resources for scope in resource.scope_spans for span in scope.spans}
    assert {"utterance", "final", "decode", "delivery", "GET /v1/models", "GET /v1/realtime"} <= names
    about = {pair.key: pair.value.string_value for pair in resources[0].resource.attributes}
    assert about["service.name"] == "ears"


def test_traces_are_off_unless_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_SDK_DISABLED"):
        monkeypatch.delenv(name, raising=False)
    assert open_traces(None) is None
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    assert open_traces(None) is None
    with pytest.raises(ValueError, match="without a key in it"):
        Settings(otlp_endpoint="http://user:secret@collector:4318")


def test_what_is_off_is_not_even_imported() -> None:
    code = (
        "import sys; sys.modules['opentelemetry'] = None\n"
        "from gateway.app import build_app; from gateway.settings import Settings\n"
        "build_app(Settings()); import gateway.server\n"
        "assert 'gateway.telemetry.traces' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=clean_environment(), check=True, timeout=60)
