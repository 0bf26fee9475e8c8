"""What the speech room keeps on the machine, and that it does without where nothing can be kept."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from speech.dense import emulated
from speech.models import resolve
from speech.whisper import profile, weights

MEASURED = profile.Profile(profile.Precision(), 1, 0.02, 0.01, 0.005, 0.01, {})


def test_voice_activity_reports_to_nobody(tmp_path: Path) -> None:
    """ONNX Runtime's telemetry would keep an identifier of this device in the home directory and upload events."""
    load = "from speech.vad import SileroVad; SileroVad().load('cpu')"
    environment = {name: value for name, value in os.environ.items() if name != "ORT_DISABLE_TELEMETRY"}
    homes = dict.fromkeys(("HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME", "TMPDIR"), str(tmp_path))
    subprocess.run([sys.executable, "-c", load], check=True, env=environment | homes)
    assert list(tmp_path.rglob("*")) == []


@pytest.mark.parametrize("kept", ["", "[]", "null", '"text"', "{}", '{"key": 1}'])
def test_a_broken_profile_is_measured_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: str) -> None:
    checkpoint = weights.load(resolve("tiny.en").directory)
    monkeypatch.setattr(profile, "measure", lambda *_: MEASURED)
    (tmp_path / "tiny.en-cpu-1-thread.json").write_text(kept, "utf-8")
    assert profile.choose(checkpoint, "tiny.en", "cpu", 1, tmp_path) == MEASURED
    monkeypatch.setattr(profile, "measure", lambda *_: pytest.fail("the profile was not kept"))
    assert profile.choose(checkpoint, "tiny.en", "cpu", 1, tmp_path) == MEASURED


def test_each_number_of_threads_has_a_profile_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Processes that differ in it live side by side, and would measure anew at each start."""
    checkpoint = weights.load(resolve("tiny.en").directory)
    measured: list[int | None] = []
    monkeypatch.setattr(profile, "measure", lambda _, __, threads: measured.append(threads) or MEASURED)
    for threads in (None, 1, 2, None, 1, 2):
        profile.choose(checkpoint, "tiny.en", "cpu", threads, tmp_path)
    assert measured == [None, 1, 2]
    assert len(list(tmp_path.iterdir())) == 3


def test_a_profile_that_cannot_be_kept_is_used_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setattr(profile, "measure", lambda *_: MEASURED)
    checkpoint = weights.load(resolve("tiny.en").directory)
    assert profile.choose(checkpoint, "tiny.en", "cpu", 1, tmp_path / "file" / "profiles") == MEASURED
    assert "could not be kept" in caplog.text


def test_every_proven_precision_with_instructions_here_is_measured() -> None:
    measured = profile.measure(weights.load(resolve("tiny.en").directory), "cpu", 1).measured
    encoders = [one for one in profile.PROVEN_ENCODER if not emulated(one, "cpu")]
    decoders = [one for one in profile.PROVEN_DECODER if not emulated(one, "cpu")]
    assert encoders[0] == decoders[0] == "float32"
    timed = {f"encoder {precision} partial" for precision in encoders}
    timed |= {f"decoder {precision} {step}" for precision in decoders for step in ("prefill", "token")}
    assert set(measured) == timed
    assert min(measured.values()) > 0.0
