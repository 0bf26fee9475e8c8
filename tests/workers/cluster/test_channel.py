"""Messages over calls that are lost, repeated and reordered arrive once each, in order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.cluster.channel import EARLY, Incoming, Outgoing


@given(st.integers(0, 2**32), st.integers(1, 60))
def test_every_message_once_and_in_order(seed: int, count: int) -> None:
    dice = random.Random(seed)
    here: Outgoing[int] = Outgoing()
    there: Incoming[int] = Incoming()
    under_way: list[tuple[int, tuple[int, ...]]] = []
    put, got = 0, []
    while len(got) < count:
        for _ in range(dice.randint(0, 4)):
            if put < count:
                here.put(put)
                put += 1
        if here.waiting:
            batch = here.unsent(dice.randint(1, 5))
            under_way += [batch] * dice.choice((0, 1, 1, 2))
        elif dice.random() < 0.3:
            here.rewind()
        if under_way and dice.random() < 0.8:
            got += there.take(*under_way.pop(dice.randrange(len(under_way))))
        if dice.random() < 0.3:
            here.acknowledged(there.seen)
    assert got == list(range(count))
    here.acknowledged(there.seen)
    assert here.unacknowledged == put - count


def test_what_came_early_is_bounded_and_not_lost() -> None:
    here: Outgoing[int] = Outgoing()
    there: Incoming[int] = Incoming()
    for number in range(EARLY + 20):
        here.put(number)
    batches = [here.unsent(1) for _ in range(EARLY + 20)]
    assert [there.take(*batch) for batch in batches[1:]] == [[]] * (EARLY + 19)
    assert len(there._early) == EARLY
    got = there.take(*batches[0])
    here.rewind()
    got += there.take(*here.unsent(1000))
    assert got == list(range(EARLY + 20))


def test_an_acknowledgement_is_news_once() -> None:
    here: Outgoing[str] = Outgoing()
    here.put("a")
    assert here.unsent(9) == (1, ("a",))
    assert (here.acknowledged(1), here.acknowledged(1), here.acknowledged(0)) == (True, False, False)
    assert not here.waiting and here.unsent(9) == (2, ())
    here.put("b")
    assert here.all(9) == (2, ("b",))


@pytest.mark.parametrize("most", [1, 3])
def test_batches_are_as_large_as_they_may_be(most: int) -> None:
    here: Outgoing[int] = Outgoing()
    for number in range(5):
        here.put(number)
    sizes = []
    while here.waiting:
        sizes.append(len(here.unsent(most)[1]))
    assert sizes == ([1] * 5 if most == 1 else [3, 2])
