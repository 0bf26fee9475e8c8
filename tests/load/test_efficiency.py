"""What a service costs beside its models: the work that is counted is that which was done."""

from __future__ import annotations

import pytest

from load.efficiency.growth import Cost, one_round, rising, stepping
from load.efficiency.through import audio, scripts, through_gateway
from load.live import Step
from load.service import service
from tests.load.fixed_service import WORDS_A_SECOND

PROGRAM = ("tests.load.fixed_service",)


def test_work_through_the_gateway_is_all_that_was_said_and_the_service_alone_is_charged() -> None:
    said = scripts(3, 8.0, 0)
    with service(None, ["--step", "0.005"], program=PROGRAM) as running:
        work, found = through_gateway(running, said)
        cost = Cost("fixed", 2)
        one_round(running, cost, 6.0, 0)
    assert 0 < work.cpu < work.wall * 4
    assert work.texts == [text for one in found for text in one.texts]
    for script, one in zip(said, found, strict=True):
        assert len(one.texts) >= len(script.lines)
        for (start, end), text in zip(one.spans, one.texts, strict=True):
            assert 0 <= start < end <= len(script.samples)
            seconds = (end - start) / script.rate
            assert len(text.split()) == pytest.approx(seconds * WORDS_A_SECOND, abs=2)
    assert sum(end - start for one in found for start, end in one.spans) / 16_000 < audio(said)
    assert cost.cpu[0] > 0 and cost.device[0] > 0 and cost.audio == pytest.approx(12, abs=6)


def test_a_cost_that_rises_beyond_noise_is_told() -> None:
    def at(streams: int, *cpu: float, device: float = 0.01, admitted: int | None = None) -> Cost:
        step = Step(streams, admitted=streams if admitted is None else admitted)
        return Cost("m", streams, list(cpu), [device] * len(cpu), 1.0, [step])

    assert rising([at(1, 0.10, 0.2, 0.1), at(4, 0.08, 0.21, 0.2), at(16, 0.083, 0.2, 0.2)]) == []
    # One quiet round does not hide what the others show.
    assert rising([at(1, 0.10, 0.1, 0.1), at(4, 0.09, 0.12, 0.13)]) == [
        "m: a second of audio costs 1.20 times the CPU seconds with 4 streams as with 1"
    ]
    assert rising([at(1, 0.10), at(4, 0.1, device=0.012)]) == [
        "m: a second of audio costs 1.20 times the device seconds with 4 streams as with 1"
    ]
    assert rising([at(1, 0.10), at(4, 0.1, admitted=2)]) == ["m: of 4 streams 2 were admitted"]


def test_seconds_of_all_devices_are_added() -> None:
    text = (
        '# HELP\nspeechlane_step_seconds_total{device="cpu",model="a"} 1.5\n'
        'speechlane_step_seconds_total{device="vad",model="b"} 0.25\nspeechlane_steps_total{device="cpu"} 9\n'
    )
    assert stepping(text) == 1.75
