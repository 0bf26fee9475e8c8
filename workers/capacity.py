"""Admits sessions, not chunks: a live stream reserves a share of its device's step time for as long as it lasts.

Once a session is in, its audio is never refused; so the refusal has to come at the door, at once and with an honest
time to come back.

What a stream takes is an estimate until somebody has measured how many of them a device carries. From then on a stream
reserves its part of that number, and streams of several models fill a device together as each of them fills it alone.
"""

from __future__ import annotations

import math
import random
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Self

from workers.account import Account
from workers.errors import BackendDead, Draining, Overloaded
from workers.fairness import TENANT, Tenant
from workers.ledger import WINDOW
from workers.pool import FEW, Pool
from workers.site import Site
from workers.task import Lane

RETRY_UNKNOWN = 5.0
"""Seconds a refused client is told to wait while nothing is known of how long sessions last."""
RETRY_LEAST, RETRY_MOST = 1.0, 60.0
ROUNDING = 1e-9
"""Shares that add up to the limit on paper do so here."""
OPEN = 100_000
"""Free streams of a device that is open to everybody."""
_ASKED = 4
"""Devices elsewhere that are asked for room when a session was refused that they may have room for."""
FULL_FOR = 0.1
"""Seconds for which what was refused by all of many devices is refused at once, unless a session ends before."""
_AS_BUSY = 1.1
"""How much busier than when it was measured a device may be before its streams are taken to cost more than they did."""
_NEVER = -math.inf, math.inf, math.inf, Overloaded("", retry_after=RETRY_LEAST)


@dataclass(frozen=True, slots=True)
class Measured:
    """So many `streams` of one model, alone on a device, were shown to meet their objective.

    `busy`: seconds of step time per second that the device took with them. `within`: seconds that the objective allows
    for (0.0: any); a device that is behind by more than that takes nobody, whatever is free on paper.
    """

    streams: int
    busy: float
    within: float = 0.0

    def __post_init__(self) -> None:
        if self.streams < 1:
            raise ValueError("a measured number of streams is at least 1")
        if not 0 <= self.busy <= 1 or not 0 <= self.within < math.inf:
            raise ValueError("busy is a share of a device's time, from 0 to 1, and within is in seconds")


class Lease:
    """A reserved share (seconds of step time per second) of one device. Release it when the session is over.

    `measured`: what the share was made of; None when it is an estimate.
    """

    __slots__ = ("device", "share", "measured", "tenant", "began", "_capacity", "_pool", "_open")

    def __init__(self, capacity: Capacity, pool: Pool, device: Site, share: float, measured: Measured | None) -> None:
        self.device = device
        self.share = share
        self.measured = measured
        self.tenant = TENANT.get()
        self.began = device.clock()
        self._capacity, self._pool = capacity, pool
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
    live work, keeps nobody out. How busy a device was when its streams were measured does not count against them.

    Among many devices, a session goes to the best of a few that are drawn by chance; it is refused only when none of
    all of them has room.

    A device on another host grants this capacity a part of its limit, which is then what it is filled to. When it is
    lost, its sessions go on where there is most room, whether that is enough for them or not: they were let in.

    `everybody` is admitted for whoever measures: then only a device that is not there refuses.
    """

    def __init__(self, devices: Sequence[Site], limit: float = 0.85, *, everybody: bool = False) -> None:
        if not 0 < limit <= 1:
            raise ValueError("limit is a share of a device's time: above 0, at most 1")
        self.limit = limit
        self._everybody = everybody
        self._accounts: dict[Site, Account] = {}
        self._measured: dict[tuple[Site, str], Measured] = {}
        self._left: dict[Site, tuple[float, float]] = {}  # when measured streams last went, and how busy it was
        self._lock = threading.Lock()
        self._draining = False
        self._lifetime: float | None = None
        self._full: dict[str, tuple[float, float, float, Overloaded]] = {}  # when what found no place among many
        self._dice = random.Random(limit)
        for device in devices:
            self.join(device)

    def join(self, device: Site) -> None:
        """Sessions may be admitted to this device as well."""
        with self._lock:
            self._accounts.setdefault(device, Account())
            self._full.clear()
        device.watch(self._rehome)

    def promise(self, device: Site, model: str, measured: Measured) -> None:
        """From now on a stream of `model` reserves its part of the measured number on `device`, not an estimate."""
        with self._lock:
            self._measured[device, model] = measured

    def measured(self, device: Site, model: str) -> Measured | None:
        """What `promise` was told; None: streams are admitted by estimates."""
        return self._measured.get((device, model))

    def admit(self, pool: Pool, share: float, first_result: float = 0.0, *, weight: float = 1.0) -> Lease:
        """Reserve `share` on the device of `pool` with most room.

        `share` is an estimate; where the model was measured, the session reserves as much as `weight` of the streams
        that were. `first_result` is how many seconds the first result may take (0.0: no matter); a device whose live
        backlog is longer is passed over. A device with nothing to do admits one session of any share: an estimate that
        is too high can only be corrected by running. The tenant whose work this is may hold one session in any case,
        and further ones as far as its `room` goes, so that nobody finds every place taken by somebody else.

        Raises `Overloaded` with the seconds after which room is expected, `Draining`, or `BackendDead` when no
        replica is up.
        """
        if not share > 0 or not weight > 0:
            raise ValueError("share must be above 0 seconds of step time per second, and weight above 0")
        with self._lock:
            many = len(pool.replicas) > FEW
            if many and not self._draining:
                lease = self._among_some(pool, share, first_result, weight)
                if lease is not None:
                    return lease
            devices = [device for device in self._accounts if device in pool.members]
            if self._draining or (devices and all(device.draining for device in devices)):
                raise Draining("the service is shutting down and takes no new session")
            devices = [device for device in devices if device.ready]
            if not devices:
                raise BackendDead(f"no device is ready for {pool.model}")
            shares = {device: self._share(device, pool.model, share, weight) for device in devices}
            if not self._everybody and not self._has_room(TENANT.get(), min(shares.values()), devices):
                raise Overloaded(
                    "this key's sessions hold all that is meant for one key; close one first",
                    retry_after=self._room_expected(devices),
                )
            if many and not self._everybody and not any(self._fits(device, shares[device]) for device in devices):
                full = self._no_room(shares)
                self._full[pool.model] = devices[0].clock(), share, weight, full
                raise full
            return self._take(pool, shares, first_result)

    def drain(self) -> None:
        """Admit nobody any more."""
        self._draining = True

    def reserved(self, device: Site) -> float:
        """Share of the device that is reserved."""
        with self._lock:
            return self._reserved(device)

    def streams(self, device: Site) -> int:
        """Sessions that hold a lease on the device."""
        return len(self._accounts[device])

    def free_streams(self, device: Site, share: float, model: str = "") -> int:
        """How many more sessions of this share, or of this model where it was measured, the device would admit now."""
        with self._lock:
            if not device.ready or self._draining:
                return 0
            if self._everybody:
                return OPEN
            return max(
                int((self._room(device) + ROUNDING) / self._share(device, model, share)), int(self._idle(device))
            )

    def _share(self, device: Site, model: str, estimate: float, weight: float = 1.0) -> float:
        measured = self._measured.get((device, model))
        return weight * self.limit / measured.streams if measured is not None else estimate

    def _among_some(self, pool: Pool, share: float, first_result: float, weight: float) -> Lease | None:
        """A place on the best of a few devices drawn by chance; None when none of them has one, or it is for all of
        them to say. Raises Overloaded when nothing was found among all of them just now."""
        tenant = TENANT.get()
        at, least, lightest, full = self._full.get(pool.model, _NEVER)
        if share >= least and weight >= lightest and pool.replicas[0].clock() - at < FULL_FOR:
            raise Overloaded(full.message, retry_after=full.retry_after)
        drawn = self._dice.sample(pool.replicas, FEW)
        some = [device for device in drawn if device in self._accounts and device.ready]
        shares = {device: self._share(device, pool.model, share, weight) for device in some}
        if shares and tenant.room < 1 and not self._everybody:
            devices = [device for device in pool.replicas if device in self._accounts and device.ready]
            if not self._has_room(tenant, min(shares.values()), devices):
                return None
        fitting = {device: part for device, part in shares.items() if self._everybody or self._fits(device, part)}
        with suppress(Overloaded):
            return self._take(pool, fitting, first_result) if fitting else None
        return None

    def _take(self, pool: Pool, shares: dict[Site, float], first_result: float) -> Lease:
        """A place on one of these devices. Raises Overloaded."""
        while True:
            device = self._chosen(pool.model, shares, first_result)
            if device.seat(TENANT.get(), shares[device], force=self._everybody):
                break
            del shares[device]  # what it had granted was taken back just now
            if not shares:
                raise Overloaded("every device is reserved up to its limit", retry_after=RETRY_LEAST)
        lease = Lease(self, pool, device, shares[device], self._measured.get((device, pool.model)))
        self._accounts[device].add(lease)
        return lease

    def _chosen(self, model: str, shares: Mapping[Site, float], first_result: float) -> Site:
        """The device that takes the session. Raises Overloaded when none of them can."""
        devices = list(shares)
        if self._everybody:
            return max(devices, key=self._room)
        fitting = [device for device in devices if self._fits(device, shares[device])]
        if not fitting:
            raise self._no_room(shares)
        waits = {device: device.finish_in(Lane.PARTIAL) for device in fitting}
        excess = {device: waits[device] - self._patience(device, model, first_result) for device in fitting}
        fitting = [device for device in fitting if excess[device] <= 0]
        if not fitting:
            raise Overloaded("the first result would be late", retry_after=_clamp(min(excess.values())))
        return min(fitting, key=lambda device: (-self._room(device), waits[device]))

    def _no_room(self, shares: Mapping[Site, float]) -> Overloaded:
        """The refusal; devices elsewhere that may have room are asked for it."""
        wanted = filter(lambda device: device.wanted(shares[device]), shares)
        asked = sum(1 for _ in zip(range(_ASKED), wanted, strict=False))
        wait = RETRY_LEAST if asked else self._room_expected(list(shares))
        return Overloaded("every device is reserved up to its limit", retry_after=wait)

    def _patience(self, device: Site, model: str, first_result: float) -> float:
        """Seconds by which the device may be behind."""
        measured = self._measured.get((device, model))
        limits = (first_result, measured.within if measured is not None else 0.0)
        return min((limit for limit in limits if limit > 0), default=math.inf)

    def _fits(self, device: Site, share: float) -> bool:
        return share <= self._room(device) + ROUNDING or self._idle(device)

    def _has_room(self, tenant: Tenant, share: float, devices: list[Site]) -> bool:
        if tenant.room >= 1:  # whoever may have everything is held back by the devices alone
            return True
        accounts = (self._accounts[device] for device in devices)
        held = [account.held[tenant] for account in accounts if tenant in account.held]
        return (
            not held or sum(held) + share <= tenant.room * sum(device.part(self.limit) for device in devices) + ROUNDING
        )

    def _idle(self, device: Site) -> bool:
        return not len(self._accounts[device]) and device.idle

    def _room(self, device: Site) -> float:
        return device.allowed(self.limit) - self._used(device)

    def _used(self, device: Site) -> float:
        reserved, rate = self._reserved(device), device.live_use
        return rate if rate > max(reserved, self._expected(device)) else reserved

    def _expected(self, device: Site) -> float:
        """Live step time per second that is no sign of streams that cost more than they should.

        A few streams may keep a device as busy as many do, for they get all the partials that many have to share. So
        one measured stream allows for as much as all of them took, and for as long after it as the meter remembers.
        """
        account = self._accounts[device]
        busy = account.busy
        if busy is None:
            left, busy = self._left.get(device, (0.0, 0.0))
            busy *= math.exp((left - device.clock()) / WINDOW)
            if not busy:
                return 0.0
        return _AS_BUSY * busy + account.estimated

    def _reserved(self, device: Site) -> float:
        return self._accounts[device].reserved

    def _room_expected(self, devices: list[Site]) -> float:
        """Seconds until one of the sessions ends, if they last as long as those before them did."""
        sessions = max(len(self._accounts[device]) for device in devices)
        if not sessions or self._lifetime is None:
            return RETRY_UNKNOWN
        return _clamp(self._lifetime / sessions)

    def _release(self, lease: Lease) -> None:
        with self._lock:
            if not lease._open:
                return
            lease._open = False
            self._accounts[lease.device].remove(lease)
            self._full.clear()
            lease.device.unseat(lease.tenant, lease.share)
            now = lease.device.clock()
            if lease.measured is not None:
                self._left[lease.device] = now, lease.measured.busy
            lasted = now - lease.began
            self._lifetime = lasted if self._lifetime is None else 0.9 * self._lifetime + 0.1 * lasted

    def _rehome(self) -> None:
        """Some device was lost, or is there again: sessions without one go where there is most room."""
        with self._lock:
            self._full.clear()
            for gone in [device for device, account in self._accounts.items() if len(account) and device.gone]:
                for lease in self._accounts[gone]:
                    ready = [device for device in self._accounts if device.ready and device in lease._pool.members]
                    if ready:
                        self._move(lease, max(ready, key=self._room))

    def _move(self, lease: Lease, device: Site) -> None:
        self._accounts[lease.device].remove(lease)
        lease.device.unseat(lease.tenant, lease.share)
        device.seat(lease.tenant, lease.share, force=True)
        self._accounts[device].add(lease)
        lease.device = device


def _clamp(seconds: float) -> float:
    return min(RETRY_MOST, max(RETRY_LEAST, seconds))
