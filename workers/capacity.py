"""Admits sessions, not chunks: a live stream reserves a share of its device's step time for as long as it lasts.

Once a session is in, its audio is never refused; so the refusal has to come at the door, at once and with an honest
time to come back.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Sequence
from typing import Self

from workers.device import Device
from workers.errors import BackendDead, Draining, Overloaded
from workers.fairness import TENANT, Tenant
from workers.pool import Pool
from workers.task import Lane

RETRY_UNKNOWN = 5.0
"""Seconds a refused client is told to wait while nothing is known of how long sessions last."""
RETRY_LEAST, RETRY_MOST = 1.0, 60.0
ROUNDING = 1e-9
"""Shares that add up to the limit on paper do so here."""


class Lease:
    """A reserved share (seconds of step time per second) of one device. Release it when the session is over."""

    __slots__ = ("device", "share", "tenant", "began", "_capacity", "_open")

    def __init__(self, capacity: Capacity, device: Device, share: float) -> None:
        self.device = device
        self.share = share
        self.tenant = TENANT.get()
        self.began = device.clock()
        self._capacity = capacity
        self._open = True

    def release(self) -> None:
        """Give the share back. Idempotent, from any thread."""
        self._capacity._release(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.release()


class Capacity:
    """The reservations on `devices`, each filled to `limit` seconds of step time per second.

    A device counts as used by what is reserved on it or by what its live lanes were measured to take, whichever is
    more: sessions that cost more than they reserved are noticed, while interactive and bulk work, which gives way to
    live work, keeps nobody out.
    """

    def __init__(self, devices: Sequence[Device], limit: float = 0.85) -> None:
        if not 0 < limit <= 1:
            raise ValueError("limit is a share of a device's time: above 0, at most 1")
        self.limit = limit
        self._leases: dict[Device, list[Lease]] = {device: [] for device in devices}
        self._lock = threading.Lock()
        self._draining = False
        self._lifetime: float | None = None

    def admit(self, pool: Pool, share: float, first_result: float = 0.0) -> Lease:
        """Reserve `share` on the device of `pool` with most room.

        `first_result` is how many seconds the first result may take (0.0: no matter); a device whose live backlog is
        longer is passed over. A device with nothing to do admits one session of any share: an estimate that is too
        high can only be corrected by running. The tenant whose work this is may hold one session in any case, and
        further ones as far as its `room` goes, so that nobody finds every place taken by somebody else.

        Raises `Overloaded` with the seconds after which room is expected, `Draining`, or `BackendDead` when no
        replica is up.
        """
        if not share > 0:
            raise ValueError("share must be above 0 seconds of step time per second")
        with self._lock:
            devices = [device for device in self._leases if device in pool.replicas]
            if self._draining or (devices and all(device.draining for device in devices)):
                raise Draining("the service is shutting down and takes no new session")
            devices = [device for device in devices if device.ready]
            if not devices:
                raise BackendDead(f"no device is ready for {pool.model}")
            if not self._has_room(TENANT.get(), share, devices):
                raise Overloaded(
                    "this key's sessions hold all that is meant for one key; close one first",
                    retry_after=self._room_expected(devices),
                )
            fitting = [device for device in devices if self._fits(device, share)]
            if not fitting:
                raise Overloaded("every device is reserved up to its limit", retry_after=self._room_expected(devices))
            waits = {device: device.finish_in(Lane.PARTIAL) for device in fitting}
            if first_result > 0:
                fitting = [device for device in fitting if waits[device] <= first_result]
                if not fitting:
                    excess = min(waits.values()) - first_result
                    raise Overloaded("the first result would be late", retry_after=_clamp(excess))
            device = min(fitting, key=lambda device: (self._used(device), waits[device]))
            lease = Lease(self, device, share)
            self._leases[device].append(lease)
            device.loop.live[lease.tenant] += 1
            return lease

    def drain(self) -> None:
        """Admit nobody any more."""
        self._draining = True

    def reserved(self, device: Device) -> float:
        """Share of the device that is reserved."""
        with self._lock:
            return self._reserved(device)

    def streams(self, device: Device) -> int:
        """Sessions that hold a lease on the device."""
        return len(self._leases[device])

    def free_streams(self, device: Device, share: float) -> int:
        """How many more sessions of this share the device would admit now."""
        with self._lock:
            room = int((self.limit - self._used(device) + ROUNDING) / share)
            return max(room, int(self._idle(device))) if device.ready and not self._draining else 0

    def _fits(self, device: Device, share: float) -> bool:
        return self._used(device) + share <= self.limit + ROUNDING or self._idle(device)

    def _has_room(self, tenant: Tenant, share: float, devices: list[Device]) -> bool:
        held = [lease.share for device in devices for lease in self._leases[device] if lease.tenant == tenant]
        return not held or sum(held) + share <= tenant.room * self.limit * len(devices) + ROUNDING

    def _idle(self, device: Device) -> bool:
        return not self._leases[device] and not device.loop.open

    def _used(self, device: Device) -> float:
        return max(self._reserved(device), device.loop.ledger.live.rate(device.clock()))

    def _reserved(self, device: Device) -> float:
        return sum(lease.share for lease in self._leases[device])

    def _room_expected(self, devices: list[Device]) -> float:
        """Seconds until one of the sessions ends, if they last as long as those before them did."""
        sessions = max(len(self._leases[device]) for device in devices)
        if not sessions or self._lifetime is None:
            return RETRY_UNKNOWN
        return _clamp(self._lifetime / sessions)

    def _release(self, lease: Lease) -> None:
        with self._lock:
            if not lease._open:
                return
            lease._open = False
            self._leases[lease.device].remove(lease)
            lease.device.loop.live -= Counter((lease.tenant,))  # whoever has none any more is gone from it
            lasted = lease.device.clock() - lease.began
            self._lifetime = lasted if self._lifetime is None else 0.9 * self._lifetime + 0.1 * lasted


def _clamp(seconds: float) -> float:
    return min(RETRY_MOST, max(RETRY_LEAST, seconds))
