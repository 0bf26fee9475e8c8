"""What is counted of chats, pictures and clips."""

from __future__ import annotations

from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

if TYPE_CHECKING:
    from vision_text.denoise.request import Made
    from vision_text.vlm.request import Answered

FIRST_BUCKETS = (0.01, 0.02, 0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 3.0, 5.0, 10.0, 30.0)
MAKING_BUCKETS = (0.05, 0.1, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)


class VisionMetrics:
    """A part of the service's metrics."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._tokens = Counter(
            "speechlane_chat_tokens",
            "Tokens of chats: prompt, of them visual and cached, and completion.",
            ["kind"],
            registry=registry,
        )
        self._first = Histogram(
            "speechlane_chat_first_token_seconds",
            "A chat's pictures being open to its first token.",
            buckets=FIRST_BUCKETS,
            registry=registry,
        )
        self._answer = Histogram(
            "speechlane_chat_seconds",
            "A chat's pictures being open to its end.",
            buckets=MAKING_BUCKETS,
            registry=registry,
        )
        self._made = Counter("speechlane_made", "Pictures and clips made.", ["kind", "outcome"], registry=registry)
        self._seconds = Histogram(
            "speechlane_making_seconds",
            "A picture or a clip, from being asked for to being there.",
            ["kind"],
            buckets=MAKING_BUCKETS,
            registry=registry,
        )
        self._evaluations = Counter(
            "speechlane_evaluations",
            "Evaluations of models that draw: run, or skipped.",
            ["kind", "what"],
            registry=registry,
        )
        self._videos = Gauge(
            "speechlane_videos", "Videos that wait, are being made, or are kept.", ["state"], registry=registry
        )

    def answered(self, answer: Answered, seconds: float) -> None:
        """A chat was answered, so long after its pictures were open."""
        for kind, count in (
            ("prompt", answer.prompt_tokens),
            ("visual", answer.visual_tokens),
            ("cached", answer.cached_tokens),
            ("completion", answer.completion_tokens),
        ):
            self._tokens.labels(kind).inc(count)
        self._first.observe(answer.seconds_to_first)
        self._answer.observe(seconds)

    def made(self, kind: str, made: Made, seconds: float) -> None:
        """An "image" or a "video" was made, so long after it had been asked for."""
        self._made.labels(kind, "fallback" if made.approximation.fallback else "done").inc()
        self._seconds.labels(kind).observe(seconds)
        self._evaluations.labels(kind, "run").inc(made.approximation.evaluations)
        self._evaluations.labels(kind, "skipped").inc(made.approximation.skipped)

    def not_made(self, kind: str, outcome: str) -> None:
        """One was "cancelled" or has "failed"."""
        self._made.labels(kind, outcome).inc()

    def videos(self, state: str, count: int) -> None:
        """So many are "queued", "in_progress", "completed" or "failed" now."""
        self._videos.labels(state).set(count)
