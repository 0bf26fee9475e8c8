"""How a gateway reaches a device, whatever carries the calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from workers.cluster.messages import Order, Report

Done = Callable[[Any], None]
"""Takes what a call returned, or the exception that it ended with. From any thread, soon, and never twice."""


class Calls(Protocol):
    """Of one device. None of these waits or raises: what goes wrong is told to `done`, or never told.

    A call may be lost, come twice or late: the messages in it are numbered.
    """

    def hello(self, gateway: str, link: int, report: Report, done: Done) -> None:
        """`Station.hello`: a `Welcome`."""

    def post(self, gateway: str, link: int, first: int, orders: Sequence[Order]) -> None:
        """`Station.post`."""

    def collect(self, gateway: str, link: int, ack: int, wait: float, done: Done) -> None:
        """`Station.collect`: a `Reply`, or None when the gateway is not known there."""
