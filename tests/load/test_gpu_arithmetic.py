"""The arithmetic of docs/performance.md against figures that were worked out by hand."""

from __future__ import annotations

import pytest

from load.gpu_arithmetic import GPUS, SHAPES, Machine, launched

TINY, TURBO = SHAPES[0], SHAPES[-1]


def test_the_encoders_operations_are_those_of_its_layers_and_convolutions() -> None:
    # 4 layers of 1,500 rows: 24 x 384 x 384 each, and 4 x 1,500 x 384 of attention; two convolutions of width 3.
    layers = 4 * 1500 * (24 * 147_456 + 4 * 1500 * 384)
    convolutions = 2 * 3 * 80 * 384 * 3000 + 2 * 3 * 384 * 384 * 1500
    assert TINY.encode(1500, 1500) == layers + convolutions == pytest.approx(36.9e9, rel=0.01)


def test_a_token_reads_the_layers_the_vocabulary_and_the_keys_of_its_stream() -> None:
    assert TINY.weights == 4 * 14 * 384 * 384 + 384 * 51_864
    assert TINY.cross == 4 * 2 * 1500 * 384
    assert TURBO.weights == 4 * 14 * 1280 * 1280 + 1280 * 51_866
    assert TINY.token() == 2 * TINY.weights + 2 * TINY.cross


def test_frozen_padding_is_worth_more_the_more_of_a_model_is_its_encoder() -> None:
    shares = [one.whole / one.here for one in SHAPES]
    assert all(share > 10 for share in shares)


def test_streams_fit_into_what_is_left_of_the_peaks() -> None:
    machine = Machine("round", 1e12, 1e12)
    streams = machine.streams(TINY, 0.5, 0.5, 0.8)
    assert machine.seconds(TINY, streams, 0.5, 0.5) <= 0.8 < machine.seconds(TINY, streams + 1, 0.5, 0.5)
    assert machine.balance() == 1.0
    assert machine.streams(TINY, 0.5, 0.5, 0.0) == 0


def test_a_larger_gpu_carries_more_and_launches_do_not_care() -> None:
    for shape in SHAPES:
        carried = [gpu.streams(shape, 0.35, 0.7, 0.85) for gpu in GPUS]
        assert carried == sorted(carried) and carried[0] > 0
    # 4.5 steps of 4 layers and 1.25 encodes of 4 layers a second, 8 kernels each of 5 microseconds.
    assert launched(TINY, 0.85) == int((0.85 / 5e-6 - (4.5 * 4 + 1.25 * 4) * 14) / ((4.5 * 4 + 1.25 * 4) * 8))
