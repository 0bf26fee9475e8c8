"""One engine with ears and a voice for all tests of this folder, and lines of the log as they would be written."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from gateway.telemetry.logs import formatter
from tests.gateway.speak.conftest import Server


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    server = Server(models=("tiny.en",))
    yield server
    server.close()


@dataclass
class Lines:
    """What has been logged as JSON."""

    stream: io.StringIO = field(default_factory=io.StringIO)

    @property
    def all(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.stream.getvalue().splitlines()]

    def of(self, **fields: object) -> list[dict[str, Any]]:
        """Those with these fields."""
        return [line for line in self.all if fields.items() <= line.items()]


@pytest.fixture
def lines() -> Iterator[Lines]:
    lines = Lines()
    handler = logging.StreamHandler(lines.stream)
    handler.setFormatter(formatter("json"))
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel("DEBUG")
    logging.getLogger("websockets.client").setLevel("INFO")  # in this process is the client as well
    yield lines
    root.removeHandler(handler)
    root.setLevel(level)
