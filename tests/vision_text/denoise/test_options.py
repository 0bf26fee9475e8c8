"""Each option has an effect that is counted, is that request's alone, and leaves nothing behind however it ends."""

from __future__ import annotations

import ast
from typing import Any

import numpy as np
import pytest
import torch

from tests.vision_text.denoise.drawing import PROMPTS, asked, draw, same
from tests.vision_text.denoise.test_loop import by_the_library
from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.calibration import calibrate
from vision_text.denoise.making import Settled
from vision_text.denoise.options import Options, read_options
from workers.backend import More

CACHES: list[Any] = [("first_block", 0.15), ("taylor", 3, 1), ("magcache", 0.2, [1.0, 1.02, 0.98])]


def psnr(a: np.ndarray[Any, Any], b: np.ndarray[Any, Any]) -> float:
    return float(10 * np.log10(255**2 / max(1e-9, ((a.astype(float) - b) ** 2).mean())))


@pytest.mark.parametrize("cache", CACHES[::2], ids=str)
def test_for_one_request_a_cache_is_the_librarys(backend: DenoiseBackend, cache: Any) -> None:
    from diffusers import FirstBlockCacheConfig, MagCacheConfig

    wanted = asked(10, options={"step_cache": cache})
    made = draw(backend, wanted)
    assert 0 < made.approximation.cached_steps < 20
    transformer = backend.pipeline.transformer
    if cache[0] == "first_block":
        transformer.enable_cache(FirstBlockCacheConfig(threshold=cache[1]))
    else:
        ratios = torch.tensor(cache[2])
        transformer.enable_cache(MagCacheConfig(mag_ratios=ratios, num_inference_steps=10, threshold=cache[1]))
    try:
        theirs = by_the_library(backend, wanted)
    finally:
        transformer.disable_cache()
    assert np.abs(made.frames[0].astype(int) - theirs).max() <= 1


@pytest.mark.parametrize("cache", [*CACHES, ("dbcache", 0.15, 2, 1)], ids=str)
def test_a_cache_leaves_out_what_it_says(backend: DenoiseBackend, cache: Any) -> None:
    exact = draw(backend, asked(12))
    backend.counters.clear()
    made = draw(backend, asked(12, options={"step_cache": cache}))
    how, counters = made.approximation, backend.counters
    single = counters["computed.FluxSingleTransformerBlock"]
    assert how.cached_steps == counters["cached"] > 0
    assert how.evaluations == counters["evaluations"] == 24 - how.skipped
    blocks = 4 if cache[0] != "dbcache" else 3
    assert single == 4 * 24 - blocks * how.cached_steps
    if cache[0] == "taylor":  # the model is not even called
        assert how.skipped == how.cached_steps
    assert psnr(made.frames, exact.frames) > 20


def test_a_threshold_that_is_too_loose_is_seen_in_the_picture(backend: DenoiseBackend) -> None:
    exact = draw(backend, asked(12))
    fine, coarse = (
        draw(backend, asked(12, options={"step_cache": ("first_block", threshold)})) for threshold in (0.05, 50.0)
    )
    assert coarse.approximation.cached_steps == 22  # all but the first of each branch
    assert psnr(fine.frames, exact.frames) > 10 + psnr(coarse.frames, exact.frames)


@pytest.mark.parametrize("cache", CACHES, ids=str)
class TestNothingStays:
    """Of a request that was cancelled, has failed, or had another number of steps."""

    def test_after_a_cancel(self, backend: DenoiseBackend, cache: Any) -> None:
        options = {"step_cache": cache}
        before = draw(backend, asked(7, options=options))
        for stop in (1, 5):
            state = backend.open(asked(11, seed=9, prompt=PROMPTS[1], options=options))
            for _ in range(stop + 1):
                assert isinstance(backend.step([state])[0], More)
            assert backend.held()
            backend.discard(state)
            assert not backend.held() and state.tree is None
        after = draw(backend, asked(7, options=options))
        assert same(before, after) and before.approximation == after.approximation

    def test_after_an_exception(self, backend: DenoiseBackend, cache: Any) -> None:
        """The loop halves a batch that fails: what was in it before is as it was, and comes to the same picture."""
        options = {"step_cache": cache}
        before = draw(backend, asked(7, options=options))
        states = [backend.open(asked(7, options=options)), backend.open(asked(7, seed=8, options=options))]
        for _ in range(3):
            backend.step(states)
        tree = states[0].tree
        assert tree is not None

        def fail(*_given: object) -> None:
            raise RuntimeError("on its way")

        hook = tree.model.proj_out.register_forward_hook(fail)  # type: ignore[union-attr, operator]
        for one in (states, states[:1]):
            with pytest.raises(RuntimeError, match="on its way"):
                backend.step(one)
        hook.remove()
        backend.discard(states[1])
        while isinstance(result := backend.step(states[:1])[0], More):
            pass
        assert same(result.output, before)
        backend.discard(states[0])
        assert not backend.held()


def test_a_calibration_is_the_librarys(backend: DenoiseBackend, capsys: pytest.CaptureFixture[str]) -> None:
    from diffusers import MagCacheConfig

    wanted = asked(6, guidance=1.0)
    found = calibrate(backend, [wanted])
    transformer = backend.pipeline.transformer
    transformer.enable_cache(MagCacheConfig(num_inference_steps=6, calibrate=True))
    try:
        by_the_library(backend, wanted)
    finally:
        transformer.disable_cache()
    printed = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("[1.0"))
    assert np.allclose(found.ratios, ast.literal_eval(printed), atol=1e-4)
    assert found.identity["steps"] == "6" and found.identity["revision"] == backend.spec.revision
    made = draw(backend, asked(6, guidance=1.0, options={"step_cache": found.option(0.5)}))
    assert made.approximation.cached_steps > 0
    with pytest.raises(ValueError, match="one kind"):
        calibrate(backend, [wanted, asked(7)])


def test_kernels_are_of_the_request_and_of_nobody_else(backend: DenoiseBackend) -> None:
    from diffusers.models.attention_dispatch import _AttentionBackendRegistry

    before = _AttentionBackendRegistry.get_active_backend()[0]
    exact = draw(backend, asked(3))
    made = draw(backend, asked(3, options={"attention": "math"}))
    assert made.approximation.kernel == "math"
    assert psnr(exact.frames, made.frames) > 50
    kernels = {
        tree.number: {str(one._attention_backend.value) for one in tree.model.attn_processors.values()}  # type: ignore[union-attr, operator]
        for tree in backend._trees.values()
    }
    assert {"_native_math"} in kernels.values() and {"native"} in kernels.values()
    assert all(one._attention_backend is None for one in backend.pipeline.transformer.attn_processors.values())
    assert _AttentionBackendRegistry.get_active_backend()[0] is before


def test_trees_share_their_weights(backend: DenoiseBackend) -> None:
    draw(backend, asked(1, options={"attention": "math"}))
    own = {one.data_ptr() for one in backend.pipeline.transformer.parameters()}
    for tree in backend._trees.values():
        assert {one.data_ptr() for one in tree.model.parameters()} == own


@pytest.mark.parametrize("precision", ["int8", "int4"])
def test_precision_is_stated_and_has_an_effect(backend: DenoiseBackend, precision: str) -> None:
    exact = draw(backend, asked(4))
    made = draw(backend, asked(4, options={"precision": precision}))
    assert made.approximation.precision == f"{precision} (emulated)"
    assert backend.counters[f"linear.{precision} (emulated)"] > 0
    assert not same(exact, made) and psnr(exact.frames, made.frames) > 15
    assert same(exact, draw(backend, asked(4)))


def test_a_plan_of_precisions_changes_from_step_to_step(backend: DenoiseBackend) -> None:
    blocks = [f"transformer_blocks.{n}" for n in range(2)] + [f"single_transformer_blocks.{n}" for n in range(4)]
    plan = {"layers": blocks, "edges": [0, 0.5, 1], "formats": [["int8"] * 6, ["float32"] * 6]}
    backend.counters.clear()
    made = draw(backend, asked(4, options={"precision": plan}))
    assert made.approximation.precision == "50% int8 (emulated), 50% float32"
    calls = backend.counters["linear.int8 (emulated)"]
    backend.counters.clear()
    draw(backend, asked(4, options={"precision": "int8"}))
    assert calls and backend.counters["linear.int8 (emulated)"] == 2 * calls


def test_attention_in_eight_bits(backend: DenoiseBackend) -> None:
    made = draw(backend, asked(4, options={"attention_precision": "int8"}))
    assert made.approximation.kernel == "native, int8 (emulated)"
    assert backend.counters["attention.int8 (emulated)"] > 0
    assert psnr(made.frames, draw(backend, asked(4)).frames) > 25


def test_fused_norms_are_those_of_the_library() -> None:
    from diffusers.models.normalization import RMSNorm

    from vision_text.denoise.tree import _fuse_norms

    torch.manual_seed(0)
    model = torch.nn.Sequential(RMSNorm(16, 1e-6), torch.nn.Linear(16, 16), RMSNorm(16, 1e-6, elementwise_affine=False))
    torch.nn.init.normal_(model[0].weight)
    x = torch.randn(4, 16)
    before = model(x)
    assert _fuse_norms(model) == 2 and isinstance(model[0], torch.nn.RMSNorm)
    torch.testing.assert_close(model(x), before, atol=1e-5, rtol=1e-5)


def test_what_holds_of_request_start_and_exact() -> None:
    base = read_options({"steps": 30, "guidance_interval": (0.0, 0.6), "step_cache": ["first_block", 0.1]})
    plain = Settled.of(asked(50), base, 50)
    assert (plain.steps, plain.interval, plain.options.step_cache) == (30, (0.0, 0.6), ("first_block", 0.1))
    own = Settled.of(asked(40, interval=(0.2, 0.9), options={"step_cache": None}), base, 50)
    assert (own.steps, own.interval, own.options.step_cache) == (40, (0.2, 0.9), None)
    exact = Settled.of(asked(50, exact=True, options={"precision": "int8"}), base, 50)
    assert (exact.steps, exact.interval, exact.options) == (50, (0.0, 1.0), Options())
    assert not exact.lossy(asked(50)) and plain.lossy(asked(50)) and own.lossy(asked(40))
    assert Settled.of(asked(50, options={"steps": 20}), Options(), 50).steps == 20
