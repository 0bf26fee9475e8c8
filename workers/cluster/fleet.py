"""Devices of one kind on a Ray cluster, as many as it has room for: placed, counted as hosts come, started again.

Every gateway of a kind runs the same code and finds the same actors by name; whichever comes first creates them. Ray
places an actor where its resources are free, spread over the hosts, starts it again when its process or host dies, and
lets it wait for a place while there is none: so a host that returns is used again. Actors outlive the gateway that
created them, because others may use them; one that nobody uses gives its place back.
"""

from __future__ import annotations

import logging
import os
import threading
import uuid
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from workers.clock import Clock, monotonic
from workers.cluster.courier import Courier
from workers.cluster.furnished import Plan
from workers.cluster.packing import Packing
from workers.cluster.ray_actor import COLLECT, GATEWAYS, POST, DeviceActor
from workers.cluster.ray_calls import RayCalls
from workers.cluster.remote import RemoteDevice

log = logging.getLogger(__name__)

NAMESPACE = "speechlane"
LOOK = 1.0
"""Seconds between two looks at the cluster."""
LONGEST = 60.0
"""Seconds between two attempts to create an actor whose device cannot be started, at most; they double."""
SETTLED = 30.0
"""Seconds for which there has to be room for another device while one that is placed is not there."""
_SAY = 30.0
"""Seconds between two lines of log that nothing is there yet."""


class NoCluster(ValueError):
    """The cluster cannot be used as it was asked for; the message says why."""


class Fleet:
    """`joined` is called with each device when it is there for the first time, on the courier's thread."""

    def __init__(
        self,
        plan: Plan,
        packing: Packing,
        *,
        address: str,
        joined: Callable[[RemoteDevice], None] = lambda device: None,
        clock: Clock = monotonic,
    ) -> None:
        self._plan, self._packing, self._address, self._joined = plan, packing, address, joined
        self._courier = Courier(clock)
        self._gateway = f"{os.uname().nodename}-{os.getpid()}-{uuid.uuid4().hex[:8]}"
        self._placed: list[tuple[RayCalls, RemoteDevice]] = []
        self._there: list[RemoteDevice] = []
        self._first = threading.Event()
        self._ending = threading.Event()
        self._placer: threading.Thread | None = None
        self._connected = False
        self._actor: Any = None
        self._room_since: float | None = None  # there seems to be room for more devices

    @property
    def devices(self) -> list[RemoteDevice]:
        """Those that were there at some time, in the order in which they came."""
        return list(self._there)

    def open(self) -> None:
        """Join the cluster and begin to place devices. Blocks until the cluster answers; raises `NoCluster`."""
        records = logging.getLogRecordFactory()
        try:
            ray: Any = import_module("ray")
        except ImportError:
            raise NoCluster("a cluster needs Ray: pip install 'speechlane[cluster]'") from None
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
            logging.getLogger("ray").setLevel(logging.ERROR)
            try:
                ray.init(
                    address=self._address, namespace=NAMESPACE, log_to_driver=False, configure_logging=False,
                    include_dashboard=False,
                )  # fmt: skip
            except (ConnectionError, RuntimeError, ValueError, TimeoutError) as error:
                raise NoCluster(
                    f"there is no Ray cluster at {self._address!r} that this host belongs to ({error}): start Ray here "
                    "with ray start --address=HEAD:6379 first"
                ) from error
            self._connected = True
        logging.setLogRecordFactory(records)  # Ray's own puts its time into every line
        self._courier.start()
        self._look()
        self._placer = threading.Thread(target=self._place, name="placer", daemon=True)
        self._placer.start()

    def wait(self, timeout: float | None = None) -> None:
        """Wait for the first device. Raises `NoCluster` when a device cannot be started, or after `timeout` seconds."""
        waited = 0.0
        while not self._first.wait(LOOK):
            failures = [device.failure for _, device in self._placed if "could not be started" in device.failure]
            if failures and len(failures) == len(self._placed):
                raise NoCluster(f"the cluster's devices cannot be used: {failures[0]}")
            waited += LOOK
            if timeout is not None and waited >= timeout:
                raise NoCluster(f"no device of the cluster was there within {timeout:g} s: {self._told()}")
            if waited % _SAY < LOOK:
                log.warning("waiting for a device of the cluster: %s", self._told())

    def close(self, timeout: float = 5.0) -> None:
        """Take leave of the devices, which stay for other gateways. Blocks. Idempotent."""
        self._ending.set()
        if self._placer is not None:
            self._placer.join(timeout)
        for _, device in self._placed:
            device.close(timeout)
        self._courier.close(timeout)
        if self._connected:
            ray: Any = import_module("ray")
            ray.shutdown()

    def _told(self) -> str:
        if not self._placed:
            need = ", ".join(f"{name}={amount:g}" for name, amount in self._plan.resources.items())
            return f"no host has room for one ({need})"
        return "; ".join(sorted({device.failure or "starting" for _, device in self._placed}))

    # -- on the placer's thread

    def _place(self) -> None:
        while not self._ending.wait(LOOK):
            try:
                self._look()
            except Exception as error:
                log.warning("the cluster does not answer: %s: %s", type(error).__name__, error)

    def _look(self) -> None:
        """Place as many devices as the hosts that are there have room for, and those whose actors are gone."""
        ray: Any = import_module("ray")
        now = self._courier.clock()
        places = sum(self._plan.places(node["Resources"]) for node in ray.nodes() if node["Alive"])
        if places <= len(self._placed):
            self._room_since = None
        elif self._room_since is None:
            self._room_since = now
        new = range(len(self._placed), places if self._may_grow(now) else 0)
        for number in new:
            calls = RayCalls()
            device = RemoteDevice(
                f"{self._plan.kind}:{number}", calls, self._courier, gateway=self._gateway, packing=self._packing
            )
            device.watch(partial(self._welcome, device))
            self._placed.append((calls, device))
        for calls, device in self._placed:
            if device.ready:
                calls.pause = LOOK
            elif calls.dead and now >= calls.retry_at:
                calls.retry_at, calls.pause = now + calls.pause, min(LONGEST, 2 * calls.pause)
                calls.bind(self._create(device.name))
        for number in new:
            self._placed[number][1].start()

    def _may_grow(self, now: float) -> bool:
        """A host that has died counts until Ray has noticed, and what has lost its place there goes first."""
        settled = self._room_since is not None and now - self._room_since > SETTLED
        return settled or all(device.ready for _, device in self._placed)

    def _create(self, name: str) -> Any:
        """The actor of this name, which somebody else may have created."""
        if self._actor is None:
            ray: Any = import_module("ray")
            need = dict(self._plan.resources)
            self._actor = ray.remote(
                num_cpus=need.pop("CPU", 0), num_gpus=need.pop("GPU", 0), resources=need, max_restarts=-1,
                max_task_retries=0, concurrency_groups={POST: 1, COLLECT: 2 * GATEWAYS},
                scheduling_strategy="SPREAD", lifetime="detached", namespace=NAMESPACE,
            )(DeviceActor)  # fmt: skip
        return self._actor.options(name=name, get_if_exists=True).remote(self._plan, name)

    # -- on the courier's thread

    def _welcome(self, device: RemoteDevice) -> None:
        if device not in self._there:
            self._there.append(device)
            self._joined(device)
            self._first.set()
