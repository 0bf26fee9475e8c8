"""What a trial on this machine has found decides how models that hear, and the voice, are loaded."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
import torch

from speech.loading import EngineSettings, load
from speech.tuned import Tuned, found, now
from speech.voices.load import load_voices
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import PROVEN_PROBES, Precision, Profile
from workers.device import Device
from workers.gate.evidence import Evidence, Verdict
from workers.gate.profile import Profile as Trials
from workers.gate.profile import profile_path
from workers.gate.thresholds import thresholds

FASTEST = "bfloat16/int8"
ALL = "made by heart"


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Profiles of trials of our own, but the models that lie unpacked already."""
    monkeypatch.setattr("workers.gate.profile.cache_folder", lambda: tmp_path)
    return tmp_path


def tried(kind: str, name: str, verdicts: Mapping[str, Verdict], chosen: Mapping[str, object], **more: Any) -> None:
    """`verdicts` by "option=value"."""
    identity = now(kind, name, {"items": ALL})
    evidence = []
    for said, verdict in verdicts.items():
        settings = dict(part.split("=") for part in said.split("&"))
        typed = {key: int(value) if value.isdigit() else value for key, value in settings.items()}
        evidence.append(Evidence(typed, verdict, (), identity, thresholds().digest, 0, 200, 1.0))
    Trials(name, kind, more.get("identity", identity), evidence, chosen).save()


def heard_with() -> WhisperBackend:
    """tiny.en, as an engine loads it."""
    before = torch.get_num_threads()
    device = Device("cpu", "cpu")
    try:
        load("tiny.en", True, EngineSettings(threads=1, tuned=found), [device])
    finally:
        torch.set_num_threads(before)
    backend = device.loop.homes["tiny.en"].backend
    assert isinstance(backend, WhisperBackend)
    return backend


def test_without_a_trial_models_run_as_the_documents_prove() -> None:
    assert found("asr", "tiny.en") == Tuned()
    backend = heard_with()
    assert backend._probes == PROVEN_PROBES["tiny.en"] and not backend._whole


def test_what_was_chosen_serves_and_what_did_harm_does_not() -> None:
    verdicts = {
        "precision=float32/int8": Verdict.PASSED,
        f"precision={FASTEST}": Verdict.HARMFUL,
        "window=frozen": Verdict.PASSED,
        "window=frozen&probes=17": Verdict.LEAKS,
    }
    tried("asr", "tiny.en", verdicts, {"precision": "float32/int8", "window": "frozen"})
    backend = heard_with()
    assert backend.spec.precision == "float32/int8"
    assert backend._probes == 0 and not backend._whole


def test_a_window_that_does_harm_is_not_cut() -> None:
    tried("asr", "tiny.en", {"window=frozen": Verdict.HARMFUL}, {})
    assert heard_with()._whole == {"en"}


def test_what_is_merely_not_faster_alone_stays_on() -> None:
    tried("asr", "tiny.en", {"window=frozen": Verdict.NOT_FASTER, f"precision={FASTEST}": Verdict.BEATEN}, {})
    tuned = found("asr", "tiny.en")
    assert not tuned.whole(frozenset()) and tuned.may(precision=FASTEST)


def test_a_trial_of_other_weights_or_versions_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    other = {**now("asr", "tiny.en", {"items": ALL}), "torch": "1.0"}
    tried("asr", "tiny.en", {"window=frozen": Verdict.HARMFUL}, {"threads": 2}, identity=other)
    assert found("asr", "tiny.en") == Tuned()
    assert "torch" in caplog.text


def test_a_damaged_profile_is_said_and_serves_as_none(cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    profile_path("tiny.en", cache).write_text("{")
    assert found("asr", "tiny.en") == Tuned()
    assert "cannot be read" in caplog.text


def test_threads_are_those_that_were_chosen_unless_somebody_asks_for_others() -> None:
    tuned = Tuned({"threads": 2})
    assert tuned.threads(None) == 2
    assert tuned.threads(1) == 1
    assert Tuned().threads(None) is None


def test_of_what_is_left_the_fastest_serves() -> None:
    measured = {
        f"{part} {name}": seconds * (1 + number / 10)
        for number, part in enumerate(("encoder", "decoder"))
        for name, seconds in (("float32 partial", 4.0), ("bfloat16 partial", 1.0), ("float32 prefill", 2.0),
                              ("int8 prefill", 1.0), ("float32 token", 0.2), ("int8 token", 0.1))
    }  # fmt: skip
    fastest = Profile.of(Precision("bfloat16", "int8"), 1, measured)
    assert Tuned().precision(fastest, "cpu") is fastest
    without = Tuned(refused=({"precision": FASTEST},))
    assert str(without.precision(fastest, "cpu").precision) == "bfloat16/float32"
    short = (FASTEST, "bfloat16/float32", "float32/int8")
    exact = Tuned(refused=[{"precision": one} for one in short])
    assert str(exact.precision(fastest, "cpu").precision) == "float32/float32"
    assert str(Tuned({"precision": "float32/int8"}).precision(fastest, "cpu").precision) == "float32/int8"


def test_a_voice_that_int8_harms_speaks_in_float32() -> None:
    tried("tts", "heart", {"precision=int8": Verdict.HARMFUL}, {})
    assert load_voices(("heart",), tuned=found)[0].backend().spec.precision == "float32"
    tried("tts", "heart", {"precision=int8": Verdict.PASSED}, {"precision": "int8"})
    assert load_voices(("heart",), tuned=found)[0].backend().spec.precision == "int8"
