"""When a run counts as passed, when as failed beyond doubt, and when it says nothing of the service."""

from __future__ import annotations

import pytest

from load.capacity.goal import hearing, speaking
from load.harness.trial import Outcome, Unit
from load.harness.tts import FIRST, UNDERRUNS, UTTERANCES
from load.harness.watch import Watched


def heard(late: int, of: int, took: float = 1.5, **fields: object) -> Outcome:
    out = Outcome(4, admitted=4, **fields)  # type: ignore[arg-type]
    for n in range(of):
        seconds = took if n < late else 0.5
        out.end(Unit(0, 10.0, 10.0 + seconds, seconds > 1.0))
    return out


def test_a_run_passes_by_its_share_and_is_shown_by_its_bound() -> None:
    few, many = hearing().judge(heard(0, 10)), hearing().judge(heard(2, 200))
    assert few.passed and few.confidence == pytest.approx(1 - 0.95**10)
    assert many.passed and many.confidence > 0.95 and many.seen[0].most < 0.05
    assert not hearing().judge(heard(0, 0)).passed


def test_a_run_fails_for_sure_only_when_chance_cannot_explain_it() -> None:
    unlucky, bad = hearing().judge(heard(2, 20)), hearing().judge(heard(30, 100))
    assert hearing().judge(heard(1, 6), strict=False).passed, "one in six is no sign of more than one in twenty"
    assert not hearing().judge(heard(3, 6), strict=False).passed
    assert not hearing().judge(heard(1, 6)).passed
    assert not unlucky.passed and not unlucky.sure
    assert not bad.passed and bad.sure and bad.confidence == 0.0
    assert bad.missed == ("30 of 100 finals later than 1 s",)


def test_what_is_wrong_or_refused_fails_a_run() -> None:
    out = heard(0, 100)
    out.wrong("client 3: nothing was heard")
    assert hearing().judge(out).missed == ("client 3: nothing was heard",)
    refused = heard(0, 100, refused=1)
    assert not hearing().judge(refused).passed
    assert hearing().judge(refused, refusals=1).passed


def test_words_may_be_as_bad_as_alone_and_as_chance_makes_them() -> None:
    goal, out = hearing(), heard(0, 100)
    out.errors = [6.0, 4.0, 5.0, 7.0]
    assert goal.judge(out, [5.0]).passed
    assert goal.judge(out, []).passed, "without one alone there is nothing to compare with"
    out.errors = [12.0, 13.0, 11.0, 12.5]
    assert goal.judge(out, [5.0]).missed == ("12.1 % of the words are wrong, and 5.0 % of one client's alone",)
    out.errors = [30.0, 0.0, 0.0, 2.0]
    assert goal.judge(out, [5.0]).passed, "one bad recording is chance"
    assert hearing(word_errors=20.0).judge(out, [5.0]).passed


def test_clients_that_are_late_themselves_say_nothing_of_the_service() -> None:
    slow = Watched(0.0, late=[0.6] * 100)
    limited = hearing().judge(heard(30, 100, watched=slow, limits=["timers ran late"]))
    assert not limited.passed and limited.limited
    truly = hearing().judge(heard(30, 100, took=3.0, watched=slow, limits=["timers ran late"]))
    assert not truly.passed and not truly.limited, "it would fail whatever is forgiven"
    fine = hearing().judge(heard(0, 100, watched=slow, limits=["timers ran late"]))
    assert fine.passed and not fine.limited, "late clients make nothing better"
    in_time = Watched(0.0, late=[0.001] * 100)
    assert not hearing().judge(heard(30, 100, took=1.0005, watched=in_time)).limited


def test_listeners_hear_neither_gaps_nor_late_beginnings() -> None:
    def spoken(gaps: int, late: int, of: int = 3000) -> Outcome:
        out = Outcome(10, admitted=10)
        out.counts = {UTTERANCES: of, UNDERRUNS: gaps}
        out.latencies = {FIRST: [2.0] * late + [0.3] * (of - late), "silence in the sound": [0.05] * gaps}
        return out

    goal = speaking()
    assert goal.judge(spoken(0, 100)).passed
    assert goal.judge(spoken(0, 100)).confidence > 0.95
    assert goal.judge(spoken(10, 0)).missed == ("10 of 3000 utterances with an underrun",)
    assert goal.judge(spoken(0, 300)).sure
    assert "0.1 %" in goal.objective


def test_how_many_units_show_it() -> None:
    out = heard(0, 20)
    assert hearing().units_needed(out) == pytest.approx(183, abs=4)
    assert hearing().units_needed(out, at_best=True) == 59
    assert hearing(confidence=0.5, late=0.5).units_needed(out) is not None
    unlucky = hearing().units_needed(heard(1, 20))
    assert unlucky is not None and unlucky < 400, "one in a short run is bad luck"
    assert hearing().units_needed(heard(60, 1000)) is None, "so close to the bar nothing shows it"
    assert hearing().units_needed(heard(0, 0)) is None
