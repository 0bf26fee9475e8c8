"""A place that live sessions reserve a share of: what a capacity asks of a device, here or elsewhere."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from workers.fairness import Tenant
from workers.pool import Replica


class Site(Replica, Protocol):
    """Shares are seconds of step time per second."""

    def allowed(self, limit: float) -> float:
        """What sessions of this process may reserve there together; its own devices it fills to `limit`."""

    def part(self, limit: float) -> float:
        """What they would have if everybody who uses the place had as much."""

    @property
    def live_use(self) -> float:
        """What live lanes took there lately, as far as that is for this process to judge."""

    @property
    def idle(self) -> bool:
        """Whether a session of any share may begin there, if this process has none."""

    def seat(self, tenant: Tenant, share: float, *, force: bool = False) -> bool:
        """A session begins. False when its share is not to be had and it is not `force`d."""

    def unseat(self, tenant: Tenant, share: float) -> None:
        """A session has ended, or goes on elsewhere."""

    def wanted(self, share: float) -> bool:
        """A session was refused for want of room. Whether more was asked for, which may come within moments."""

    @property
    def gone(self) -> bool:
        """The place is lost, with everything that was kept there."""

    def watch(self, errand: Callable[[], None]) -> None:
        """Have this done, on any thread, whenever the place was lost, and when it is there again."""
