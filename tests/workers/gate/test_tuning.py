"""What may be had together, what is written down of it, and when it no longer holds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from tests.workers.gate.virtual import Virtual, Ways
from workers.gate.drift import watches
from workers.gate.evidence import Evidence, Verdict
from workers.gate.profile import Profile, ProfileDamaged, approved, load_profile, profile_path
from workers.gate.statistics import paired, sign_test, worst
from workers.gate.subject import Option, canonical, label
from workers.gate.thresholds import thresholds
from workers.gate.trial import Gate
from workers.gate.tuning import Tuned, tune

WAYS = {
    "cache": Ways(speed=1.8, unlike=0.001),
    "clashing": Ways(speed=1.5, unlike=0.001),
    "unheard": Ways(speed=1.3, unlike=0.001),
    "awful": Ways(speed=9, loss=0.5),
}
OPTIONS = [
    Option("cache", True),
    Option("clashing", True),
    Option("unheard", True),
    Option("fewer", 40),
    Option("awful", True, harmful=True),
]


def tuned(ways: dict[str, Ways] | None = None, fewer: tuple[float, float] = (0.0, 0.004)) -> tuple[Gate, Tuned]:
    gate = Gate(Virtual(ways or WAYS, fewer=fewer, jitter=0.03))
    return gate, tune(gate, OPTIONS)


def as_json(profile: Profile) -> object:
    return json.loads(json.dumps(profile.as_dict()))


@pytest.fixture(scope="module")
def run() -> tuple[Gate, Tuned]:
    return tuned()


@pytest.fixture
def profile(run: tuple[Gate, Tuned]) -> Profile:
    gate, found = run
    return found.profile(gate)


def test_the_table_says_which_are_tried_together_and_which_are_refused(run: tuple[Gate, Tuned]) -> None:
    _, found = run
    pairs = {pair.options: pair for pair in found.pairs}
    assert pairs["cache", "clashing"].rule == "refuse" and pairs["cache", "clashing"].verdict == "refused"
    assert pairs["cache", "unheard"].rule == "refuse" and "nobody" in pairs["cache", "unheard"].why
    assert pairs["cache", "fewer"].rule == "test" and pairs["cache", "fewer"].verdict == "passed"
    assert found.chosen == {"cache": True, "fewer": 40}
    verdicts = {one.label: one.verdict for one in found.evidence}
    assert verdicts["awful=true"] is Verdict.HARMFUL
    assert "cache=true, clashing=true" not in verdicts


def test_two_that_pass_alone_and_not_together_are_not_had_together() -> None:
    _, found = tuned(fewer=(0.0, 0.06), ways={**WAYS, "cache": Ways(speed=1.8, unlike=0.030)})
    verdicts = {one.label: one.verdict for one in found.evidence}
    assert verdicts["cache=true"] is Verdict.PASSED and verdicts["fewer=40"] is Verdict.PASSED
    assert verdicts["cache=true, fewer=40"] is Verdict.HARMFUL and found.chosen == {"cache": True}


def test_a_harmful_option_is_not_chosen_even_if_it_passes() -> None:
    gate = Gate(Virtual({"cache": Ways(speed=3)}))
    found = tune(gate, [Option("cache", True, harmful=True)])
    assert found.evidence[0].passed and not found.chosen
    assert not found.profile(gate).proven({"cache": True}, gate.subject.identity())


def test_only_what_passed_may_serve(profile: Profile) -> None:
    now = profile.identity
    assert profile.approved(now) == {"cache": True, "fewer": 40}
    assert profile.proven({}, now) and profile.proven({"cache": True}, now) and profile.proven({"unheard": True}, now)
    assert profile.proven({"awful": False}, now) and profile.proven({"cache": None}, now)
    for settings in ({"awful": True}, {"cache": True, "clashing": True}, {"fewer": 30}, {"cache": 2}, {"new": 1}):
        assert not profile.proven(settings, now), settings


@pytest.mark.parametrize("name", ["weights", "steps", "device", "driver"])
def test_evidence_holds_for_nothing_but_what_it_was_found_with(profile: Profile, name: str) -> None:
    changed = {**profile.identity, name: "other"}
    assert profile.approved(changed) == {} and not profile.proven({"cache": True}, changed)
    assert profile.stale(changed)[0].startswith(name) and profile.proven({}, changed)
    older = [replace(one, thresholds="old") for one in profile.evidence]
    assert replace(profile, evidence=older).approved(profile.identity) == {}


def test_forced_settings_serve_without_evidence_until_they_are_taken_back(profile: Profile) -> None:
    forced, changed = profile.force({"awful": True}), {"weights": "other"}
    assert forced.approved(changed) == {"awful": True} and forced.proven({"awful": True}, changed)
    assert forced.force({}).approved(profile.identity) == profile.chosen


def test_what_was_rolled_back_stays_so(profile: Profile, tmp_path: Path) -> None:
    now = profile.identity
    back = profile.roll_back({"cache": True}, "drifted", 7.0)
    back.save(tmp_path)
    kept = load_profile(profile.model, tmp_path)
    assert kept is not None and kept.approved(now) == {}
    assert not kept.proven({"cache": True}, now) and kept.proven({"fewer": 40}, now)
    assert kept.rolled_back[0]["reason"] == "drifted"


def test_a_profile_is_what_was_written(profile: Profile, tmp_path: Path) -> None:
    path = profile.save(tmp_path)
    assert path == profile_path("made-up", tmp_path) and [*tmp_path.iterdir()] == [path]
    kept = load_profile("made-up", tmp_path)
    assert kept is not None and as_json(kept) == as_json(profile)
    assert approved("made-up", profile.identity, tmp_path) == profile.chosen
    assert approved("another", profile.identity, tmp_path) == {}
    assert profile_path("../a/b", tmp_path).parent == tmp_path


@pytest.mark.parametrize("damage", ["", "[]", "{}", '{"version": 9}', "\x00", "cut"])
def test_a_damaged_profile_is_said_so(profile: Profile, tmp_path: Path, damage: str) -> None:
    path = profile.save(tmp_path)
    path.write_text(path.read_text()[:400] if damage == "cut" else damage)
    with pytest.raises(ProfileDamaged, match="tune made-up"):
        load_profile("made-up", tmp_path)


def test_a_record_is_json_and_back(profile: Profile) -> None:
    for one in profile.evidence:
        written = json.dumps(one.as_dict())
        assert json.dumps(Evidence.from_dict(json.loads(written)).as_dict()) == written


def test_settings_are_equal_as_json_has_them() -> None:
    assert canonical({"a": (1, 2), "b": None, "c": False}) == {"a": [1, 2]}
    assert label({"step_cache": ("first_block", 0.1)}) == 'step_cache=["first_block", 0.1]'
    assert label({}) == "reference"
    with pytest.raises(TypeError, match="cannot hold"):
        canonical({"a": object()})


def test_drift_is_seen_soon_and_luck_is_not(profile: Profile) -> None:
    chosen = next(one for one in profile.evidence if one.label == "cache=true")
    bars = thresholds()
    rng = np.random.default_rng(0)
    watch = watches(chosen, bars, "made_up")["likeness"]
    assert not any(watch.add(watch.expected + 0.01 * z) for z in rng.standard_normal(2000))
    watch = watches(chosen, bars, "made_up")["likeness"]
    assert next(n for n in range(100) if watch.add(0.95)) < 10
    watch = watches(chosen, bars, "made_up")["likeness"]
    assert watch.add(float("nan"))


def test_pairs_and_worst() -> None:
    right = np.ones(200)
    some = np.where(np.arange(200) < 10, 0.0, 1.0)
    test = paired(right, some, confidence=0.95, resamples=500, seed=0)
    assert (test.worse, test.better, test.items) == (10, 0, 200)
    assert test.loss == pytest.approx(0.05) and test.least < 0.05 < test.most and test.p == pytest.approx(2**-10)
    assert sign_test(5, 5) > 0.5 and sign_test(0, 0) == 1.0
    assert worst(np.linspace(0, 1, 100), 0.05) == pytest.approx(np.linspace(0, 1, 100)[:5].mean())
    assert paired(right, right, confidence=0.95, resamples=100, seed=0).most == 0.0


def test_every_bar_has_a_reason_and_every_pair_a_rule() -> None:
    bars = thresholds()
    assert all(measure.why for measures in bars.measures.values() for measure in measures.values())
    assert bars.rule("step_cache", "guidance_interval").rule == "test"
    assert bars.rule("step_cache", "what nobody knows").rule == "refuse"
