"""The leases of one device, and what admission has to know of them, kept as sums: it must not cost more because there
are many sessions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from workers.fairness import Tenant

if TYPE_CHECKING:
    from workers.capacity import Lease


class Account:
    """Shares are seconds of step time per second. `estimated`: what is reserved by estimates alone. `held`: by tenant.

    Rounding does not outlive the last lease.
    """

    __slots__ = ("reserved", "estimated", "held", "_leases", "_sessions", "_busy")

    def __init__(self) -> None:
        self.reserved = 0.0
        self.estimated = 0.0
        self.held: dict[Tenant, float] = {}
        self._leases: dict[Lease, None] = {}
        self._sessions: Counter[Tenant] = Counter()
        self._busy: Counter[float] = Counter()  # how busy devices were with streams as there are here

    def __len__(self) -> int:
        return len(self._leases)

    def __iter__(self) -> Iterator[Lease]:
        return iter(tuple(self._leases))

    @property
    def busy(self) -> float | None:
        """The most that any of the measured models here took in all; None when nothing here was measured."""
        return max(self._busy) if self._busy else None

    def add(self, lease: Lease) -> None:
        self._leases[lease] = None
        self._count(lease, 1)

    def remove(self, lease: Lease) -> None:
        del self._leases[lease]
        self._count(lease, -1)

    def _count(self, lease: Lease, sign: int) -> None:
        share, tenant = sign * lease.share, lease.tenant
        self.reserved = self.reserved + share if self._leases else 0.0
        self._sessions[tenant] += sign
        if self._sessions[tenant]:
            self.held[tenant] = self.held.get(tenant, 0.0) + share
        else:
            del self._sessions[tenant], self.held[tenant]
        if lease.measured is None:
            self.estimated = self.estimated + share if self._leases else 0.0
        else:
            self._busy[lease.measured.busy] += sign
            if not self._busy[lease.measured.busy]:
                del self._busy[lease.measured.busy]
