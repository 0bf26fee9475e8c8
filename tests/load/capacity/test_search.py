"""The search finds the largest number that holds, on subjects whose number is known, however noisy they are."""

from __future__ import annotations

from collections.abc import Collection

import pytest
from hypothesis import given
from hypothesis import strategies as st

from load.capacity.search import CLOSE, FEWER, Phase, Search

MOST = 512


def run(
    search: Search, carries: int, fails: Collection[int] = (), passes: Collection[int] = ()
) -> list[tuple[Phase, int]]:
    """The steps. The subject carries so many; its n-th step fails or passes against that, but for holds."""
    steps = []
    while (step := search.next) is not None:
        truly = step.count <= carries
        number = len(steps)
        steps.append((step.phase, step.count))
        if step.phase is Phase.HOLD:
            search.tell(truly)
        else:
            search.tell((truly and number not in fails) or (not truly and number in passes))
    return steps


def close(found: int, carries: int) -> bool:
    return found <= carries < found + max(1, int(CLOSE * found))


@pytest.mark.parametrize("carries", [0, 1, 2, 3, 7, 8, 100, 500, 512, 600])
@pytest.mark.parametrize("start", [1, 5, 512])
@pytest.mark.parametrize("hold", [True, False])
def test_it_finds_the_largest_that_passes(carries: int, start: int, hold: bool) -> None:
    search = Search(start, MOST, hold=hold)
    steps = run(search, carries)
    assert close(search.found, min(carries, MOST))
    tried = [count for phase, count in steps if phase is Phase.TRY]
    assert len(set(tried)) == len(tried) <= 18
    assert [phase for phase, _ in steps].count(Phase.HOLD) == (hold and search.found > 0)


@pytest.mark.parametrize("carries", [1, 2, 9])
def test_what_is_known_to_pass_is_not_tried(carries: int) -> None:
    search = Search(2, 16, passed=1)
    assert (Phase.TRY, 1) not in run(search, carries)
    assert search.found == carries


def test_a_step_that_failed_beyond_doubt_is_not_tried_again() -> None:
    search = Search(most=16, hold=False)
    phases = []
    while (step := search.next) is not None:
        phases.append(step.phase)
        search.tell(step.count <= 5, sure=step.count > 5)
    assert search.found == 5 and set(phases) == {Phase.TRY}
    with pytest.raises(ValueError, match="over"):
        search.tell(True)
    with pytest.raises(ValueError, match="begins"):
        Search(8, 4)


@given(st.integers(0, 600), st.integers(1, MOST), st.integers(0, 40))
def test_one_bad_moment_changes_nothing(carries: int, start: int, moment: int) -> None:
    plain, noisy = Search(start, MOST), Search(start, MOST)
    run(plain, carries)
    run(noisy, carries, fails={moment})
    assert noisy.found == plain.found


@given(st.integers(0, 600), st.integers(1, 64), st.sets(st.integers(0, 60)), st.sets(st.integers(0, 60)))
def test_whatever_the_noise_it_ends_and_never_finds_what_does_not_hold(
    carries: int, start: int, fails: set[int], passes: set[int]
) -> None:
    search = Search(start, MOST)
    steps = run(search, carries, fails, passes)
    assert search.found <= carries
    assert len(steps) < 120
    holds = [count for phase, count in steps if phase is Phase.HOLD]
    assert holds == sorted(holds, reverse=True)
    if holds and carries:
        # From one that was too many, a tenth fewer at a time: the first that holds is found.
        assert search.found == holds[-1] if holds[-1] <= carries else search.found == 0
        assert search.found >= min(holds[0], int(FEWER * carries) - 1)


@given(st.lists(st.booleans(), max_size=200), st.integers(1, 64), st.booleans())
def test_any_answers_end_it(answers: list[bool], start: int, hold: bool) -> None:
    search, given_answers, held = Search(start, 64, hold=hold), iter(answers), None
    for _ in range(200):
        if search.next is None:
            break
        step, passed = search.next, next(given_answers, False)
        if step.phase is Phase.HOLD and passed:
            held = step.count
        search.tell(passed)
    assert search.next is None
    assert not hold or search.found == (held or 0)
