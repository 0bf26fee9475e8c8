"""Subjects of models that draw, see and embed: what they run differs where it should, and scores say so."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
import torch

from vision_text.embeddings.tuning import EmbeddingSubject
from vision_text.scenes import clips
from vision_text.tuning import likeness
from vision_text.tuning.budgets import seeing_options
from vision_text.tuning.identity import identity_of, same_model
from vision_text.vlm.request import VisualBudget
from workers.gate.effect import effect
from workers.gate.evidence import fingerprint
from workers.gate.thresholds import thresholds


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def test_the_same_is_alike_and_what_differs_less() -> None:
    rng = np.random.default_rng(0)
    clip = clips.draw(clips.random_scene(rng))
    noisy = np.clip(clip.astype(int) + rng.integers(-20, 21, clip.shape), 0, 255).astype(np.uint8)
    for measure in (likeness.psnr, likeness.ssim, likeness.ms_ssim, likeness.steady, likeness.smooth):
        assert measure(clip, clip) == pytest.approx(1.0)
        assert measure(clip, noisy) <= 1.0
    assert likeness.ssim(clip, noisy) < 0.9 and likeness.psnr(clip, noisy) < 0.4


def test_one_bad_frame_is_seen() -> None:
    clip = clips.draw(clips.random_scene(np.random.default_rng(1)))
    broken = clip.copy()
    broken[3] = 255 - broken[3]
    assert likeness.ssim(clip, broken) < 0.5 and likeness.psnr(clip, broken) < 0.1
    assert likeness.steady(clip, broken) < 0.9


def test_a_jump_is_no_smooth_way() -> None:
    clip = clips.draw(clips.random_scene(np.random.default_rng(2)))
    jumping = clip[[0, 5, 1, 6, 2, 7, 3, 4]]
    assert likeness.smooth(clip, jumping) < 0.9 <= likeness.smooth(clip, clip)


def test_identity_names_all_that_evidence_rests_on() -> None:
    own = identity_of("shapes-image", "cpu")
    assert {"weights", "scheduler", "steps", "resolution", "torch", "diffusers", "device", "chip"} <= set(own)
    assert same_model(own, "shapes-image", "cpu") == own
    other = identity_of("shapes-image", "cpu", steps=20, size="48x48")
    assert fingerprint(other) != fingerprint(own) and same_model(other, "shapes-image", "cpu") == other


def test_a_budget_in_a_profile_is_a_budget() -> None:
    assert seeing_options({"visual_budget": {"tokens_per_image": 9}, "kv": "int8"}) == {
        "visual_budget": VisualBudget(9),
        "kv": "int8",
    }


def test_embeddings_on_trial() -> None:
    subject = EmbeddingSubject("all-MiniLM-L6-v2")
    items = subject.items(24, 3)
    reference = subject.run({}, items)
    plain = subject.score(reference.outputs, reference.outputs, items)
    assert set(plain) <= set(thresholds().of("embeddings"))
    assert plain["cosine"].min() > 0.999 and plain["neighbour"].all()
    few = subject.run({"dimensions": 8}, items)
    assert effect(reference.effect, few.effect).shown and few.held is not None and few.held[0] == 32
    assert subject.score(reference.outputs, few.outputs, items)["neighbour"].mean() < 0.8
    int8 = subject.run({"precision": "int8"}, items)
    assert subject.score(reference.outputs, int8.outputs, items)["neighbour"].mean() > 0.9
    assert not effect(reference.effect, subject.run({}, items).effect).shown
    assert subject.isolation({}) == []
