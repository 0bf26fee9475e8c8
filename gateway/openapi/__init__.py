"""The OpenAPI document that the service publishes of itself at /openapi.json, and the page to read it at /docs."""

from __future__ import annotations

from gateway.openapi.routes import add_openapi_routes

__all__ = ["add_openapi_routes"]
