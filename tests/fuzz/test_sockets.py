"""Clients of all protocols at once, who say anything in any order and go as they like, to the real service.

In the end nobody's session, stream, speech or task is left, and nothing in the log says that the service was at fault.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterator
from random import Random

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    MultipleResults,
    RuleBasedStateMachine,
    consumes,
    initialize,
    multiple,
    rule,
    run_state_machine_as_test,
)

from gateway.wyoming.listener import WyomingListener
from tests.fuzz.conftest import CHECKS, FACTOR
from tests.fuzz.wires import PROTOCOLS, Protocol, Wire
from tests.gateway.speak.conftest import Running, Server

EXAMPLES, STEPS = 1, 12
FREED_SECONDS = 30.0


class Faults(logging.Handler):
    """What the log says that should not be there."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.records: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if record.levelno >= logging.ERROR or record.exc_info:
            self.records.append(f"{record.name}: {record.getMessage()} {record.exc_info}")


class Place:
    """The service, and what it held before anybody came."""

    def __init__(self) -> None:
        self.server = Server(models=("tiny.en",))
        self.running: Running = self.server.serve(resume_seconds=0.2)
        sock = socket.create_server(("127.0.0.1", 0))
        self.wyoming: int = sock.getsockname()[1]
        self.listener = WyomingListener(self.running.service)
        self.server.run(self.listener.start(sock))
        self.faults = Faults()
        logging.getLogger().addHandler(self.faults)
        self.tasks = self.count_tasks()

    def count_tasks(self) -> int:
        async def count() -> int:
            return len(asyncio.all_tasks())

        number: int = self.server.run(count())
        return number

    def held(self) -> dict[str, int]:
        """What is left of those who came."""
        status = self.server.engine.status()
        return {
            "sessions": sum(self.running.service._sessions.values()),
            "streams": sum(device.streams for device in status.devices),
            "speeches": status.speech.speaking,
            "tasks": max(0, self.count_tasks() - self.tasks),
        }

    def close(self) -> None:
        logging.getLogger().removeHandler(self.faults)
        self.server.run(self.listener.close())
        self.running.stop()
        self.server.close()


@pytest.fixture(scope="module")
def place() -> Iterator[Place]:
    place = Place()
    yield place
    place.close()


def test_anybody_says_anything(place: Place) -> None:
    class Clients(RuleBasedStateMachine):
        """Up to as many of them as there are steps."""

        wires = Bundle("wires")

        def __init__(self) -> None:
            super().__init__()
            self.all: list[Wire] = []

        @initialize(target=wires, protocols=st.lists(st.sampled_from(PROTOCOLS), min_size=2, max_size=6))
        def some_come(self, protocols: list[Protocol]) -> MultipleResults[Wire]:
            return multiple(*map(self.come_in, protocols))

        def come_in(self, protocol: Protocol) -> Wire:
            wire = Wire(protocol, place.running.address, place.wyoming)
            self.all.append(wire)
            return wire

        @rule(target=wires, protocol=st.sampled_from(PROTOCOLS))
        def come(self, protocol: Protocol) -> Wire:
            return self.come_in(protocol)

        @rule(wire=wires, random=st.randoms(use_true_random=False), several=st.integers(1, 8), times=st.integers(0, 3))
        def ask(self, wire: Wire, random: Random, several: int, times: int) -> None:
            for _ in range(several):
                wire.ask(random, times)

        @rule(wire=wires, random=st.randoms(use_true_random=False), times=st.integers(0, 2))
        def speak(self, wire: Wire, random: Random, times: int) -> None:
            wire.speak(random, times)

        @rule(wire=wires)
        def is_alive(self, wire: Wire) -> None:
            if not wire.closed:
                wire.is_alive()

        @rule(wire=consumes(wires), politely=st.booleans())
        def go(self, wire: Wire, politely: bool) -> None:
            if politely:
                wire.leave()
            else:
                wire.cut()

        def teardown(self) -> None:
            for wire in self.all:
                wire.end()
            freed = place.running.until(lambda: not any(place.held().values()), FREED_SECONDS)
            assert freed, place.held()
            assert not place.faults.records, place.faults.records

    phases = [Phase.explicit, Phase.reuse, Phase.generate]
    run_state_machine_as_test(
        Clients,
        settings=settings(
            max_examples=EXAMPLES * FACTOR,
            stateful_step_count=STEPS,
            deadline=None,
            phases=phases,
            suppress_health_check=CHECKS,
        ),
    )
