"""Staying in touch with a device: asking for it, sending, asking for answers, and noticing that it is gone.

Everything but `ring` happens on the courier's thread.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from workers.cluster.calls import Calls
from workers.cluster.courier import Courier
from workers.cluster.line import Line
from workers.cluster.messages import Bye, Forget, Reply, Report, Welcome

log = logging.getLogger(__name__)

TICK = 0.003
"""Seconds between two calls to one device at least, in each direction."""
POLL = 0.25
"""Seconds that a call for answers waits over there; so often a device is heard of."""
DOUBT, SILENCE = 1.5, 5.0
"""Seconds without a word after which a device gets nothing new, and after which it is lost."""
RESEND, OVERDUE = 1.0, 0.5
"""Seconds after which orders that nobody has acknowledged are sent again, and after which a call for answers that is
late is made again."""
_INSTANT = 1e-6
"""Seconds that are not worth waiting."""
_TEND = 0.25
_BATCH = 64
"""Orders in a call."""
_PAUSE = 0.5
"""Seconds between two attempts to reach a device."""
_HELLO, _LONGEST_HELLO = 30.0, 600.0
"""Seconds to wait for a welcome before asking again, doubled each time: a device may wait long for its place."""

_numbers = itertools.count(1)


class Owner(Protocol):
    """Whose device it is."""

    name: str

    def greeting(self) -> Report:
        """How the gateway's sessions stand when it comes."""

    def welcomed(self, welcome: Welcome) -> None:
        """The device is there, over a new line."""

    def fill(self, line: Line, now: float) -> None:
        """Put into `line` what is to be sent."""

    def heard(self, reply: Reply, line: Line) -> None:
        """The device has answered."""

    def lost(self, line: Line, reason: str) -> None:
        """The device is gone, with everything that was there."""

    def alone(self) -> None:
        """The device is not there; told every quarter of a second."""


class Contact:
    """The way from `gateway` to one device."""

    def __init__(self, owner: Owner, calls: Calls, courier: Courier, gateway: str) -> None:
        self.line: Line | None = None
        self.lost_at = courier.clock()
        self.failure = ""
        """Why it is not there."""
        self.closed = False
        self._owner, self._calls, self._courier, self._gateway = owner, calls, courier, gateway
        self._clock = courier.clock
        self._asked: int | None = None
        self._ask_again = 0.0
        self._patience = _HELLO
        self._rung = False

    def start(self) -> None:
        self._courier.call(self._tend)

    def ring(self) -> None:
        """Something is to be sent. From any thread."""
        if not self._rung:
            self._rung = True
            self._courier.call(self._send)

    @property
    def fresh(self) -> bool:
        """Whether the device was heard of just now. From any thread."""
        line = self.line
        return line is not None and self._clock() - line.heard_at < DOUBT

    def leave(self, timeout: float) -> None:
        """Take leave of the device, for good. Blocks for up to `timeout` seconds."""
        if self.closed:
            return
        left = threading.Event()
        self._courier.call(partial(self._leave, left))
        left.wait(timeout)

    def _leave(self, left: threading.Event) -> None:
        self.closed = True
        line, self.line = self.line, None
        if line is not None:
            line.orders.put(Bye())
            self._post(line)
        left.set()

    # -- there

    def _send(self) -> None:
        self._rung = False
        line, now = self.line, self._clock()
        if line is None:
            return
        pause = line.posted_at + TICK - now
        if pause > _INSTANT:
            self._rung = True
            self._courier.later(pause, self._send)
            return
        self._owner.fill(line, now)
        dropped = line.dropped()
        if dropped:
            line.orders.put(Forget(dropped))
        self._post(line)

    def _post(self, line: Line) -> None:
        while line.orders.waiting:
            line.posted_at = self._clock()
            self._calls.post(self._gateway, line.number, *line.orders.unsent(_BATCH))

    def _hello(self) -> None:
        self._asked = number = next(_numbers)
        self._ask_again = self._clock() + self._patience
        report = self._owner.greeting()
        self._calls.hello(self._gateway, number, report, self._on_courier(partial(self._welcomed, number)))

    def _collect(self, line: Line) -> None:
        if line is not self.line:
            return
        line.polls += 1
        line.asked_at = asked_at = self._clock()
        back = self._on_courier(partial(self._collected, line, line.polls, asked_at))
        self._calls.collect(self._gateway, line.number, line.answers.seen, POLL, back)

    def _on_courier(self, errand: Callable[[Any], None]) -> Callable[[Any], None]:
        return lambda got: self._courier.call(partial(errand, got))

    # -- back

    def _welcomed(self, number: int, got: Any) -> None:
        if number != self._asked or self.closed:
            return
        self._asked = None
        now = self._clock()
        if not isinstance(got, Welcome):
            self._ask_again = now + _PAUSE
            if str(got) != self.failure:
                self.failure = str(got)
                log.warning("%s cannot be reached: %s", self._owner.name, self.failure)
            return
        self._patience, self.failure = _HELLO, ""
        self.line = line = Line(number, now)
        line.posted_at = now - TICK
        self._owner.welcomed(got)
        self._send()
        self._collect(line)

    def _collected(self, line: Line, poll: int, asked_at: float, got: Any) -> None:
        if line is not self.line:
            return
        if not isinstance(got, Reply):
            self._lose(line, str(got) if got is not None else "it does not know this gateway any more")
            return
        now = self._clock()
        line.heard_at = max(line.heard_at, asked_at)
        if line.orders.acknowledged(got.ack):
            line.acked_at = now
        try:
            self._owner.heard(got, line)
        finally:
            if poll == line.polls:
                pause = asked_at + TICK - now
                if pause > _INSTANT:
                    self._courier.later(pause, partial(self._collect, line))
                else:
                    self._collect(line)

    # -- whatever happens

    def _tend(self) -> None:
        """Every quarter of a second, for as long as there is a gateway."""
        if self.closed:
            return
        self._courier.later(_TEND, self._tend)
        line, now = self.line, self._clock()
        if line is None:
            if now >= self._ask_again:
                if self._asked is not None:
                    self._patience = min(_LONGEST_HELLO, 2 * self._patience)
                self._hello()
            self._owner.alone()
            return
        if now - line.heard_at > SILENCE:
            self._lose(line, f"it has been silent for {SILENCE:g} s")
            return
        if now - line.asked_at > POLL + OVERDUE:
            self._collect(line)
        if line.orders.unacknowledged and now - max(line.acked_at, line.posted_at) > RESEND:
            line.orders.rewind()
        self.ring()

    def _lose(self, line: Line, reason: str) -> None:
        self.line = None
        self.lost_at = now = self._clock()
        self._ask_again = now + _PAUSE
        self.failure = reason
        self._owner.lost(line, reason)
