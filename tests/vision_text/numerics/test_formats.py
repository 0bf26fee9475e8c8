"""What a format does to numbers, against what the kernels for it do, and that items do not share scales."""

from __future__ import annotations

import pytest
import torch

from vision_text.numerics.formats import (
    FORMATS,
    Arithmetic,
    Format,
    arithmetic,
    parse,
    real_on,
    rounded,
    rounded_weight,
)
from vision_text.numerics.linear import real_linear

LOW: tuple[Format, ...] = ("bf16", "int8", "fp8", "mxfp8", "int4")


def decibels(made: torch.Tensor, wanted: torch.Tensor) -> float:
    return float(10 * torch.log10(wanted.square().mean() / (made - wanted).square().mean()))


@pytest.mark.parametrize(("format", "least", "most"), [
    ("bf16", 45, 60), ("int8", 38, 50), ("fp8", 28, 36), ("mxfp8", 27, 36), ("int4", 15, 24),
])  # fmt: skip
def test_error_of_a_weight_is_that_of_its_bits(format: Format, least: float, most: float) -> None:
    weight = torch.randn(64, 96, generator=torch.Generator().manual_seed(0))
    made = rounded_weight(weight, format)
    assert made.shape == weight.shape and made.dtype == weight.dtype
    assert least < decibels(made, weight) < most


@pytest.mark.parametrize("format", LOW)
def test_a_row_does_not_depend_on_its_neighbours(format: Format) -> None:
    x = torch.randn(4, 7, 80, generator=torch.Generator().manual_seed(0))  # 80: the last block of 32 is not full
    beside_large = torch.cat([x, 1000 * x])
    assert torch.equal(rounded(x, format), rounded(beside_large, format)[:4])


@pytest.mark.parametrize("format", LOW)
def test_nothing_is_made_of_zero_and_what_is_no_number_stays_visible(format: Format) -> None:
    assert not rounded(torch.zeros(3, 64), format).any()
    broken = torch.ones(2, 64)
    broken[0, 3] = float("nan")
    made = rounded(broken, format)
    assert made[0].isnan().any() and made[1].isfinite().all()


def test_microscaling_holds_small_blocks_beside_large_ones() -> None:
    """What mxfp8 is for: a scale for 32 numbers. One scale for a row loses the small ones in eight bits."""
    row = torch.cat([torch.full((1, 32), 1e-4), torch.full((1, 32), 300.0)], 1)
    assert torch.allclose(rounded(row, "mxfp8")[:, :32], row[:, :32], rtol=0.07)
    assert not rounded(row, "int8")[:, :32].any()


@pytest.mark.parametrize("format", ["bf16", "int8"])
def test_emulated_agrees_with_the_real_kernel(format: Format) -> None:
    torch.manual_seed(0)
    layer, x = torch.nn.Linear(96, 64), torch.randn(5, 96)
    with torch.inference_mode():
        emulated = rounded(
            torch.nn.functional.linear(rounded(x, format), rounded_weight(layer.weight, format)), "float32"
        )
        real = real_linear(layer, format)(x)
        exact = layer(x)
        assert decibels(real, exact) > 30
        assert decibels(emulated + layer.bias, real) > 40


def test_where_a_format_is_real() -> None:
    assert real_on("int8", "cpu") and not real_on("mxfp8", "cpu")
    assert arithmetic("int8", "cpu") == Arithmetic("int8", emulated=True)  # slower than float32 there, so not by itself
    assert arithmetic("int8", "cpu", real=True) == Arithmetic("int8", emulated=False)
    assert str(arithmetic("mxfp8", "cpu")) == "mxfp8 (emulated)"
    with pytest.raises(ValueError, match="does not multiply in fp8"):
        arithmetic("fp8", "cpu", real=True)
    assert [parse(name) for name in FORMATS] == [*FORMATS]
    with pytest.raises(ValueError, match="float32, bf16"):
        parse("fp7")
