"""What a service does with a profile: starts with what is proven, refuses the rest, watches, and takes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from prometheus_client import CollectorRegistry, generate_latest

from gateway.tune.live import Live
from gateway.tune.metrics import ProofMetrics
from gateway.tune.proven import ProvenOptions
from vision_text.denoise.request import Approximation, Made
from vision_text.embeddings.embedder import Embedder
from vision_text.embeddings.settings import EmbeddingSettings, nothing_proven
from vision_text.embeddings.tuning import identity_of
from workers.device import Device
from workers.gate.evidence import Evidence, Measured, Verdict
from workers.gate.profile import Profile, load_profile, profile_path
from workers.gate.thresholds import thresholds
from workers.task import Lane

NOW = {"weights": "abc", "device": "cpu"}
CACHE = {"step_cache": ["first_block", 0.1]}


def evidence(settings: Mapping[str, Any], verdict: Verdict, **more: Any) -> Evidence:
    measured = Measured(1.0, 0.99, 0.97, {"loss": 0.0}, deviation=0.01)
    return Evidence(
        settings, verdict, (), NOW, thresholds().digest, 0, 200, 1.0,
        speed={"median": 2.0, "low": 1.9, "high": 2.1, "least": 1.9, "most": 2.1, "rounds": 12},
        measures={"ssim": measured}, **more,
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    found = [
        evidence(CACHE, Verdict.PASSED), evidence({"steps": 20}, Verdict.PASSED),
        evidence({"guidance_interval": [0.0, 0.02]}, Verdict.HARMFUL, harmful=True),
    ]  # fmt: skip
    Profile("draws", "image", NOW, found, CACHE).save(tmp_path)
    return tmp_path


def known(folder: Path, now: Mapping[str, str] = NOW) -> ProvenOptions:
    return ProvenOptions("cpu", folder=folder, identify=lambda kind, then, name: now)


def test_a_model_starts_with_what_is_proven_and_requests_may_have_no_more(folder: Path) -> None:
    proven = known(folder)
    assert proven.options("image", "draws") == {"step_cache": ("first_block", 0.1)}
    assert proven.proven("image", "draws", None, {"step_cache": None})
    assert proven.proven("image", "draws", None, {"step_cache": ("first_block", 0.1)})
    assert proven.proven("image", "draws", None, {"step_cache": None, "steps": 20})
    for options in ({"steps": 20}, {"guidance_interval": (0.0, 0.02), "step_cache": None}, {"steps": object()}):
        assert not proven.proven("image", "draws", None, options), options
    assert not proven.proven("image", "another", None, {"steps": 20})


def test_a_model_that_was_never_tuned_runs_exactly(folder: Path) -> None:
    proven = known(folder)
    assert proven.options("image", "new") == {} and not proven.proven("image", "new", None, {"steps": 20})
    assert proven.report()[0]["options"] == []


def test_evidence_of_another_machine_or_of_other_weights_is_none(folder: Path) -> None:
    proven = known(folder, {**NOW, "weights": "xyz"})
    assert proven.options("image", "draws") == {} and not proven.proven("image", "draws", None, {"steps": 20})
    (told,) = proven.report()
    assert "weights abc to xyz" in told["problem"] and {one["state"] for one in told["options"]} == {"stale"}


def test_a_damaged_profile_stops_nobody(folder: Path) -> None:
    profile_path("draws", folder).write_text("{")
    proven = known(folder)
    assert proven.options("image", "draws") == {}
    assert "tune draws" in proven.report()[0]["problem"]


def test_forced_options_serve_and_are_shown_as_such(folder: Path) -> None:
    profile = load_profile("draws", folder)
    assert profile is not None
    profile.force({"guidance_interval": (0.0, 0.02)}).save(folder)
    proven = known(folder, {"weights": "xyz"})
    assert proven.options("image", "draws") == {"guidance_interval": (0.0, 0.02)}
    states = {one["option"]: (one["state"], one["serving"]) for one in proven.report()[0]["options"]}
    assert states["guidance_interval=[0.0, 0.02]"] == ("forced", True)


def test_a_chat_gets_its_budget_as_one(folder: Path) -> None:
    from vision_text.vlm.request import VisualBudget

    budget = {"visual_budget": {"tokens_per_image": 16}}
    Profile("sees", "vlm", NOW, [evidence(budget, Verdict.PASSED)], budget).save(folder)
    assert known(folder).options("chat", "sees") == {"visual_budget": VisualBudget(16)}


def test_metrics_tell_proven_from_unproven(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")
    registry = CollectorRegistry()
    registry.register(ProofMetrics(proven))
    text = generate_latest(registry).decode()
    assert 'option="steps=20",state="proven"} 1.0' in text
    assert 'option="guidance_interval=[0.0, 0.02]",state="unproven"} 1.0' in text
    assert 'speechlane_option_serving{model="draws",options="step_cache=[\\"first_block\\", 0.1]"} 1.0' in text


@dataclass(frozen=True)
class Ask:
    seed: int = 0
    exact: bool = False
    previews: int = 0
    options: Mapping[str, object] = field(default_factory=dict)


class Drawn:
    """Draws noise of the seed; with its options on, so far from it."""

    def __init__(self, off: int) -> None:
        self.off, self.asked, self.info = off, list[tuple[Ask, Lane]](), "info"

    async def make(self, asked: Ask, *, lane: Lane = Lane.INTERACTIVE) -> AsyncGenerator[Made, None]:
        self.asked.append((asked, lane))
        frames = np.random.default_rng(asked.seed).integers(0, 200, (1, 16, 16, 3)).astype(np.int16)
        if not asked.exact:
            frames = frames + np.random.default_rng(asked.seed + 1).integers(0, self.off + 1, frames.shape)
        yield Made(frames.astype(np.uint8), asked.seed, 0.1, Approximation(1, 0, 0, "float32", "native"))


async def asked_for(live: Live, model: Any, count: int) -> None:
    for seed in range(count):
        async for _ in model.make(Ask(seed)):
            pass
        await asyncio.gather(*live._running)


async def test_some_live_requests_are_made_again_exactly_in_bulk(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")
    chances = iter([0.5, 0.001, 0.5])
    live = Live(proven, chance=lambda: next(chances))
    drawn = Drawn(off=1)
    model = live.watched("image", "draws", drawn)
    await asked_for(live, model, 3)
    assert model.info == "info"
    assert [(one.seed, one.exact, lane) for one, lane in drawn.asked] == [
        (0, False, Lane.INTERACTIVE), (1, False, Lane.INTERACTIVE), (1, True, Lane.BULK), (2, False, Lane.INTERACTIVE),
    ]  # fmt: skip
    assert proven.reruns == {("draws", "compared"): 1} and proven.drift["draws", "ssim"] == 0.0


async def test_drift_takes_the_option_back_now_and_after_a_restart(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")
    live, drawn = Live(proven, chance=lambda: 0.0), Drawn(off=55)
    model = live.watched("image", "draws", drawn)
    await asked_for(live, model, 8)
    assert proven.serving("draws") == {}
    (told,) = proven.report()
    assert "drifted" in told["problem"] and told["serving"] is None
    assert {one["state"] for one in told["options"] if one["option"].startswith("step_cache")} == {"taken back"}
    before = len(drawn.asked)
    await asked_for(live, model, 1)
    assert [one.exact for one, _ in drawn.asked[before:]] == [True]
    async for _ in model.make(Ask(options={"steps": 20})):
        pass
    assert drawn.asked[-1][0].options == {"step_cache": None, "steps": 20}
    again = known(folder)
    assert again.options("image", "draws") == {}
    assert not again.proven("image", "draws", None, CACHE) and again.proven("image", "draws", None, {"steps": 20})


async def test_what_is_even_is_left_alone(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")
    live = Live(proven, chance=lambda: 0.0)
    await asked_for(live, live.watched("image", "draws", Drawn(off=2)), 40)
    assert proven.serving("draws") == CACHE and proven.reruns["draws", "compared"] == 40


async def test_exact_requests_and_those_with_options_of_their_own_are_not_made_again(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")
    live, drawn = Live(proven, chance=lambda: 0.0), Drawn(off=0)
    model = live.watched("image", "draws", drawn)
    for asked in (Ask(exact=True), replace(Ask(), options={"steps": 20})):
        async for _ in model.make(asked):
            pass
    assert len(drawn.asked) == 2 and not live._running


async def test_reruns_are_few_at_once_and_end_with_the_service(folder: Path) -> None:
    proven = known(folder)
    proven.options("image", "draws")

    class Slow(Drawn):
        async def make(self, asked: Ask, *, lane: Lane = Lane.INTERACTIVE) -> AsyncGenerator[Made, None]:
            if lane is Lane.BULK:
                await asyncio.sleep(3600)
            async for part in super().make(asked, lane=lane):
                yield part

    live = Live(proven, chance=lambda: 0.0)
    model = live.watched("image", "draws", Slow(off=0))
    for seed in range(6):
        async for _ in model.make(Ask(seed)):
            pass
    assert len(live._running) == thresholds().live.most_waiting and proven.reruns["draws", "skipped"] == 2
    await live.close()
    assert not live._running


async def test_embeddings_are_served_with_what_is_proven_for_the_model_as_it_is(tmp_path: Path) -> None:
    name, now = "all-MiniLM-L6-v2", identity_of("all-MiniLM-L6-v2")
    shown = replace(evidence({"arithmetic": "bfloat16"}, Verdict.PASSED), identity=now)
    Profile(name, "embeddings", now, [shown], shown.settings).save(tmp_path)
    proven = ProvenOptions("cpu", folder=tmp_path)
    for given, precision in ((partial(proven.options, "embeddings"), "bfloat16"), (nothing_proven, "float32")):
        device = Device("cpu:0", "cpu")
        embedder = await Embedder.start([device], EmbeddingSettings(), given)
        assert precision in device.loop.homes[name].backend.spec.precision
        await embedder.close()
        device.close()
    Profile(name, "embeddings", {**now, "weights": "other"}, [shown], shown.settings).save(tmp_path)
    assert ProvenOptions("cpu", folder=tmp_path).options("embeddings", name) == {}
