"""`speechlane say` and `speechlane voices`: here and at a service, into files and pipes, and what goes wrong."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from pathlib import Path

import av
import numpy as np
import pytest
import soundfile
from typer.testing import CliRunner

from gateway.cli import app
from tests.conftest import clean_environment
from tests.gateway.speak.conftest import Running, Server

TEXT = "Dr. Smith left."
runner = CliRunner()


@pytest.fixture(autouse=True)
def own_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("SPEECHLANE_URL", "SPEECHLANE_API_KEY"):
        monkeypatch.delenv(name, raising=False)


def duration(data: bytes) -> float:
    with av.open(io.BytesIO(data)) as container:
        return sum(frame.samples / frame.sample_rate for frame in container.decode(audio=0))


def test_here_and_at_a_service_the_same_file_is_made(running: Running, tmp_path: Path) -> None:
    here, there, other = tmp_path / "here.wav", tmp_path / "there.wav", tmp_path / "other.wav"
    result = runner.invoke(app, ["say", TEXT, "-o", str(here)])
    assert result.exit_code == 0, result.output
    for path, more in ((there, []), (other, ["--seed", "5", "--speed", "2"])):
        result = runner.invoke(app, ["say", TEXT, "-o", str(path), "--url", running.http, *more])
        assert result.exit_code == 0, result.output
    assert here.read_bytes() == there.read_bytes()
    frames = soundfile.info(here).frames
    assert here.stat().st_size == 44 + 2 * frames and frames > 24_000 * 0.8
    assert soundfile.info(other).frames < 0.7 * frames
    assert sorted(path.name for path in tmp_path.iterdir()) == ["here.wav", "other.wav", "there.wav"]


@pytest.mark.parametrize("ending", ["mp3", "opus", "flac", "aac", "ogg"])
def test_the_ending_chooses_the_format(running: Running, tmp_path: Path, ending: str) -> None:
    (tmp_path / "text.txt").write_text(TEXT, "utf-8")
    path = tmp_path / f"speech.{ending}"
    result = runner.invoke(app, ["say", "-f", str(tmp_path / "text.txt"), "-o", str(path), "--url", running.http])
    assert result.exit_code == 0, result.output
    assert 0.8 < duration(path.read_bytes()) < 3


def test_a_pipe_in_and_a_pipe_out(running: Running) -> None:
    def say(*more: str) -> bytes:
        done = subprocess.run(
            [sys.executable, "-m", "gateway.cli", "say", "-", "--url", running.http, *more],
            input=f"{TEXT}\nGrüße 😀.".encode(),
            env=clean_environment(),
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    wav = say()
    raw = say("--format", "pcm16", "--rate", "8000")
    assert abs(duration(wav) - len(raw) / 16_000) < 0.01
    assert np.abs(np.frombuffer(raw, "<i2")).max() > 3000


def test_explain_shows_words_rules_and_phonemes(running: Running, tmp_path: Path) -> None:
    lexicon = tmp_path / "lexicon.toml"
    lexicon.write_text('Smith = "smythe"\n', "utf-8")
    asked = ["say", f"{TEXT} $3.50 😀", "--explain", "--lexicon", str(lexicon)]
    here = runner.invoke(app, asked)
    there = runner.invoke(app, [*asked, "--url", running.http])
    assert here.exit_code == 0, here.output
    assert here.output == there.output
    for shown in ("Dr.", "Doctor", "smythe", "lexicon", "three dollars", "emoji", "dˈɑktəɹ"):
        assert shown in here.output


def test_voices(running: Running) -> None:
    here = json.loads(runner.invoke(app, ["voices", "--json"]).output)
    there = json.loads(runner.invoke(app, ["voices", "--json", "--url", running.http]).output)
    assert here[0]["id"] == there[0]["id"] == "heart"
    assert "alloy" in runner.invoke(app, ["voices", "--url", running.http]).output


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["say"], 2, "one of them"),
        (["say", "x", "--file", "y"], 2, "one of them"),
        (["say", "x", "--play", "-o", "x.wav"], 2, "exclude"),
        (["say", "x", "--explain", "--play"], 2, "no sound"),
        (["say", "x", "-o", "x.txt"], 1, "names no format"),
        (["say", "x", "-o", "missing/x.wav"], 1, "no directory"),
        (["say", "x", "-o", "x.opus", "--rate", "44100"], 2, "can be 8000"),
        (["say", "x", "-o", "x.wav", "--format", "ogg"], 1, "can be"),
        (["say", "x", "-o", "x.wav", "--speed", "0"], 2, "0.25"),
        (["say", "x", "-o", "x.wav", "--speed", "-1"], 2, "0.25"),
        (["say", "x", "-o", "x.wav", "--speed", "nan"], 2, "speed"),
        (["say", "x", "-o", "x.wav", "--voice", "nobody"], 1, "nobody"),
        (["say", "--file", "missing.txt", "-o", "x.wav"], 1, "cannot be read"),
        (["say", "x", "-o", "x.wav", "--lexicon", "missing.toml"], 1, "cannot be read"),
        (["say", "x", "-o", "x.wav", "--url", "http://127.0.0.1:9"], 1, "speechlane serve"),
        (["say", "x", "--explain", "--url", "http://127.0.0.1:9"], 1, "speechlane serve"),
        (["voices", "--url", "ftp://x"], 1, "http://127.0.0.1:8700"),
    ],
)
def test_what_goes_wrong_is_said(
    arguments: list[str], code: int, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(app, arguments)
    assert (result.exit_code, said in " ".join(result.output.split())) == (code, True), result.output
    assert list(tmp_path.iterdir()) == [], "nothing half made is left"


def test_what_a_service_refuses_is_said(server: Server, running: Running, tmp_path: Path) -> None:
    path = tmp_path / "x.wav"
    result = runner.invoke(app, ["say", "x", "-o", str(path), "--voice", "nobody", "--url", running.http])
    assert result.exit_code == 1
    assert "there is no voice 'nobody'" in result.output
    locked = server.serve(api_keys=("office-key-0123456789abcdef",))
    try:
        for command in (["say", "x", "-o", str(path)], ["say", "x", "--explain"], ["voices"]):
            result = runner.invoke(app, [*command, "--url", locked.http])
            assert result.exit_code == 1
            assert "SPEECHLANE_API_KEY" in result.output
    finally:
        locked.stop()
    assert list(tmp_path.iterdir()) == []
