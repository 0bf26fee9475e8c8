"""What can go wrong for good; every message says why and how to mend it."""

from __future__ import annotations

import json
import re

MEANINGS = {
    1000: "nothing was sent for too long",
    1001: "the session has reached its longest duration; start again to go on",
    1006: "the connection broke; is the service still running?",
    1012: "the service is shutting down; try again in a few seconds",
    1013: "the service is full; try again later",
    4103: "the session goes on on another connection",
}
"""Close codes of the service, and 1006 for a connection without one."""

_AGAIN = re.compile(r"try again in ([0-9]{1,3}(?:\.[0-9]{1,3})?) s")


class ClientError(Exception):
    """The session is over, or there is none."""


class Refused(ClientError):
    """The service answered a request with an HTTP status that is no success.

    `retry_after` (seconds) is when it may be different, as far as the service says.
    """

    def __init__(self, message: str, status: int, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.retry_after = retry_after


class Unreachable(ClientError):
    """Nobody answers."""


class SourceError(Exception):
    """The audio cannot be had."""


def refusal(status: int, body: bytes | bytearray, url: str, retry_after: str | None = None) -> Refused:
    """The error for an answer that is no success."""
    try:
        message = json.loads(body)["error"]["message"]
    except (ValueError, KeyError, TypeError):
        message = f"HTTP {status}. Is {url} a Speechlane service?"
    hint = " Give a valid API key; the command line takes it from --key or SPEECHLANE_API_KEY." if status == 401 else ""
    seconds = float(retry_after) if retry_after and re.fullmatch("[0-9]{1,6}", retry_after) else None
    return Refused(f"the service refused: {message}{hint}", status, seconds)


def come_again(reason: str) -> float:
    """Seconds after which a service says to come again in the `reason` of a close; 0.0 when it says nothing of it."""
    found = _AGAIN.search(reason)
    return float(found[1]) if found else 0.0


def closed(code: int, reason: str) -> str:
    """What is said of a socket that was closed before the work was done."""
    said = f" ({reason})" if reason else ""
    return f"the connection was closed with {code}: {MEANINGS.get(code, 'the session ended')}{said}"
