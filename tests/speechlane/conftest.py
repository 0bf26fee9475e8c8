"""The service that the client library talks to."""

from tests.gateway.realtime.conftest import running, server

__all__ = ["running", "server"]
