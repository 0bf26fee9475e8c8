"""Where in a trace the work of this context belongs: below what a client has told with `traceparent`."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import TYPE_CHECKING

from aiohttp import web

from gateway.http_errors import CLIENT_GONE
from workers.labels import label

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Span

    from gateway.telemetry.traces import Traces


@dataclass(slots=True)
class Place:
    """`parent` is the client's own span, if it has one; `span` that of its request. `status` is set at the end."""

    parent: Context | None
    span: Span
    status: int = 500


PLACE: ContextVar[Place | None] = ContextVar("place", default=None)
"""None where nothing is traced, or nobody has asked for it."""


@contextmanager
def traced(traces: Traces | None, request: web.Request, method: str, route: str) -> Iterator[Place | None]:
    """A span for a request; of a socket it lasts as long as that. Nothing without `traces`."""
    if traces is None:
        yield None
        return
    from gateway.telemetry.traces import finish

    parent = traces.remote(request.headers)
    attributes = {"http.request.method": method, "http.route": route, "url.scheme": request.scheme}
    place = Place(parent, traces.server(f"{method} {route}", parent, attributes))
    label(trace=f"{place.span.get_span_context().trace_id:032x}")
    token = PLACE.set(place)
    try:
        yield place
    except web.HTTPException as answer:
        place.status = answer.status
        raise
    except asyncio.CancelledError:
        place.status = CLIENT_GONE
        raise
    finally:
        PLACE.reset(token)
        place.span.set_attribute("http.response.status_code", place.status)
        finish(place.span, time.time_ns(), str(place.status) if place.status >= 500 else None)
