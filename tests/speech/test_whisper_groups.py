"""Frozen silence in groups: keys that are alike count as one, and the encoder's states stay what they were."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch.nn import functional as F

from speech.whisper.encoder import FRAMES, REDO, Encoder, Encoding
from speech.whisper.groups import BLOCK, GROUPS, Groups
from speech.whisper.weights import Checkpoint
from tests.speech.whisper_models import backend

FLOOR = -0.75


def test_keys_that_are_equal_count_as_many_as_they_are() -> None:
    chance = torch.Generator().manual_seed(0)
    few = torch.randn(2, 2, 3, GROUPS, 8, generator=chance)
    which = torch.randint(GROUPS, (BLOCK,), generator=chance)
    which[:GROUPS] = torch.arange(GROUPS)
    kv, q = few[:, :, :, which], torch.randn(2, 3, 5, 8, generator=chance)
    groups = Groups.of(kv)
    found = F.scaled_dot_product_attention(q, *groups.means.unbind(1), groups.weight[:, :, None].expand(-1, -1, 5, -1))
    assert torch.allclose(found, F.scaled_dot_product_attention(q, *kv.unbind(1)), atol=1e-5)
    assert torch.allclose(groups.weight.exp().sum(-1), torch.full((2, 3), float(BLOCK)))
    middles = (groups.weight.exp() * groups.middle).sum(-1) / BLOCK
    assert torch.allclose(middles, torch.full((2, 3), (BLOCK - 1) / 2), atol=1e-3)


class Singly(Encoder):
    """Every frame of the silence is a key."""

    @staticmethod
    def _behind(hi: int) -> tuple[int, int]:
        return FRAMES // BLOCK * GROUPS, FRAMES


@pytest.mark.parametrize("hi", [60, 299, 300, 1390])
def test_groups_hardly_change_what_speech_becomes(hi: int) -> None:
    grouped = backend()._encoder
    singly = Singly.__new__(Singly)
    singly.__dict__.update(grouped.__dict__)
    mel = torch.from_numpy(np.random.default_rng(hi).normal(0, 0.3, (80, 2 * hi)).astype(np.float32))
    found = []
    with torch.inference_mode():
        for encoder in (grouped, singly):
            kv = encoder.buffer(FLOOR)
            e = Encoding(encoder.stem(mel, 0, 0, hi), 0, hi, FLOOR, kv)
            encoder.run([e], encoder.layers)
            found.append(e.x)
    assert 0 < (found[0] - found[1]).norm() < 0.1 * found[1].norm()


@pytest.mark.long
def test_a_width_as_large_v3_turbos_goes_the_same_way() -> None:
    """1,280 wide, 20 heads, 128 mels, two layers of noise: an increment in steps of rows gives what one step does."""
    dim, chance = 1280, torch.Generator().manual_seed(0)

    def noise(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=chance) * 0.02

    tensors = {
        "encoder/conv1/weight": noise(dim, 128, 3), "encoder/conv1/bias": noise(dim),
        "encoder/conv2/weight": noise(dim, dim, 3), "encoder/conv2/bias": noise(dim),
        "encoder/position_encodings/encodings": noise(FRAMES, dim),
        "encoder/layer_norm/gamma": torch.ones(dim), "encoder/layer_norm/beta": torch.zeros(dim),
    }  # fmt: skip
    wide = {"self_attention/linear_0": (3, 1), "self_attention/linear_1": (1, 1), "ffn/linear_0": (4, 1),
            "ffn/linear_1": (1, 4)}  # fmt: skip
    for i in range(2):
        for name, (out, into) in wide.items():
            tensors[f"encoder/layer_{i}/{name}/weight"] = noise(out * dim, into * dim)
            tensors[f"encoder/layer_{i}/{name}/bias"] = noise(out * dim)
        for name in ("self_attention/layer_norm", "ffn/layer_norm"):
            tensors[f"encoder/layer_{i}/{name}/gamma"] = torch.ones(dim)
            tensors[f"encoder/layer_{i}/{name}/beta"] = torch.zeros(dim)
    encoder = Encoder(Checkpoint(tensors, 20, 2, 0, dim, 128, 0, ()), "float32", "cpu")
    with torch.inference_mode():
        first, second = noise(128, 240), noise(128, 2 * (REDO + 54))
        states = []
        for by_rows in (False, True):
            kv = encoder.buffer(FLOOR)
            encoder.run([Encoding(encoder.stem(first, 0, 0, 120), 0, 120, FLOOR, kv)], 2)
            lo = 120 - REDO
            e = Encoding(encoder.stem(second, lo - 4, lo, 170), lo, 170, FLOOR, kv)
            while by_rows and not encoder.finished(e):
                encoder.run_rows(e, 64)
            if not by_rows:
                encoder.run([e], 2)
            states.append(e.x)
    assert states[0].shape == (REDO + 50, dim)
    assert torch.allclose(states[0], states[1], atol=1e-4)
