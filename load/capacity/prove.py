"""The promise, proven both ways at a service that admits by it: a tenth fewer are all admitted and all well, of a tenth
more the excess is refused at once and the others are as well.
"""

from __future__ import annotations

from load.capacity.measure import Measuring, Run
from load.service import Running

AT_ONCE = 0.1
"""Seconds that a refusal may take."""
REFUSED = "refused"


def promised(running: Running, kind: str) -> int:
    """How many clients more the service says that it has room for."""
    if kind == "tts":
        free: int = running.state()["speech"]["free"]
        return free
    return running.capacity()


def prove(measuring: Measuring, promise: int, seconds: float, kind: str) -> list[str]:
    """What was missed of it; nothing when it was proven."""
    fewer, more = max(1, 9 * promise // 10), max(promise + 1, -(-11 * promise // 10))
    below = measuring.run("0.9 N =", fewer, seconds)
    above = measuring.run("1.1 N =", more, seconds, refusals=more)
    return [*_missed(below), *_missed(above), *_excess(above, promise, kind)]


def _missed(run: Run) -> list[str]:
    return [f"{run.clients} clients: {one}" for one in run.verdict.missed]


def _excess(above: Run, promise: int, kind: str) -> list[str]:
    """Who was too many. A listener comes in between the utterances of others, so of those only some are turned away."""
    outcome, excess = above.outcome, above.clients - promise
    missed = []
    if outcome.refused < (excess if kind == "asr" else 1):
        missed.append(f"{above.clients} clients: {outcome.refused} were refused, {excess} were too many")
    if kind == "asr" and outcome.admitted < promise:
        missed.append(f"{above.clients} clients: {outcome.admitted} were admitted, {promise} were promised")
    slow = max(outcome.latencies.get(REFUSED, []), default=0.0)
    if slow >= AT_ONCE:
        missed.append(f"{above.clients} clients: a refusal took {1000 * slow:.0f} ms")
    return missed
