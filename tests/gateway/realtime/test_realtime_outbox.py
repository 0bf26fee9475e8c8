"""What waits to be sent: bounded, merged, and nothing of the text lost."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.outbox import Outbox

PUTS = st.lists(
    st.one_of(
        st.tuples(st.just("text"), st.integers(0, 2), st.text(max_size=5)),
        st.tuples(st.just("latest"), st.integers(0, 2), st.text(max_size=5)),
        st.tuples(st.just("event"), st.integers(0, 99), st.just("")),
        st.tuples(st.just("take"), st.just(0), st.just("")),
    ),
    max_size=60,
)


async def taken(outbox: Outbox) -> dict[str, Any]:
    event: dict[str, Any] = json.loads((await outbox.get()).payload)
    outbox.sent()
    return event


@given(PUTS)
def test_text_is_whole_events_keep_their_order_and_the_newest_state_comes_last(
    puts: list[tuple[str, int, str]],
) -> None:
    async def run() -> None:
        outbox, got, want_text, want_events, latest = Outbox(1000, 1 << 20), [], ["", "", ""], [], {}
        for kind, number, text in puts:
            if kind == "text":
                want_text[number] += text
                assert outbox.put_text(("t", number), {"t": number, "text": text}, "text")
            elif kind == "latest":
                latest[number] = text
                assert outbox.put_latest(("l", number), {"l": number, "text": text})
            elif kind == "event":
                want_events.append(number)
                assert outbox.put({"e": number})
            elif len(outbox):
                got.append(await taken(outbox))
        while len(outbox):
            got.append(await taken(outbox))
        for number in range(3):
            assert "".join(event["text"] for event in got if event.get("t") == number) == want_text[number]
            states = [event["text"] for event in got if event.get("l") == number]
            assert states[-1:] == ([latest[number]] if number in latest else [])
        assert [event["e"] for event in got if "e" in event] == want_events

    asyncio.run(run())


async def test_growing_text_takes_one_place() -> None:
    outbox = Outbox(2, 1 << 20)
    for number in range(1000):
        assert outbox.put_text("a", {"delta": f"{number} ", "n": number}, "delta")
        assert outbox.put_latest("b", {"tail": str(number)})
    assert len(outbox) == 2
    event = await taken(outbox)
    assert event["delta"].split() == [str(number) for number in range(1000)]
    assert event["n"] == 999
    assert (await taken(outbox)) == {"tail": "999"}


async def test_both_bounds_hold() -> None:
    outbox = Outbox(3, 1000)
    assert all(outbox.put({"n": number}) for number in range(3))
    assert not outbox.put({"n": 3})
    assert [(await taken(outbox))["n"] for _ in range(3)] == [0, 1, 2]
    assert not outbox.put({"text": "x" * 2000})
    assert outbox.put_text("t", {"text": "x" * 600}, "text")
    assert not outbox.put_text("t", {"text": "x" * 600}, "text")


async def test_waiting_for_room_and_for_the_end() -> None:
    outbox = Outbox(4, 1000)
    for number in range(4):
        outbox.put({"n": number})
    room, flushed = asyncio.ensure_future(outbox.room()), asyncio.ensure_future(outbox.flushed())
    await taken(outbox)
    await asyncio.sleep(0)
    assert not room.done()
    await taken(outbox)
    await asyncio.wait_for(room, 1)
    await taken(outbox)
    await outbox.get()
    await asyncio.sleep(0)
    assert not flushed.done()  # the last one is still on its way
    outbox.sent()
    await asyncio.wait_for(flushed, 1)


async def test_nobody_waits_once_nobody_sends() -> None:
    outbox = Outbox(1, 1000)
    outbox.put({"n": 0})
    waiting = asyncio.gather(outbox.room(), outbox.flushed())
    await asyncio.sleep(0)
    outbox.release()
    await asyncio.wait_for(waiting, 1)
    assert outbox.put({"n": 1})
    assert len(outbox) == 1  # what comes after is dropped
