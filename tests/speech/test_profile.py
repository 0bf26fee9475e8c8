"""What is measured on a machine, and what is not worth it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from speech.models import resolve
from speech.whisper import profile, weights
from speech.whisper.profile import Precision
from speech.whisper.weights import Checkpoint


@pytest.fixture(scope="module")
def checkpoint() -> Checkpoint:
    return weights.load(resolve("tiny.en").directory)


@pytest.fixture(autouse=True)
def one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch, "set_num_threads", lambda threads: None)
    monkeypatch.setattr(profile, "_ROUNDS", 1)


def test_what_the_processor_has_no_instructions_for_is_not_measured(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profile, "emulated", lambda precision, device: precision != "float32")
    chosen = profile.choose(checkpoint, "tiny.en", "cpu", 1, tmp_path)
    assert chosen.precision == Precision() and chosen.token > 0
    assert sorted(chosen.measured) == [
        "decoder float32 prefill", "decoder float32 token", "encoder float32 partial"
    ]  # fmt: skip
    asked = chosen.taking(Precision("bfloat16", "int8"))  # somebody may want it all the same
    assert asked.partial_encode == 10 * chosen.partial_encode and asked.token == 10 * chosen.token
    assert asked.share(1.0, True) > 5 * chosen.share(1.0, True)


def test_what_was_measured_is_read_until_the_machine_is_another(
    checkpoint: Checkpoint, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(profile, "emulated", lambda precision, device: precision != "float32")
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    first = profile.choose(checkpoint, "tiny.en", "cpu", None, tmp_path)
    assert first.threads == 1, "nobody may use more here"
    assert profile.choose(checkpoint, "tiny.en", "cpu", None, tmp_path) == first
    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "another")
    assert profile.choose(checkpoint, "tiny.en", "cpu", None, tmp_path) != first
