"""Typed errors of the serving layer: the same class in process and remote, each with its HTTP status.

A wire protocol translates these and only these; anything else that escapes a backend is wrapped in
`BackendFailed` by the step loop, so that a client never sees a bare traceback.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

LONGEST_MESSAGE, LONGEST_PARAM = 2000, 200
"""Characters. Both may repeat a name that a client made up, of any length, and are kept in logs and sent to it."""


class ServingError(Exception):
    """Base of all errors a client may be told. `message` is written for the person who reads it."""

    code = "internal_error"
    status = 500

    def __init__(self, message: str, *, param: str | None = None) -> None:
        message = message[:LONGEST_MESSAGE]
        super().__init__(message)
        self.message = message
        self.param = param[:LONGEST_PARAM] if param is not None else None

    def __reduce__(self) -> tuple[Any, ...]:
        """The same error in another process, whatever its constructor takes; without its cause and traceback."""
        return _again, (type(self), self.args, self.__dict__)


def _again(kind: type[ServingError], args: tuple[Any, ...], fields: Mapping[str, Any]) -> ServingError:
    error = kind.__new__(kind, *args)
    error.__dict__.update(fields)
    return error


class InputInvalid(ServingError):
    """The input can never succeed as it is; `param` names the field and the message the remedy."""

    code = "invalid_value"
    status = 422


class InputTooLarge(ServingError):
    """The input exceeds a stated limit."""

    code = "input_too_large"
    status = 413


class Overloaded(ServingError):
    """Refused at once because admitted work has first claim; try again after `retry_after` seconds."""

    code = "overloaded"
    status = 429

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Draining(ServingError):
    """The process is shutting down and takes no new work."""

    code = "draining"
    status = 503


class BackendDead(ServingError):
    """The device or its model hung or crashed, and the one retry did not help."""

    code = "backend_unavailable"
    status = 503


class BackendFailed(ServingError):
    """The model failed on this one item (an exception in a step, or a result that is not finite)."""

    code = "backend_failed"
    status = 500


class Expired(ServingError):
    """The deadline that the client set had passed before the work could be run."""

    code = "deadline_exceeded"
    status = 504


class Cancelled(ServingError):
    """The task was cancelled by its owner or replaced by a newer one of its kind."""

    code = "cancelled"
    status = 499
