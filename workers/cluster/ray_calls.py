"""Calls to a device through a Ray actor."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from importlib import import_module
from typing import Any

from workers.cluster import parts
from workers.cluster.calls import Done
from workers.cluster.messages import Order, Report
from workers.cluster.ray_actor import COLLECT, POST
from workers.errors import BackendDead

log = logging.getLogger(__name__)


class RayCalls:
    """To the actor that was bound last. `dead`: that one will not come back by itself; then another is created, not
    before `retry_at`, and the next `pause` seconds later."""

    def __init__(self) -> None:
        self.dead = True
        self.retry_at, self.pause = float("-inf"), 1.0
        self._hello: Any = None
        self._post: Any = None
        self._collect: Any = None

    def bind(self, actor: Any) -> None:
        """From now on to this one."""
        self._hello = actor.hello.options(concurrency_group=COLLECT)
        self._post = actor.post.options(concurrency_group=POST, num_returns=0)
        self._collect = actor.collect.options(concurrency_group=COLLECT)
        self.dead = False

    def hello(self, gateway: str, link: int, report: Report, done: Done) -> None:
        if self._hello is None or self.dead:
            done(BackendDead("it has no place on the cluster yet"))
        else:
            self._call(self._hello, (gateway, link, report), done)

    def post(self, gateway: str, link: int, first: int, orders: Sequence[Order]) -> None:
        try:
            self._post.remote(gateway, link, first, *parts.parts(orders))
        except Exception as error:  # the call for answers ends as well, and tells
            log.debug("orders could not be sent: %s", error)

    def collect(self, gateway: str, link: int, ack: int, wait: float, done: Done) -> None:
        def unpack(got: Any) -> None:
            done(parts.unpacked(got) if isinstance(got, bytes) else got)

        self._call(self._collect, (gateway, link, ack, wait), unpack)

    def _call(self, method: Any, arguments: tuple[Any, ...], done: Done) -> None:
        try:
            future = method.remote(*arguments).future()
        except Exception as error:
            done(self._told(error))
        else:
            future.add_done_callback(self._back(done))

    def _back(self, done: Done) -> Callable[[Any], None]:
        def ended(future: Any) -> None:
            error = future.exception()
            done(future.result() if error is None else self._told(error))

        return ended

    def _told(self, error: BaseException) -> BackendDead:
        """In a line. Ray's own texts are pages, and hold paths of its hosts."""
        ray: Any = import_module("ray.exceptions")
        if isinstance(error, ray.ActorDiedError):
            self.dead = True
        if isinstance(error, ray.RayTaskError):
            return BackendDead(f"the call failed there: {error.cause!r}")
        if isinstance(error, ray.RayActorError):
            return BackendDead(f"its process is gone ({type(error).__name__}){_why(error)}")
        return BackendDead(f"{type(error).__name__}: {error}")


def _why(error: BaseException) -> str:
    """What the device's own start raised, if it was that: the last line of the traceback in Ray's text."""
    text = str(error)
    if "creation task" not in text:
        return ""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return f": it could not be started: {lines[-1][:500]}" if lines else ""
