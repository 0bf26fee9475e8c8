"""The loop against the library's own, and one request against the same beside others."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tests.vision_text.denoise.drawing import PROMPTS, asked, draw, same, side_by_side
from tests.vision_text.videos import untrained
from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.loading import read_pipeline
from vision_text.denoise.request import Asked, Preview
from vision_text.models import ModelUnusable
from workers.errors import BackendFailed, InputInvalid, InputTooLarge


def by_the_library(backend: DenoiseBackend, wanted: Asked, **more: Any) -> np.ndarray[Any, np.dtype[np.uint8]]:
    pipeline = backend.pipeline
    with torch.inference_mode():
        image = pipeline(
            wanted.prompt,
            negative_prompt=wanted.negative,
            true_cfg_scale=wanted.guidance,
            width=wanted.width,
            height=wanted.height,
            num_inference_steps=wanted.steps,
            max_sequence_length=pipeline.tokenizer_2.model_max_length,
            generator=torch.Generator().manual_seed(wanted.seed),
            output_type="np",
            **more,
        ).images[0]
    return (image * 255).round().astype(np.uint8)


@pytest.mark.parametrize("given", [{}, {"guidance": 1.0}, {"negative": "a red circle left"}, {"width": 40, "seed": 9}])
def test_without_options_it_is_the_librarys_own_picture(backend: DenoiseBackend, given: dict[str, Any]) -> None:
    """At most one level of 256: the library calls the model for one row at a time, we for rows filled up to eight,
    for which the kernels may sum in another order."""
    wanted = asked(4, **given)
    made = draw(backend, wanted).frames[0].astype(int)
    assert np.abs(made - by_the_library(backend, wanted)).max() <= 1


@pytest.mark.parametrize("scheduler", ["CogVideoXDDIMScheduler", "CogVideoXDPMScheduler"])
def test_the_same_holds_for_clips(tmp_path: Path, scheduler: str) -> None:
    import diffusers

    directory = untrained.write(tmp_path)
    films = DenoiseBackend("video", *read_pipeline(str(directory)), items=1)
    films.load("cpu")
    pipeline = films.pipeline
    pipeline.scheduler = getattr(diffusers, scheduler).from_config(pipeline.scheduler.config)
    info = films.info
    width, height = info.default_size
    wanted = Asked("a red ball", width=width, height=height, frames=info.default_frames, steps=3, guidance=3, seed=4)
    with torch.inference_mode():
        frames = pipeline(
            wanted.prompt,
            negative_prompt="",
            width=width,
            height=height,
            num_frames=wanted.frames,
            num_inference_steps=3,
            guidance_scale=3,
            generator=torch.Generator().manual_seed(4),
            output_type="np",
            max_sequence_length=pipeline.transformer.config.max_text_seq_length,
        ).frames[0]
    theirs = (frames * 255).round().astype(int)
    made = draw(films, wanted).frames.astype(int)
    assert made.shape == theirs.shape == (wanted.frames, height, width, 3)
    assert np.abs(made - theirs).max() <= 1


def test_guidance_until_six_tenths_of_fifty_steps_takes_eighty_evaluations(backend: DenoiseBackend) -> None:
    draw(backend, asked(1))  # so that there are modules to hook
    rows: Counter[str] = Counter()

    def count(_module: object, _args: object, output: torch.Tensor) -> None:
        rows["evaluated"] += len(output)

    hooks = [tree.model.proj_out.register_forward_hook(count) for tree in backend._trees.values()]  # type: ignore[union-attr, operator]
    made = draw(backend, asked(50, interval=(0.0, 0.6), width=24, height=24))
    for hook in hooks:
        hook.remove()
    assert rows["evaluated"] == 80
    assert (made.approximation.evaluations, made.approximation.skipped) == (80, 20)
    assert made.approximation.options == {"guidance_interval": [0.0, 0.6]}


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"step_cache": ("first_block", 0.15)},
        {"step_cache": ("dbcache", 0.15, 2, 1)},
        {"step_cache": ("taylor", 3, 1)},
        {"step_cache": ("magcache", 0.2, [1.0, 1.02, 0.98])},
        {"precision": "int8"},
    ],
    ids=str,
)
def test_a_request_is_the_same_alone_among_eight_and_beside_others_at_other_steps(
    backend: DenoiseBackend, options: dict[str, Any]
) -> None:
    """Bit for bit, on a CPU."""
    side = 24 if options else 48
    wanted = [
        asked(
            6,
            prompt=PROMPTS[n % 3],
            seed=n,
            guidance=1.0 if n == 5 else 2.5,
            interval=(0.0, 0.6),
            options=options,
            width=side,
            height=side,
        )
        for n in range(8)
    ]
    alone = {n: side_by_side(backend, wanted[n : n + 1]) for n in (0, 5)}
    for late in (0, 3):
        together, latents, largest = side_by_side(backend, wanted, late)
        assert largest == 8
        for n, ((made,), (end,), _) in alone.items():
            assert torch.equal(latents[n], end)
            assert same(made, together[n])
            assert made.approximation == together[n].approximation
    assert not backend.held()


def test_sizes_of_odd_numbers_of_tokens_are_the_same_together_too(backend: DenoiseBackend) -> None:
    for width, height in ((8, 8), (40, 40)):
        wanted = [asked(3, seed=n, width=width, height=height) for n in range(5)]
        together, latents, _ = side_by_side(backend, wanted)
        for n in (0, 4):
            (alone,), (end,), _ = side_by_side(backend, wanted[n : n + 1])
            assert torch.equal(latents[n], end) and same(alone, together[n])


def test_both_branches_apart_are_the_same_picture(backend: DenoiseBackend) -> None:
    wanted = asked(5)
    assert same(draw(backend, wanted), draw(backend, asked(5, options={"branches": "apart"})))


def test_previews_come_on_the_way_and_change_nothing(backend: DenoiseBackend) -> None:
    plain = draw(backend, asked(9))
    *previews, made = backend.run(asked(9, previews=2))
    assert [(one.step, one.steps) for one in previews if isinstance(one, Preview)] == [(3, 9), (6, 9)]
    assert all(one.frames.shape == (1, 48, 48, 3) for one in previews)
    assert np.array_equal(made.frames, plain.frames)
    # The later, the nearer to the end.
    far = [np.abs(one.frames.astype(int) - plain.frames).mean() for one in previews]
    assert far[1] < far[0]


@pytest.mark.parametrize("sampler", ["euler", "heun", "dpm++", "unipc"])
def test_other_samplers_come_to_the_same_picture(backend: DenoiseBackend, sampler: str) -> None:
    exact, made = draw(backend, asked(8)), draw(backend, asked(8, options={"sampler": sampler}))
    assert np.abs(exact.frames.astype(float) - made.frames).mean() < 8
    assert made.approximation.evaluations == (30 if sampler == "heun" else 16)
    assert same(exact, draw(backend, asked(8)))  # and leave the model's own as it was


class TestFallback:
    """What is no picture is made again exactly, and says so."""

    @staticmethod
    def _poison(backend: DenoiseBackend, wanted: Asked, value: float) -> torch.nn.Module:
        draw(backend, wanted)
        module = next(reversed(backend._trees.values())).model.proj_out  # type: ignore[union-attr]
        assert isinstance(module, torch.nn.Module)
        module.register_forward_hook(lambda *given: given[-1] * 0 + value)
        return module

    def test_latents_that_are_no_numbers(self, backend: DenoiseBackend) -> None:
        wanted = asked(4, options={"step_cache": ("first_block", 0.123)})
        self._poison(backend, wanted, float("nan"))
        made = draw(backend, wanted)
        assert made.approximation.fallback == "the latents were not finite; made again exactly"
        assert made.approximation.options == {}
        assert same(made, draw(backend, asked(4, exact=True)))
        assert made.approximation.evaluations == 2 + 8  # those of the first try count
        assert not backend.held()

    def test_a_constant_picture(self, backend: DenoiseBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        wanted = asked(4, options={"precision": "int4"})
        decode, black = backend.adapter.decode, [True]

        def first_black(*given: Any) -> Any:
            frames = decode(*given)
            assert frames is not None
            return frames * 0 if black and black.pop() else frames

        monkeypatch.setattr(backend.adapter, "decode", first_black)
        made = draw(backend, wanted)
        assert made.approximation.fallback == "the picture was constant; made again exactly"
        assert made.approximation.precision == "float32"
        assert same(made, draw(backend, asked(4)))

    def test_what_is_exact_already_fails(self, backend: DenoiseBackend, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(backend.adapter, "decode", lambda *given: None)
        with pytest.raises(BackendFailed, match="not finite, though it was made exactly"):
            draw(backend, asked(2))

    def test_others_in_the_batch_are_not_made_again(self, backend: DenoiseBackend) -> None:
        wanted = [asked(4, seed=n) for n in range(3)]
        states = [backend.open(one) for one in wanted]
        backend.step(states)
        states[1].latents = states[1].latents * float("nan")
        results = backend.step(states)
        assert [isinstance(one, Exception) for one in results] == [False, True, False]
        for state in states:
            backend.discard(state)


@pytest.mark.parametrize(
    ("given", "param"),
    [
        ({"prompt": " "}, "prompt"),
        ({"prompt": "\ud800"}, "prompt"),
        ({"width": 0}, "width"),
        ({"width": 47}, "width"),
        ({"height": 12}, "height"),
        ({"frames": 2}, "frames"),
        ({"steps": 0}, "steps"),
        ({"steps": 10_000}, "steps"),
        ({"guidance": -1}, "guidance"),
        ({"guidance": float("nan")}, "guidance"),
        ({"interval": (0.6, 0.2)}, "interval"),
        ({"interval": (0.0, 1.5)}, "interval"),
        ({"seed": -1}, "seed"),
        ({"previews": 99}, "previews"),
        ({"options": {"speed": 1}}, "options"),
        ({"options": {"steps": 0}}, "options.steps"),
        ({"options": {"sampler": "ddim"}}, "options.sampler"),
        ({"options": {"sampler": []}}, "options.sampler"),
        ({"options": {"attention": "no-such"}}, "options.attention"),
        ({"options": {"attention": "sage_hub"}}, "options.attention"),
        ({"options": {"precision": "int3"}}, "options.precision"),
        ({"options": {"precision": {"layers": ["x"], "edges": [0, 1], "formats": [["int8"]]}}}, "options.precision"),
        ({"options": {"step_cache": ["first_block", -1]}}, "options.step_cache"),
        ({"options": {"step_cache": ["dbcache", 0.1, 4, 4]}}, "options.step_cache"),
        ({"options": {"step_cache": ["magcache", 0.1, []]}}, "options.step_cache"),
        ({"options": {"step_cache": {}}}, "options.step_cache"),
        ({"options": {"compile": True}}, "options.compile"),
        ({"options": {"compile": True, "precision": "int8"}}, "options.precision"),
        ({"options": {"attention": "flex", "attention_precision": "int8"}}, "options.attention_precision"),
        ({"options": {"parallel": "ulysses"}}, "options.parallel"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused_with_its_name(backend: DenoiseBackend, given: dict[str, Any], param: str) -> None:
    with pytest.raises(InputInvalid) as caught:
        draw(backend, Asked(**({"prompt": "a red circle left", "width": 48, "height": 48, "steps": 2} | given)))
    assert caught.value.param == param


def test_what_is_too_large_is_refused_before_it_takes_memory(backend: DenoiseBackend) -> None:
    with pytest.raises(InputTooLarge):
        backend.open(asked(width=16_384, height=16_384))
    with pytest.raises(InputTooLarge):
        asked(prompt="a" * 100_000)
    with pytest.raises(InputTooLarge, match="tokens"):
        draw(backend, asked(prompt="a red circle " * 9))


def test_only_pipelines_that_are_served_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text('{"_class_name": "StableDiffusionPipeline"}')
    (tmp_path / "x.safetensors").write_bytes(b"")
    with pytest.raises(ModelUnusable, match="StableDiffusionPipeline"):
        read_pipeline(str(tmp_path))
