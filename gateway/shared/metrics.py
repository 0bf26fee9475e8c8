"""What is counted of the Redis that gateways share."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge


class SharedMetrics:
    """Of one gateway. `kind` is what is kept there: "sessions" or "limits of keys"."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._up = Gauge("speechlane_shared_up", "Whether the shared Redis answers.", ["kind"], registry=registry)
        self._lost = Counter("speechlane_shared_lost", "Times it ceased to answer.", ["kind"], registry=registry)
        self._kept = Gauge(
            "speechlane_sessions_shared", "Live sessions here that another gateway could go on with.", registry=registry
        )
        self._bytes = Gauge("speechlane_sessions_shared_bytes", "What is kept of them in Redis.", registry=registry)
        self._moved = Counter(
            "speechlane_sessions_moved",
            "Sessions that came from another gateway, were handed over to another, or were lost to one.",
            ["how"],
            registry=registry,
        )
        self._unkept = Counter(
            "speechlane_sessions_unshared", "Times a session could not be kept there.", ["reason"], registry=registry
        )

    def up(self, kind: str, answers: bool) -> None:
        """It answers, or does not."""
        self._up.labels(kind).set(answers)
        if not answers:
            self._lost.labels(kind).inc()

    def kept(self, sessions: int, size: int) -> None:
        """So many sessions are kept, with so many bytes."""
        self._kept.set(sessions)
        self._bytes.set(size)

    def moved(self, how: str) -> None:
        """A session "came", was "handed over", or was "lost" to another gateway."""
        self._moved.labels(how).inc()

    def unkept(self, reason: str) -> None:
        """A session cannot be gone on with elsewhere for now: "away", "full", "too large", "failed"."""
        self._unkept.labels(reason).inc()
