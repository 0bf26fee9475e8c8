"""The asyncio side of a task: outputs cross from the device's thread to the event loop, once a step and loop.

The device's thread puts what a step made into the mailbox of each event loop concerned, then rings once; the loop
empties its mailbox in one callback.
"""

from __future__ import annotations

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable
from typing import Any

from workers.backend import Done, More
from workers.errors import Cancelled, ServingError
from workers.task import Lane, Phase, Result, Task, Timing

log = logging.getLogger(__name__)


class Mailbox:
    """What devices have made for the handles of one event loop. Emptied as soon as the loop comes round."""

    __slots__ = ("_loop", "_post", "_rung", "ring", "__weakref__")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = weakref.ref(loop)
        self._post: deque[tuple[Handle, Result]] = deque()
        self._rung = False
        self.ring = self._ring  # one bound method, so that a device sees that many tasks share it

    def put(self, handle: Handle, result: Result) -> None:
        self._post.append((handle, result))

    def _ring(self) -> None:
        if self._rung or not self._post:
            return
        self._rung = True
        if not self.call(self._empty):
            log.debug("results for an event loop that is gone: dropped")
            self._post.clear()
            self._rung = False

    def call(self, callback: Callable[[], None]) -> bool:
        """Have the event loop call back soon, from any thread. False when it is closed."""
        loop = self._loop()
        try:
            if loop is not None:
                loop.call_soon_threadsafe(callback)
                return True
        except RuntimeError:
            pass
        return False

    def _empty(self) -> None:
        self._rung = False  # before looking: whoever puts from here on rings again
        post = self._post
        while post:
            handle, result = post.popleft()
            handle.receive(result)


_mailboxes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Mailbox] = weakref.WeakKeyDictionary()


def mailbox() -> Mailbox:
    """The mailbox of the running event loop."""
    loop = asyncio.get_running_loop()
    box = _mailboxes.get(loop)
    if box is None:
        box = _mailboxes[loop] = Mailbox(loop)
    return box


class Handle:
    """A task as seen from the event loop it was submitted on: await its result or iterate over its outputs.

    Outputs wait here until they are read; there are no more of them than the model makes of one payload. Await and
    iterate on that loop only; `cancel` and `move` work from any thread.
    """

    __slots__ = ("task", "_box", "_outputs", "_end", "_waiters", "_cancelled")

    task: Task

    def __init__(self) -> None:
        self._box = mailbox()
        self._outputs: deque[Any] = deque()
        self._end: Done | ServingError | None = None
        self._waiters: list[asyncio.Future[None]] = []
        self._cancelled = False

    @property
    def wake(self) -> Callable[[], None]:
        """Rings the event loop's mailbox; the same object for all handles of a loop."""
        return self._box.ring

    def sink(self, _task: Task, result: Result) -> None:
        """What the task calls on the device's thread."""
        self._box.put(self, result)

    def receive(self, result: Result) -> None:
        """On the event loop: take a result out of the mailbox."""
        if self._cancelled:
            return
        if isinstance(result, More):
            self._outputs.extend(result.outputs)
        else:
            self._end = result
            if isinstance(result, Done) and result.output is not None:
                self._outputs.append(result.output)
        self._wake_waiters()

    @property
    def done(self) -> bool:
        """Whether the task has ended, as far as this loop has heard."""
        return self._end is not None

    @property
    def phase(self) -> Phase:
        return self.task.phase

    @property
    def timing(self) -> Timing:
        """Seconds on the device's clock; final once the task has ended."""
        return self.task.timing

    async def result(self) -> Any:
        """The output of the task's end. Raises the `ServingError` it ended with.

        Cancelling the coroutine that waits cancels the task.
        """
        while self._end is None:
            await self._wait()
        if isinstance(self._end, ServingError):
            raise self._end
        return self._end.output

    def __aiter__(self) -> Handle:
        return self

    async def __anext__(self) -> Any:
        """The next output: those handed out on the way, then that of the end unless it is None."""
        while not self._outputs and self._end is None:
            await self._wait()
        if self._outputs:
            return self._outputs.popleft()
        if isinstance(self._end, ServingError):
            raise self._end
        raise StopAsyncIteration

    def cancel(self) -> bool:
        """End the task; waiting readers get `Cancelled`, outputs not read yet are dropped. False when it had ended."""
        self._outputs.clear()
        if self._end is not None:
            return False
        self._cancelled = True  # also drops an end that is on its way but has not been heard yet
        self._end = Cancelled("cancelled by its owner")
        self.task.cancel()
        self._box.call(self._wake_waiters)
        return True

    def move(self, deadline: float, lane: Lane | None = None) -> None:
        """Change the deadline, in seconds on the device's clock, and the lane if one is given."""
        self.task.move(deadline, lane)

    async def _wait(self) -> None:
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            self.cancel()
            raise

    def _wake_waiters(self) -> None:
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)
