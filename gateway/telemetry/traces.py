"""Spans of OpenTelemetry, made after the fact from what was done and when. Imported only where traces are wanted.

The standard variables configure it: OTEL_EXPORTER_OTLP_ENDPOINT (or _TRACES_ENDPOINT), OTEL_EXPORTER_OTLP_HEADERS,
OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER and so on. Spans hold ids, sizes and seconds, never
what was said, no key and no address.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import Any

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import OTELResourceDetector, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter
from opentelemetry.trace import Link, Span, SpanKind, Status, StatusCode, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from batch_jobs.job import Job
from gateway.telemetry.times import ended, parts
from workers.task import Timing, Work

FLUSH_SECONDS = 3.0
"""What the last spans may take when the service goes down."""

CLOCK_SET = 5_000_000
"""Nanoseconds by which the system's clock and that of the devices have to part before the spans follow."""
MOST_JOBS = 4096
"""Jobs whose submitting request is remembered until they end."""

_offset = 0
_propagator = TraceContextTextMapPropagator()


class Traces:
    """Makes spans. Times are seconds on the clock of the devices (`time.monotonic`) unless said otherwise."""

    def __init__(self, exporter: SpanExporter) -> None:
        resource = Resource({"service.name": "speechlane"}).merge(OTELResourceDetector().detect())
        self._processor = BatchSpanProcessor(exporter)
        self._provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        self._provider.add_span_processor(self._processor)
        self._tracer = self._provider.get_tracer("speechlane")
        self._jobs: OrderedDict[str, Context] = OrderedDict()

    @classmethod
    def over_http(cls, endpoint: str | None) -> Traces:
        """Send them with OTLP over HTTP. `endpoint` is the collector's, as http://127.0.0.1:4318; None: as the
        variables say."""
        return cls(OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}/v1/traces" if endpoint else None))

    def close(self) -> None:
        """Send what is left. Blocks, for a few seconds at most."""
        self.flush()
        self._provider.shutdown()

    def flush(self) -> None:
        """Send what has ended. Blocks, for a few seconds at most."""
        self._processor.force_flush(round(FLUSH_SECONDS * 1000))

    def remote(self, headers: Mapping[str, str]) -> Context | None:
        """What a client's `traceparent` says it is a part of; None: nothing, or nothing that can be understood."""
        carrier = {name: headers[name] for name in ("traceparent", "tracestate") if name in headers}
        return _propagator.extract(carrier, Context()) or None if carrier else None

    def server(self, name: str, parent: Context | None, attributes: Mapping[str, Any]) -> Span:
        """A span for a request that has just come in; `end` it."""
        return self._tracer.start_span(name, parent or Context(), SpanKind.SERVER, _known(attributes))

    def root(
        self, name: str, start: float, parent: Context | None, near: Span | None, attributes: Mapping[str, Any]
    ) -> Span:
        """The root of a tree that began at `start`: below `parent`, else by itself with a link to the span `near`."""
        links = [Link(near.get_span_context())] if near is not None else []
        return self._tracer.start_span(
            name, parent or Context(), attributes=_known(attributes), links=links, start_time=unix(start)
        )

    def child(
        self, parent: Span, name: str, start: float, end: float, attributes: Mapping[str, Any] | None = None
    ) -> Span:
        """A span below another, from its start to its end."""
        span = self._tracer.start_span(name, below(parent), attributes=_known(attributes or {}), start_time=unix(start))
        span.end(unix(max(start, end)))
        return span

    def works(self, parent: Span, works: Sequence[Work]) -> None:
        """A span for each task, and below it the parts of its time."""
        for work in ended(works):
            timing = work.timing
            span = self.child(parent, work.kind, timing.queued_at, timing.ended_at, _spent(timing))
            for part in parts(work):
                self.child(span, part.name, part.start, part.end)

    def job_begins(self, job: str, request: Span) -> None:
        """The job has been handed in with this request, of which its span will be a part."""
        self._jobs[job] = below(request)
        while len(self._jobs) > MOST_JOBS:
            self._jobs.popitem(last=False)

    def job_ended(self, job: Job) -> None:
        """A span from the submission of a job to its end, with its waiting and the work on it below."""
        if job.ended is None:
            return
        started = job.started if job.started is not None else job.ended
        attributes = {
            "speechlane.job": job.id,
            "speechlane.state": str(job.state),
            "speechlane.audio_seconds": job.decoded,
            "speechlane.chunks": job.chunks,
            "speechlane.repairs": job.repairs,
            **{f"speechlane.{stage}_seconds": seconds for stage, seconds in job.timings.items()},
        }
        root = self._past("job", job.created, self._jobs.pop(job.id, Context()), attributes)
        for name, start, end in (("wait", job.created, started), ("work", started, job.ended)):
            finish(self._past(name, start, below(root), {}), round(end * 1e9))
        finish(root, round(job.ended * 1e9), "failed" if job.state == "failed" else None)

    def _past(self, name: str, start: float, parent: Context, attributes: Mapping[str, Any]) -> Span:
        """A span that has begun at a Unix time in seconds."""
        return self._tracer.start_span(name, parent, attributes=attributes, start_time=round(start * 1e9))


def below(span: Span) -> Context:
    """What is begun in this is a part of the span."""
    return set_span_in_context(span, Context())


def finish(span: Span, end: int, error: str | None = None) -> None:
    """End a span at a Unix time in nanoseconds; `error` is the code of what it failed with."""
    if error is not None:
        span.set_attribute("error.type", error)
        span.set_status(Status(StatusCode.ERROR, error))
    span.end(end)


def unix(seconds: float) -> int:
    """A moment of the devices' clock as Unix time in nanoseconds. What lies between two moments stays as long as it
    was, unless the system's clock has been set in between."""
    global _offset
    offset = time.time_ns() - time.monotonic_ns()
    if abs(offset - _offset) > CLOCK_SET:
        _offset = offset
    return round(seconds * 1e9) + _offset


def _spent(timing: Timing) -> dict[str, Any]:
    together = timing.step_seconds / timing.share_seconds if timing.share_seconds else 0.0
    return {
        "speechlane.steps": timing.steps,
        "speechlane.step_seconds": timing.step_seconds,
        "speechlane.opening_seconds": timing.opening_seconds,
        "speechlane.batch_mean": round(together, 2),
    }


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}
