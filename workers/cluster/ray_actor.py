"""A device's process on a Ray cluster.

The actor's methods are those of `Station`, with orders and replies as bytes. They run on threads of two groups: one for
orders, which are short, and one where a thread for each gateway waits for answers.
"""

from __future__ import annotations

import logging
import threading
from importlib import import_module
from typing import Any

from workers.cluster import parts
from workers.cluster.furnished import Plan
from workers.cluster.messages import Report, Welcome
from workers.cluster.station import Station

log = logging.getLogger(__name__)

POST, COLLECT = "post", "collect"
GATEWAYS = 64
"""Gateways that can wait for answers of one device at a time."""
_SWEEP = 1.0


class DeviceActor:
    """Makes and starts a device; raises what that raises, and is not there then."""

    def __init__(self, plan: Plan, name: str) -> None:
        ray: Any = import_module("ray")
        logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s %(message)s")
        furnished = plan.make(name)
        furnished.device.start()
        context = ray.get_runtime_context()
        self._plan = plan
        self._own = context.current_actor
        self._station = Station(
            furnished.device,
            furnished.packing,
            limit=plan.limit,
            facts=furnished.facts,
            busy=furnished.busy,
            node=f"{ray.util.get_node_ip_address()} ({context.get_node_id()[:8]})",
        )
        threading.Thread(target=self._sweep, name="sweep", daemon=True).start()

    def hello(self, gateway: str, link: int, report: Report) -> Welcome:
        return self._station.hello(gateway, link, report)

    def post(self, gateway: str, link: int, first: int, *made: bytes) -> None:
        self._station.post(gateway, link, first, parts.orders(made))

    def collect(self, gateway: str, link: int, ack: int, wait: float) -> bytes:
        return parts.packed(self._station.collect(gateway, link, ack, wait))

    def _sweep(self) -> None:
        station, pause = self._station, threading.Event()
        while not pause.wait(_SWEEP):
            try:
                station.sweep()
            except Exception:
                log.exception("looking after gateways failed")
            if not station.gateways and station.device.clock() - station.quiet_since > self._plan.linger:
                log.info("%s gives its place back: no gateway has used it for a while", station.device.name)
                station.device.close()
                _leave(self._own)
                return


def _leave(own: Any) -> None:
    """End this actor for good; Ray does not start it again."""
    ray: Any = import_module("ray")
    ray.kill(own, no_restart=True)
