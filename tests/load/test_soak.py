"""Coming and going in every way leaves nothing behind, in a few cycles on the real service."""

from __future__ import annotations

from load.service import Running
from load.soak import MIB, Soak, missed_bars, run


async def test_a_service_that_was_left_in_every_way_holds_nothing(service: str) -> None:
    seen: list[int] = []
    soak = await run(Running(service, None), 12, 2, 0, None, seen.append)
    assert soak.after is not None
    assert (soak.after.sessions, soak.after.streams) == (0, 0)
    assert seen[-1] == 12
    assert missed_bars(soak, 1.0) == []


def test_memory_that_grows_is_seen() -> None:
    soak = Soak(memory=[(n, n * MIB) for n in range(1, 41)])
    assert soak.growth() == 20 * MIB
    assert round(soak.slope()) == MIB
