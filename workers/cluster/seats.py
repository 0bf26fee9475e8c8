"""The sessions that this gateway has on a remote device, and the share of it that they may reserve."""

from __future__ import annotations

import threading
from collections import Counter

from workers.clock import Clock
from workers.cluster.messages import Grant, Report
from workers.fairness import Tenant

_WANTED = 2.0
"""Seconds for which a refusal is told to the device."""
_ROUNDING = 1e-9


class Seats:
    """Thread-safe. A session is taken in and a grant is lowered under one lock, so that what was reported holds."""

    def __init__(self, clock: Clock) -> None:
        self.changed = False
        """Something is to be reported."""
        self._clock = clock
        self._lock = threading.Lock()
        self._live: Counter[Tenant] = Counter()
        self._held = 0.0
        self._unit = 0.0
        self._wants, self._wanted_at = 0, float("-inf")
        self._grant, self._allowed = 0, 0.0

    @property
    def allowed(self) -> float:
        """Seconds of step time per second that these sessions may reserve together."""
        return self._allowed

    def expect(self, share: float) -> None:
        """A session is likely to take this much."""
        self._unit, self.changed = share, True

    def take(self, tenant: Tenant, share: float, *, alone: bool, force: bool) -> bool:
        """A session comes, unless it does not fit. `alone`: whatever its share, if it is the only one; `force`: in any
        case, because it was let in elsewhere."""
        with self._lock:
            fits = self._held + share <= self._allowed + _ROUNDING or (alone and not self._live)
            if not fits and not force:
                return False
            self._live[tenant] += 1
            self._held += share
            self._unit = share
            self._wants = max(0, self._wants - 1)
            self.changed = True
            return True

    def give(self, tenant: Tenant, share: float) -> None:
        with self._lock:
            self._live -= Counter((tenant,))
            self._held = max(0.0, self._held - share) if self._live else 0.0
            self.changed = True

    def want(self, share: float) -> None:
        """A session was refused for want of a grant."""
        with self._lock:
            now = self._clock()
            self._wants = 1 + (self._wants if now - self._wanted_at < _WANTED else 0)
            self._wanted_at, self._unit = now, share
            self.changed = True

    def grant(self, grant: Grant) -> None:
        """What the device allows from now on. An older grant that comes late changes nothing."""
        with self._lock:
            if grant.number > self._grant:
                self._grant, self._allowed = grant.number, grant.share
                self.changed = True

    def lost(self) -> None:
        """The device is gone, and with it its grants."""
        with self._lock:
            self._grant, self._allowed = 0, 0.0
            self.changed = True

    def report(self) -> Report:
        with self._lock:
            self.changed = False
            wants = self._wants if self._clock() - self._wanted_at < _WANTED else 0
            allowed = max(self._allowed, self._held)
            return Report(self._held, dict(self._live), self._unit, wants, self._grant, allowed)
