"""What a key may take in a minute: requests, which are refused beyond it, and audio, which then is read no further.

And its pace: sessions were admitted for what speech takes in real time. As long as others speak as well, those of one
key are read at that speed, however fast they are sent.
"""

from __future__ import annotations

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from gateway.keys.identity import Identity
from gateway.keys.record import KeyLimits
from workers.errors import Overloaded

MOST_WAIT = 1.0
"""Seconds for which a reader waits before it looks again whether its connection is still wanted."""
PACE = 1.25
"""Seconds of audio a second that a live session is read at while other keys have sessions."""
BURST = 5.0
"""Seconds of audio that may come at once all the same: somebody's network held them up."""
MOST_KEYS = 4096
"""Keys whose minute is remembered; beyond, the one that was used longest ago begins a new one."""


class Bucket:
    """Refilled evenly at `rate` a second, up to `most`. It may be overdrawn by what could not be foreseen."""

    def __init__(self, most: float, rate: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._rate, self._clock = most, rate, clock
        self._left, self._at = most, clock()

    def take(self, amount: float) -> None:
        self._left = self._now() - amount

    def wait(self, amount: float = 0.0) -> float:
        """Seconds until there is so much; 0.0: now."""
        return max(0.0, (min(amount, self._most) - self._now()) / self._rate)

    def set(self, left: float) -> None:
        """So much is left now."""
        self._now()
        self._left = min(self._most, left)

    def refill(self, rate: float) -> None:
        """At another rate from now on."""
        self._now()
        self._rate = rate

    def _now(self) -> float:
        now = self._clock()
        self._left, self._at = min(self._most, self._left + (now - self._at) * self._rate), now
        return self._left


class Budget:
    """One key's minute."""

    def __init__(
        self,
        limits: KeyLimits,
        clock: Callable[[], float] = time.monotonic,
        *,
        name: str = "",
        owner: str = "",
        live: Counter[str] | None = None,
    ) -> None:
        self.limits = limits
        self.owner = owner
        """Whose minute it is, by a name that all gateways know."""
        self.untold = 0.0
        """Seconds of audio that have come and were not counted by all gateways together yet."""
        self.on_audio: Callable[[Budget], None] | None = None
        """Called when more of it comes, for whoever counts it for all gateways together."""
        self._name, self._live = name, live if live is not None else Counter()
        self._pace = Bucket(BURST, PACE, clock)
        requests, audio = limits.requests_per_minute, limits.audio_seconds_per_minute
        self._requests = Bucket(requests, requests / 60, clock) if requests is not None else None
        self._audio = Bucket(audio, audio / 60, clock) if audio is not None else None

    def request(self) -> None:
        """Count a request; raises `Overloaded` beyond the limit."""
        if self._requests is None:
            return
        wait = self._requests.wait(1.0)
        if wait > 0:
            most = self.limits.requests_per_minute
            raise Overloaded(f"This key may make {most} requests a minute.", retry_after=math.ceil(wait))
        self._requests.take(1.0)

    def count_request(self) -> None:
        """Count a request that was let in."""
        if self._requests is not None:
            self._requests.take(1.0)

    def known(self, told: float, left: float) -> None:
        """After `told` seconds of the untold audio, so many are left of the minute of all gateways together."""
        self.untold -= told
        if self._audio is not None:
            self._audio.set(left - self.untold)

    def check_audio(self) -> None:
        """Before a recording or a session is taken; raises `Overloaded` while the minute is used up."""
        wait = self.audio_wait()
        if wait > 0:
            most = self.limits.audio_seconds_per_minute
            raise Overloaded(f"This key may send {most:g} s of audio a minute.", retry_after=math.ceil(wait))

    def audio(self, seconds: float, *, live: bool = False) -> None:
        """So much audio has come, on a socket or in a file."""
        if self._audio is not None:
            self._audio.take(seconds)
            self.untold += seconds
            if self.on_audio is not None:
                self.on_audio(self)
        if live:
            self._pace.take(seconds)

    def audio_wait(self) -> float:
        """Seconds until more audio may come in a minute."""
        return self._audio.wait() if self._audio is not None else 0.0

    def live_wait(self) -> float:
        """Seconds until more audio may come on a socket."""
        return max(self.audio_wait(), self._pace.wait() if len(self._live) > 1 else 0.0)

    @contextmanager
    def session(self) -> Iterator[None]:
        """One of the key's live sessions."""
        self._change(1)
        try:
            yield
        finally:
            self._change(-1)

    def _change(self, by: int) -> None:
        live, name = self._live, self._name
        live[name] += by
        if not live[name]:
            del live[name]
        self._pace.refill(PACE * max(1, live[name]))


class Budgets:
    """Those of the keys that were used last."""

    def __init__(self) -> None:
        self._budgets: OrderedDict[str, Budget] = OrderedDict()
        self._live: Counter[str] = Counter()

    def of(self, identity: Identity) -> Budget:
        """The key's budget; a new one once its limits were changed."""
        budget = self._budgets.pop(identity.name, None)
        if budget is None or budget.limits != identity.limits:
            budget = Budget(identity.limits, name=identity.name, owner=identity.owner, live=self._live)
        self._budgets[identity.name] = budget
        while len(self._budgets) > MOST_KEYS:
            self._budgets.popitem(last=False)
        return budget


BUDGET: ContextVar[Budget | None] = ContextVar("budget", default=None)
"""That of the key whose request is being served."""


def count_audio(seconds: float, *, live: bool) -> None:
    """So much audio has come for the request that is being served."""
    budget = BUDGET.get()
    if budget is not None:
        budget.audio(seconds, live=live)


async def audio_allowed(ended: Callable[[], bool]) -> None:
    """Wait until the key may send more audio, or until its connection has `ended`: meanwhile nothing is read."""
    budget = BUDGET.get()
    while budget is not None and (wait := budget.live_wait()) > 0 and not ended():  # noqa: ASYNC110
        await asyncio.sleep(min(wait, MOST_WAIT))
