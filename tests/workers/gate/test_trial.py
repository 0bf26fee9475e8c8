"""Every rule of the gate, on a model whose speed and quality are numbers."""

from __future__ import annotations

import pytest

from tests.workers.gate.virtual import Virtual, Ways
from workers.gate.evidence import Evidence, Verdict
from workers.gate.thresholds import thresholds
from workers.gate.trial import Gate, TooFewItems

GOOD = Ways(speed=2.0, unlike=0.001)


def judged(way: Ways, *, seed: int = 0, gains: str = "seconds", **more: object) -> Evidence:
    subject = Virtual({"cache": way}, seed=seed, **more)  # type: ignore[arg-type]
    return Gate(subject, seed=seed, now=lambda: 5.0).judge({"cache": True}, gains=gains)


def test_what_is_faster_and_as_good_passes_and_says_all_it_rests_on() -> None:
    found = judged(GOOD)
    assert found.verdict is Verdict.PASSED and found.items == 200 and not found.reasons
    assert found.speed is not None and found.speed["least"] < 2.0 < found.speed["most"]
    assert found.speed["low"] < found.speed["median"] < found.speed["high"]
    assert found.effect == {"block": (2400, 2352)}
    assert found.control == {"fewer": 25} or abs(found.control["fewer"] - 25) <= 2  # type: ignore[index]
    assert found.control_speed == pytest.approx(2.0, rel=0.15)
    assert found.measures["quality"].control is not None
    assert found.identity["weights"] == "abc" and found.thresholds == thresholds().digest and found.at == 5.0


def test_what_does_nothing_is_found_out_however_fast_it_seems() -> None:
    assert judged(Ways(speed=2.0, acts=False)).verdict is Verdict.NO_EFFECT


@pytest.mark.parametrize(
    ("way", "measure"),
    [
        (Ways(speed=3, loss=0.2), "quality"),
        (Ways(speed=3, unlike=0.2), "likeness"),
        (Ways(speed=3, broken=0.03), "likeness"),
        (Ways(speed=3, nan=0.01), "likeness"),
    ],
    ids=["wrong answers", "unlike", "a few broken, fine in the mean", "no numbers"],
)
def test_what_harms_is_caught(way: Ways, measure: str) -> None:
    found = judged(way)
    assert found.verdict is Verdict.HARMFUL
    assert any(reason.startswith(measure) for reason in found.reasons)
    if way.broken:
        assert found.measures["likeness"].candidate > 0.95 > found.measures["likeness"].worst


def test_harm_is_told_before_slowness() -> None:
    assert judged(Ways(speed=0.5, loss=0.3)).verdict is Verdict.HARMFUL


@pytest.mark.parametrize("speed", [0.8, 1.0, 1.02])
def test_what_is_not_faster_is_not_worth_it(speed: float) -> None:
    assert judged(Ways(speed=speed)).verdict is Verdict.NOT_FASTER


def test_a_small_gain_takes_more_rounds() -> None:
    found = judged(Ways(speed=1.07), jitter=0.4)
    assert found.speed is not None and found.speed["rounds"] > thresholds().speed.rounds


def test_an_option_that_fewer_steps_beat_is_reported_so() -> None:
    found = judged(Ways(speed=2.0, unlike=0.02), fewer=(0.0, 0.001))
    assert found.verdict is Verdict.BEATEN
    assert "fewer=" in found.reasons[0] and found.control_speed == pytest.approx(2.0, rel=0.15)


def test_a_control_that_is_dearer_or_worse_does_not_beat() -> None:
    assert judged(Ways(speed=2.0, unlike=0.001), fewer=(0.0, 0.02)).verdict is Verdict.PASSED
    assert judged(Ways(speed=2.0, unlike=0.02), fewer=(0.5, 0.0)).verdict is Verdict.PASSED


def test_fewer_steps_are_their_own_control() -> None:
    gate = Gate(Virtual({}, fewer=(0.0, 0.001)))
    found = gate.judge({"fewer": 25})
    assert found.verdict is Verdict.PASSED and found.control is None


def test_what_makes_requests_depend_on_each_other_does_not_pass() -> None:
    found = judged(Ways(speed=2.0, leaks=True))
    assert found.verdict is Verdict.LEAKS and "beside others" in found.isolation[0]


def test_what_cannot_be_run_is_a_verdict() -> None:
    found = judged(Ways(raises=True))
    assert found.verdict is Verdict.FAILED and "no such kernel" in found.reasons[0]


def test_memory_counts_where_it_is_what_is_wanted() -> None:
    assert judged(Ways(speed=0.9, held=500), gains="bytes").verdict is Verdict.PASSED
    assert judged(Ways(speed=0.9, held=500)).verdict is Verdict.NOT_FASTER
    assert judged(Ways(speed=0.9, held=990), gains="bytes").verdict is Verdict.NOT_FASTER
    assert judged(Ways(speed=0.5, held=500), gains="bytes").verdict is Verdict.NOT_FASTER


def test_what_cannot_be_told_takes_more_items() -> None:
    found = judged(Ways(speed=2.0, noise=1.0))
    assert found.items > 200


def test_too_few_items_prove_nothing() -> None:
    with pytest.raises(TooFewItems):
        Gate(Virtual({}), bars=thresholds().with_trial(items=50))


HARMLESS = {
    "exact": Ways(speed=1.3),
    "close": Ways(speed=2.0, unlike=0.005),
    "answers that change both ways": Ways(speed=2.0, noise=0.01, unlike=0.001),
    "a little": Ways(speed=1.12, unlike=0.0005),
}
HARMFUL = {
    "too loose": Ways(speed=4.0, unlike=0.1, loss=0.03),
    "wrong": Ways(speed=2.0, loss=0.1),
    "rarely broken": Ways(speed=2.0, broken=0.02),
    "hopeless": Ways(speed=8.0, loss=0.6, unlike=0.5),
}


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_runs_agree_on_what_harms_and_what_does_not(seed: int) -> None:
    for name, way in HARMLESS.items():
        assert judged(way, seed=seed).verdict is Verdict.PASSED, name
    for name, way in HARMFUL.items():
        assert judged(way, seed=seed).verdict in (Verdict.HARMFUL, Verdict.UNDECIDED), name


def test_the_same_seed_gives_the_same_record() -> None:
    assert judged(GOOD).as_dict() == judged(GOOD).as_dict()


def test_evidence_is_of_the_model_as_it_was_loaded() -> None:
    subject = Virtual({"cache": GOOD})
    gate = Gate(subject)
    subject.facts["weights"] = "changed on disk meanwhile"
    assert gate.judge({"cache": True}).identity["weights"] == "abc"
