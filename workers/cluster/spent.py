"""Where a task's time went on a device elsewhere, told on the clock of here."""

from __future__ import annotations

from workers.cluster.messages import Spent
from workers.task import Task


def account(task: Task, spent: Spent, now: float) -> None:
    """Where the task's time went over there, on this clock."""
    timing = task.timing
    if spent.started is not None:
        timing.started_at = max(timing.queued_at, now - spent.started)
    if spent.opened is not None:
        timing.opened_at = max(timing.started_at, now - spent.opened)
    timing.steps, timing.step_seconds, timing.share_seconds = spent.steps, spent.step_seconds, spent.share_seconds
    timing.device_seconds, timing.opening_seconds = spent.device_seconds, spent.opening_seconds
