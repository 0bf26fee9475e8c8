"""Ends of sessions that free several things, one after the other."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any


async def every(*steps: Callable[[], Awaitable[object]]) -> None:
    """Carry out all steps in their order, though one fails or whoever waits is cancelled meanwhile; raises that then.

    A cancel cuts the step at hand short, and none of those behind it: what they free would never be freed.
    """
    async with AsyncExitStack() as left:
        for step in reversed(steps):
            left.push_async_callback(step)


async def stopped(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait for its end, whatever that is."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
