"""Closing goes on to its end, wherever whoever waits for it gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.closing import every, stopped


def steps(done: list[str], pauses: int = 2) -> list[Callable[[], Awaitable[None]]]:
    """Three, each of which waits a few times before it has done its work; a cancel cuts the waiting short."""

    def step(name: str) -> Callable[[], Awaitable[None]]:
        async def free() -> None:
            try:
                for _ in range(pauses):
                    await asyncio.sleep(0)
            finally:
                done.append(name)

        return free

    return [step(name) for name in "abc"]


@pytest.mark.parametrize("after", range(7))
async def test_a_cancel_at_any_moment_leaves_nothing_open(after: int) -> None:
    done: list[str] = []
    closing = asyncio.create_task(every(*steps(done)))
    for _ in range(after):
        await asyncio.sleep(0)
    begun = after > 0
    closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert done == (["a", "b", "c"] if begun else [])


async def test_a_second_and_a_third_cancel_leave_nothing_open_either() -> None:
    done: list[str] = []
    closing = asyncio.create_task(every(*steps(done, pauses=4)))
    for _ in range(3):
        await asyncio.sleep(0)
        closing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await closing
    assert done == ["a", "b", "c"]


async def test_what_fails_is_raised_after_the_others_are_done() -> None:
    done: list[str] = []

    async def broken() -> None:
        raise RuntimeError("this one")

    first, second, third = steps(done)
    with pytest.raises(RuntimeError, match="this one"):
        await every(first, broken, second, third)
    assert done == ["a", "b", "c"]


async def test_a_task_is_stopped_whatever_it_ends_with() -> None:
    async def fails() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            raise RuntimeError("at the end")

    for task in (asyncio.create_task(fails()), asyncio.create_task(asyncio.sleep(60))):
        await asyncio.sleep(0)
        await stopped(task)
        assert task.done()
