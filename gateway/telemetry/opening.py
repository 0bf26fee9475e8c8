"""Whether traces are wanted, and where they go. Nothing of OpenTelemetry is imported where they are not."""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gateway.telemetry.traces import Traces

log = logging.getLogger("speechlane")

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
REMEDY = "pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http"


class CannotTrace(Exception):
    """Traces were asked for and cannot be made; the message says why and what to do."""


def open_traces(endpoint: str | None) -> Traces | None:
    """Traces to `endpoint`, else to that of OpenTelemetry's variables, else None. Raises `CannotTrace`."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true" or os.environ.get("OTEL_TRACES_EXPORTER") == "none":
        return None
    if endpoint is None and not any(os.environ.get(name) for name in ENDPOINTS):
        return None
    try:
        from gateway.telemetry.traces import Traces
    except ImportError as error:
        if endpoint is not None:
            raise CannotTrace(f"otlp_endpoint needs packages that are not installed: {REMEDY}") from error
        # The variables may be meant for others on this machine.
        log.warning("no traces, though %s is set: %s", ENDPOINTS[1], REMEDY)
        return None
    protocol = os.environ.get("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    if protocol != "http/protobuf":
        log.warning("OTEL_EXPORTER_OTLP_PROTOCOL is passed over: traces go out as http/protobuf")
    log.info("traces are sent with OTLP over HTTP")
    return Traces.over_http(endpoint)
