"""Live sessions of one gateway, kept in Redis so that another can go on with each of them.

All sessions that have changed are written together, one round trip after another, and what a session tells its client
leaves when it has been written: whoever takes the session over knows everything that its client knows. A session
belongs to the gateway that claimed it last. Its number then, the fence, is one higher, and scripts write nothing for a
gateway that comes with an older one.
"""

from __future__ import annotations

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Protocol

from gateway.shared.image import Image
from gateway.shared.link import Argument, Away, Call, Link
from gateway.shared.metrics import SharedMetrics
from workers.errors import ServingError

log = logging.getLogger("speechlane.shared")

PREFIX = "speechlane:live:"
INDEX, SIZES = f"{PREFIX}expiries", f"{PREFIX}sizes"
RENEW_SECONDS = 2.0
"""A session in which nothing happens is written so often all the same, so that it does not expire."""
MARGIN_SECONDS = 5.0
"""What a session that waits for its client lives longer in Redis than that."""
TICK_SECONDS = 0.5
RETRY_SECONDS = 5.0
"""After which a session for which there was no room is offered again."""
WORTH_SECONDS = 5.0
"""For a server that is away longer no client waits to resume a session of another gateway."""
AT_ONCE, BYTES_AT_ONCE = 16, 4 << 20
"""Sessions and bytes of one round trip, about: few, because the event loop makes them up in one go."""
SESSION_BYTES = 8 << 20
"""What is kept of one session at most."""


class SharedAway(ServingError):
    """The session may be there, but the server that knows it does not answer."""

    code = "sessions_unavailable"
    status = 503


class NotKept(ServingError):
    """Nothing is kept under this name for this owner."""

    code = "session_not_found"
    status = 404


class NotThere(ServingError):
    """What is kept does not begin where the client is."""

    code = "events_lost"
    status = 410


class Keepable(Protocol):
    """A session that is kept: told what became of it, from the event loop."""

    name: str
    fence: int
    image: Image

    def prepare(self) -> bool:
        """Bring the image up to this moment. False: nobody could go on from here."""

    def written(self) -> None:
        """What was prepared last is kept."""

    def unkept(self) -> None:
        """It is not kept, for now."""

    def superseded(self) -> None:
        """Another gateway has it."""


@dataclass(eq=False, slots=True)
class _Entry:
    session: Keepable
    whole: bool
    kept: bool = False
    written_at: float = 0.0
    waiting: list[asyncio.Future[bool | None]] = field(default_factory=list)

    def answer(self, outcome: bool | None) -> None:
        for future in self.waiting:
            if not future.done():
                future.set_result(outcome)
        self.waiting.clear()


class SharedSessions:
    """`run` it. `patience`: seconds that a session waits for its client; `most`: bytes of all sessions of all gateways
    together."""

    def __init__(self, link: Link, metrics: SharedMetrics, patience: float, most: int) -> None:
        self._link, self._metrics, self._most = link, metrics, most
        self._life = round(1000 * (patience + MARGIN_SECONDS))
        self._entries: dict[str, _Entry] = {}
        self._dirty: OrderedDict[str, None] = OrderedDict()
        self._forgotten: dict[str, int] = {}
        self._woken = asyncio.Event()
        self._said: set[str] = set()

    @property
    def up(self) -> bool:
        """Whether anything can be kept now."""
        return self._link.up

    def add(self, session: Keepable, *, claimed: bool) -> None:
        """Keep a session from now on, a new one or one that was `claim`ed."""
        self._entries[session.name] = _Entry(session, whole=not claimed, kept=claimed)
        if not self._link.up:
            session.unkept()
        self.wake(session)

    def wake(self, session: Keepable) -> None:
        """Something in it has changed that should be kept soon."""
        if self._is_here(session):
            self._dirty[session.name] = None
            self._woken.set()

    async def flush(self, session: Keepable) -> bool | None:
        """Keep it as it is now. True: it is kept; False: another gateway has it; None: it is not kept."""
        entry = self._entries.get(session.name)
        if entry is None or entry.session is not session:
            return False
        if not self._link.up:
            return None
        outcome: asyncio.Future[bool | None] = asyncio.get_running_loop().create_future()
        entry.waiting.append(outcome)
        self.wake(session)
        return await outcome

    def remove(self, session: Keepable, *, forget: bool) -> None:
        """It is not this gateway's any more; `forget`: nobody else's either, for it has ended."""
        if not self._is_here(session):
            return
        entry = self._entries.pop(session.name)
        self._dirty.pop(session.name, None)
        entry.answer(None)
        if forget and self._link.up:
            self._forgotten[session.name] = session.fence
            self._woken.set()

    async def claim(self, name: str, owner: str, after: int, taken: int) -> tuple[int, dict[str, bytes]]:
        """(fence, fields) of a session of another gateway, which from now on is this one's.

        Its client has heard the events up to number `after`, and was told that `taken` of its own were taken in. Raises
        `NotKept`, `NotThere`, `SharedAway`.
        """
        try:
            if not self._link.up:
                raise Away
            (answer,) = await self._link.run([Call("claim", [name], [owner, after, taken])])
        except Away:
            if self._link.away_seconds > WORTH_SECONDS:
                raise NotThere("Sessions of other gateways cannot be reached; begin another one.") from None
            raise SharedAway("Sessions of other gateways cannot be reached; try again in a few seconds.") from None
        if answer == -1:
            raise NotKept("There is no such session to resume. Begin another one.", param="session")
        if answer == -2:
            raise NotThere("What this session has told since is not kept; begin another session.", param="last_event")
        fence, flat = answer
        fields = dict(zip((one.decode() for one in flat[::2]), flat[1::2], strict=True))
        fields.pop("fence")
        return int(fence), fields

    async def run(self) -> None:
        """Write what changes, until cancelled."""
        try:
            while True:
                try:
                    await self._keep_on()
                except Exception:
                    # Whatever it is, nobody's words wait for it.
                    log.exception("live sessions could not be kept; it is tried again")
                    self._all_unkept("failed")
                    await asyncio.sleep(TICK_SECONDS)
                    self._all_again()
        finally:
            await self._link.close()

    async def _keep_on(self) -> None:
        loop = asyncio.get_running_loop()
        renew_at = loop.time()
        while True:
            if not self._link.up:
                await self._link.back()
                self._all_again()
            with suppress(TimeoutError):
                async with asyncio.timeout_at(renew_at):
                    await self._woken.wait()
            if loop.time() >= renew_at:
                renew_at = loop.time() + TICK_SECONDS
                self._renew(loop.time())
            self._woken.clear()
            if self._dirty or self._forgotten:
                await self._write(loop.time())
            if self._dirty:
                self._woken.set()

    def _is_here(self, session: Keepable) -> bool:
        entry = self._entries.get(session.name)
        return entry is not None and entry.session is session

    def _renew(self, now: float) -> None:
        kept = [entry for entry in self._entries.values() if entry.kept]
        self._metrics.kept(len(kept), sum(entry.session.image.size for entry in kept))
        for name, entry in self._entries.items():
            if now - entry.written_at >= (RENEW_SECONDS if entry.kept else RETRY_SECONDS):
                self._dirty[name] = None
        if self._dirty:
            self._woken.set()

    def _all_unkept(self, reason: str) -> None:
        for entry in self._entries.values():
            self._unkept(entry, reason)
        self._dirty.clear()

    def _all_again(self) -> None:
        for name, entry in self._entries.items():
            entry.whole = True
            self._dirty[name] = None
        self._woken.set()

    def _next(self) -> Iterable[_Entry]:
        count = size = 0
        while self._dirty and count < AT_ONCE and size < BYTES_AT_ONCE:
            name, _ = self._dirty.popitem(last=False)
            entry = self._entries[name]
            count, size = count + 1, size + (entry.session.image.size if entry.whole else 0)
            yield entry

    async def _write(self, now: float) -> None:
        forgotten, self._forgotten = self._forgotten, {}
        removals = [Call("forget", [name, INDEX, SIZES], [fence]) for name, fence in forgotten.items()]
        writes: list[Call] = []
        entries: list[_Entry] = []
        for entry in self._next():
            session, entry.written_at = entry.session, now
            try:
                fits = session.prepare() and session.image.size <= SESSION_BYTES
            except Exception:
                log.exception("a session cannot be kept")
                fits = False
            if not fits:
                if entry.kept:
                    removals.append(Call("forget", [session.name, INDEX, SIZES], [session.fence]))
                self._unkept(entry, "too large")
                continue
            put, dropped = session.image.changes(whole=entry.whole)
            arguments: list[Argument] = [session.fence, self._life, session.image.size, self._most]
            arguments += [int(entry.whole), len(dropped), *dropped]
            for name, data in put:
                arguments += [name, data]
            writes.append(Call("write", [session.name, INDEX, SIZES], arguments))
            entries.append(entry)
        if not removals and not writes:
            return
        try:
            answers = await self._link.run([*removals, *writes])
        except Away:
            self._all_unkept("away")
            return
        for entry, answer in zip(entries, answers[len(removals) :], strict=True):
            if self._is_here(entry.session):
                self._settle(entry, answer)

    def _settle(self, entry: _Entry, answer: int) -> None:
        if answer == 1:
            entry.kept, entry.whole = True, False
            entry.session.written()
            entry.answer(True)
        elif answer == -1:
            log.warning("a session was taken over by another gateway")
            self._metrics.moved("lost")
            del self._entries[entry.session.name]
            self._dirty.pop(entry.session.name, None)
            entry.session.superseded()
            entry.answer(False)
        elif answer == -2 and not entry.whole:
            entry.whole = True
            self._dirty[entry.session.name] = None
        else:
            self._unkept(entry, "full")

    def _unkept(self, entry: _Entry, reason: str) -> None:
        if entry.kept or reason != "away":
            self._metrics.unkept(reason)
        if reason != "away" and reason not in self._said:
            self._said.add(reason)
            log.warning("a session cannot be kept for other gateways: %s (said once)", reason)
        entry.kept, entry.whole = False, True
        entry.session.unkept()
        entry.answer(None)


def name_of(token: str) -> str:
    """Where the session of a token is kept. The token cannot be told from it."""
    return PREFIX + hashlib.sha256(token.encode("utf-8", "surrogateescape")).hexdigest()
