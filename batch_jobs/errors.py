"""What the lane refuses."""

from __future__ import annotations

from workers.errors import InputInvalid


class NoSuchJob(InputInvalid):
    """There is no job of that id (any more)."""

    code = "job_not_found"
    status = 404


class NotReady(InputInvalid):
    """The job has no result, yet or at all."""

    code = "job_not_ready"
    status = 409
