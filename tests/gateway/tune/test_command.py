"""`speechlane tune`, on a subject whose speed and quality are numbers, and what of it can be had without a trial."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from gateway.tune import subjects
from tests.workers.gate.virtual import Virtual, Ways
from workers.gate.profile import load_profile, profile_path
from workers.gate.subject import Option

WAYS = {"cache": Ways(speed=2, unlike=0.001), "awful": Ways(speed=4, loss=0.5)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(tmp_path))
    monkeypatch.setattr(subjects, "subject", lambda wanted: Virtual(WAYS))
    return tmp_path


def run(*arguments: str) -> tuple[int, str, str]:
    found = CliRunner().invoke(app, ["tune", *arguments])
    return found.exit_code, found.stdout, found.stderr


def test_a_trial_ends_in_a_profile_and_a_report() -> None:
    code, told, _ = run("made-up")
    assert code == 0 and "serves: cache=true" in told and "harmful" in told
    profile = load_profile("made-up")
    assert profile is not None and profile.chosen == {"cache": True}
    assert "made-up" in profile_path("made-up").with_suffix(".html").read_text("utf-8")
    code, told, _ = run("made-up", "--show", "--json")
    assert code == 0 and json.loads(told)["chosen"] == {"cache": True}


def test_only_some_options_and_values_of_ones_own(folder: Path) -> None:
    page = folder / "page.html"
    code, told, _ = run("made-up", "--options", "awful,fewer=30", "--report", str(page), "--seed", "3")
    assert code == 0 and "cache" not in told and "fewer=30" in told and page.is_file()
    code, _, wrong = run("made-up", "--options", "nothing")
    assert code == 2 and "cache, awful" in wrong
    code, _, wrong = run("made-up", "--options", "fewer=[1")
    assert code == 2 and "no JSON" in wrong


def test_forced_options_stay_when_it_is_tuned_again() -> None:
    assert run("made-up", "--force", 'awful=true, step=["a", 1]')[0] == 0
    assert run("made-up", "--options", "cache")[0] == 0
    profile = load_profile("made-up")
    assert profile is not None and list(profile.forced) == [{"awful": True, "step": ["a", 1]}]
    assert run("made-up", "--unforce")[0] == 0
    profile = load_profile("made-up")
    assert profile is not None and profile.approved(profile.identity) == {"cache": True}


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (("made-up", "--show"), 1, "never tuned"),
        (("made-up", "--items", "10"), 2, "200"),
        (("made-up", "--items", "900"), 2, "most-items"),
        (("made-up", "--force", "steps"), 2, "NAME=JSON"),
        (("made-up", "--force", ""), 2, "NAME=JSON"),
    ],
)
def test_what_cannot_be_done_says_why(arguments: tuple[str, ...], code: int, said: str) -> None:
    found, _, wrong = run(*arguments)
    assert found == code and said in wrong


def test_a_damaged_profile_is_told_and_written_anew() -> None:
    run("made-up", "--options", "cache")
    profile_path("made-up").write_text("{}")
    code, _, wrong = run("made-up", "--show")
    assert code == 1 and "tune made-up again" in wrong
    assert run("made-up", "--options", "cache")[0] == 0 and run("made-up", "--show")[0] == 0


KINDS = {
    "heart": "tts",
    "tiny.en": "asr",
    "all-MiniLM-L6-v2": "embeddings",
    "shapes-image": "image",
    "shapes-vlm": "vlm",
}


@pytest.mark.parametrize(("model", "kind"), KINDS.items())
def test_the_kind_of_a_model_is_known_by_its_name_or_files(model: str, kind: str) -> None:
    assert subjects.kind_of(model) == kind


def test_an_unknown_model_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(subjects.SubjectUnknown, match="--kind"):
        subjects.kind_of(str(tmp_path / "nothing"))
    (tmp_path / "model.safetensors").write_bytes(b"x")
    with pytest.raises(subjects.SubjectUnknown, match="--kind"):
        subjects.kind_of(str(tmp_path))


def test_a_value_of_ones_own_is_tried_for_what_its_option_is_about(monkeypatch: pytest.MonkeyPatch) -> None:
    class Small(Virtual):
        def options(self) -> list[Option]:
            return [Option("cache", True, gains="bytes")]

    monkeypatch.setattr(subjects, "subject", lambda wanted: Small({"cache": Ways(speed=0.95, held=500)}))
    assert run("made-up", "--options", "cache=true")[0] == 0
    profile = load_profile("made-up")
    assert profile is not None and profile.evidence[0].passed and profile.evidence[0].gains == "bytes"
