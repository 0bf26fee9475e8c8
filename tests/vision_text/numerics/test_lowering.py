"""A transformer in other precisions: what changes, what does not, and that it goes back."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.vision_text.numerics import small
from vision_text.numerics.attention import LoweredAttention, quantised_attention
from vision_text.numerics.formats import Format
from vision_text.numerics.linear import Lowering
from vision_text.numerics.plan import PrecisionPlan
from workers.errors import InputInvalid

CLASSES = [(small.cogvideox, small.inputs), (small.flux, small.flux_inputs)]


def run(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.inference_mode():
        made: torch.Tensor = model(**inputs, return_dict=False)[0]
    return made


@pytest.mark.parametrize(("build", "inputs"), CLASSES)
def test_a_block_changes_alone_and_back(build: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> None:
    model, given = build(), inputs()
    exact = run(model, given)
    names = [name for name, _ in model.named_parameters()]
    lowering = Lowering(model)
    assert torch.equal(run(model, given), exact)
    assert [name for name, _ in model.named_parameters()] == names
    seen = []
    for n in range(len(lowering.layers)):
        formats: list[Format] = ["float32"] * len(lowering.layers)
        formats[n] = "int8"
        lowering.use(formats)
        seen.append(run(model, given))
        assert 0 < (seen[-1] - exact).abs().max() < 0.1
    assert not torch.equal(seen[0], seen[1])
    assert set(lowering.counters) == {"linear.int8 (emulated)"}
    lowering.close()
    assert torch.equal(run(model, given), exact)
    assert {type(module).__name__ for module in model.modules() if isinstance(module, torch.nn.Linear)} == {"Linear"}


def test_low_bits_are_worse_than_high_and_real_int8_is_what_was_emulated() -> None:
    model, given = small.cogvideox(), small.inputs()
    exact = run(model, given)
    lowering = Lowering(model)
    error = {}
    for format in ("bf16", "int8", "fp8", "mxfp8", "int4"):
        lowering.use([format, format])
        error[format] = float((run(model, given) - exact).square().mean())
    lowering.close()
    assert error["int8"] < error["fp8"] < error["int4"] and error["int8"] < error["mxfp8"] < error["int4"]
    real = Lowering(model, real=True)
    real.use(["int8", "int8"])
    made = float((run(model, given) - exact).square().mean())
    assert set(real.counters) == {"linear.int8"}
    assert made == pytest.approx(error["int8"], rel=0.2)
    with pytest.raises(ValueError, match="does not multiply in mxfp8"):
        real.use(["mxfp8", "int8"])
    assert real.stated(["int8", "float32"]) == {"int8": 1, "float32": 1}


@pytest.mark.parametrize("format", ["int8", "fp8", "mxfp8", "int4"])
def test_an_item_in_low_precision_does_not_see_its_batch(format: Format) -> None:
    """Products differ by an ulp with the number of rows; a scale over the batch would make them differ by percents."""
    model, given = small.cogvideox(), small.inputs()
    lowering, attention = Lowering(model), LoweredAttention(model)
    lowering.use([format, format])
    attention.use(["int8", "int8"])
    alone = run(model, {name: value[:1] if value is not None else None for name, value in given.items()})
    loud = {name: value.clone() if value is not None else None for name, value in given.items()}
    loud["hidden_states"][1] *= 50
    assert torch.allclose(run(model, loud)[:1], alone, atol=2e-2)


@pytest.mark.parametrize(("build", "inputs"), CLASSES)
def test_attention_of_one_model_and_of_no_other(build: Callable[[], Any], inputs: Callable[[], dict[str, Any]]) -> None:
    model, other, given = build(), build(), inputs()
    exact = run(model, given)
    attention = LoweredAttention(model)
    assert torch.equal(run(model, given), exact)
    attention.use(["int8"] * len(attention.layers))
    made = run(model, given)
    assert 0 < (made - exact).abs().max() < 0.05
    assert attention.counters == {"attention.int8 (emulated)": len(attention.layers)}
    assert torch.equal(run(other, given), exact)
    attention.close()
    assert torch.equal(run(model, given), exact)


def test_a_kernel_that_quantisation_does_not_reach_is_an_error_and_not_a_silence() -> None:
    model = small.flux()
    model.transformer_blocks[0].attn.processor._attention_backend = "flex"
    attention = LoweredAttention(model)
    attention.use(["int8", "float32", "float32"])
    with pytest.raises(InputInvalid, match="had no effect"):
        run(model, small.flux_inputs())


def test_keys_lose_their_mean_before_they_are_rounded() -> None:
    """Keys with a large common part are what breaks eight bits; without their mean it is not there."""
    made = torch.Generator().manual_seed(0)
    query, key, value = (torch.randn(1, 2, 100, 24, generator=made) for _ in range(3))
    key = key + 40 * torch.randn(1, 2, 1, 24, generator=made)
    exact = torch.nn.functional.scaled_dot_product_attention(query, key, value)
    for format, bound in (("int8", 0.05), ("fp8", 0.2)):
        assert (quantised_attention(query, key, value, format) - exact).abs().max() < bound  # type: ignore[arg-type]


def test_a_library_s_setting_reaches_the_inner_processor() -> None:
    """And no further: what the library stores on a processor must not be lost on the one around it."""
    model = small.flux()
    inner = model.transformer_blocks[0].attn.processor
    attention = LoweredAttention(model)
    model.transformer_blocks[0].attn.processor._attention_backend = "native"
    assert inner._attention_backend == "native"
    attention.close()
    assert model.transformer_blocks[0].attn.processor is inner


def test_a_plan_says_the_same_at_another_number_of_steps() -> None:
    plan = PrecisionPlan.uniform("float32", ["a", "b"], 4).with_cells([(0, 1), (3, 0)], "int8")
    assert [plan.at(step, 8)[1] for step in range(8)] == ["int8"] * 2 + ["float32"] * 6
    assert [plan.at(step, 4)[0] for step in range(4)] == ["float32"] * 3 + ["int8"]
    assert plan.at(0, 1) == ("float32", "float32")
    assert plan.shares() == {"float32": 0.75, "int8": 0.25}
    assert PrecisionPlan.from_dict(plan.as_dict()) == plan
    assert len({plan, PrecisionPlan.from_dict(plan.as_dict())}) == 1
    whole = {"layers": ["a"], "edges": [0, 1], "formats": [["int8"]]}
    for broken in (
        {},
        whole | {"formats": [["fp9"]]},
        whole | {"edges": [0, 0.5]},
        whole | {"edges": 1},
        whole | {"formats": [["int8", "int8"]]},
    ):
        with pytest.raises(ValueError, match=r"precision"):
            PrecisionPlan.from_dict(broken)
