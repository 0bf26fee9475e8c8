"""What kinds of clients check in the same way: refusals, and words against what was said."""

from __future__ import annotations

from collections.abc import Sequence

from websockets.exceptions import WebSocketException

from load.client import Refused
from load.harness.trial import Outcome
from load.scoring import word_errors

FULL = 503
FAILURES = (OSError, TimeoutError, WebSocketException, ValueError, KeyError)
"""What a client fails with when the connection does, or when what comes is nothing that the protocol knows."""


def refusal(out: Outcome, refused: Refused, client: int) -> None:
    """A service that is full says so with 503 and a time to come again; anything else is an error."""
    if refused.status != FULL:
        out.wrong(f"client {client}: {refused}")
        return
    out.refused += 1
    out.took("refused", refused.seconds)
    if refused.retry_after is None:
        out.wrong(f"client {client}: refused without Retry-After")


def compare(out: Outcome, client: int, pairs: Sequence[tuple[str, str]], most: float | None) -> None:
    """The word error rate of one client's (reference, what was understood); over `most` percent it is a problem.

    A recording without a reference is left out.
    """
    known = [(reference, text) for reference, text in pairs if reference]
    if not known:
        return
    out.errors.append(errors := word_errors(known))
    if most is not None and errors > most:
        out.wrong(f"client {client}: {errors:.1f} % of the words are wrong; the bar is {most:g} %")
