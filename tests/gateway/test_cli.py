"""The command line as its users meet it: in a terminal, in a pipe, and when something is wrong."""

from __future__ import annotations

import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jiwer
import pytest
from whisper_normalizer.english import EnglishTextNormalizer

from gateway.cli.client import endpoint
from gateway.settings import Settings
from tests.conftest import clean_environment

normalise = EnglishTextNormalizer()
COMMANDS = ("serve", "listen", "transcribe", "models", "doctor")


def speechlane(
    *arguments: str | Path, stdin: bytes | None = None, **variables: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end."""
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", *map(str, arguments)],
        input=stdin,
        capture_output=True,
        env=clean_environment(**variables),
        timeout=100,
    )
    return subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples(name: str) -> None:
    done = speechlane(name, "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"speechlane {name}" in done.stdout


def test_every_setting_is_a_flag_with_its_variable() -> None:
    shown = speechlane("serve", "--help").stdout
    for name in Settings.model_fields:
        assert f"--{name.replace('_', '-')} " in shown
        assert f"SPEECHLANE_{name.upper()}" in shown


@pytest.mark.parametrize(
    ("arguments", "remedy"),
    [
        (("serve", "--host", "0.0.0.0"), "SPEECHLANE_API_KEYS"),
        (("serve", "--config", "nowhere.toml"), "no file nowhere.toml"),
        (("serve", "--models", "no-such-model-here"), "no model is called"),
        (("listen", "nowhere.wav"), "no file nowhere.wav"),
        (("listen", "pyproject.toml", "--url", "ws://127.0.0.1:9"), "speechlane serve"),
        (("transcribe", "nowhere.wav"), "no file nowhere.wav"),
        (("transcribe", "pyproject.toml"), "sound file"),
        (("transcribe", "pyproject.toml", "--language", "klingon"), "ISO-639-1"),
        (("transcribe", "pyproject.toml", "--out", "nowhere/x.srt"), "no directory nowhere"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(arguments: tuple[str, ...], remedy: str) -> None:
    done = speechlane(*arguments)
    assert done.returncode in (1, 2)
    assert "error:" in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = speechlane("serve", "--port", str(port))
        assert done.returncode == 1
        assert f"port {port} is in use" in done.stderr
        assert "--port" in done.stderr
        doctor = speechlane("doctor", "--port", str(port), "--json")
    assert doctor.returncode == 1
    found = {row["what"]: row for row in map(json.loads, doctor.stdout.splitlines())}
    assert found["port"]["state"] == "failed"
    assert "in use" in found["port"]["remedy"]
    assert {row["state"] for name, row in found.items() if name in ("python", "packages", "weights", "ffmpeg")} == {
        "ok"
    }


def test_models_are_listed_with_source_and_licence() -> None:
    rows = {row["name"]: row for row in json.loads(speechlane("models", "--json").stdout)}
    assert {"tiny.en", "base", "silero-vad"} <= rows.keys()
    assert rows["tiny.en"]["licence"] == "MIT"
    assert Path(rows["tiny.en"]["found"], "model.bin").is_file()
    assert "faster-whisper-tiny.en" in speechlane("models").stdout


def test_listen_in_a_pipe_prints_partials_while_speaking_and_the_final(
    service: str, data: Path, references: dict[str, str]
) -> None:
    begun = time.monotonic()
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "listen", str(data / "austen-0870.wav"), "--url", service],
        stdout=subprocess.PIPE,
        env=clean_environment(),
        text=True,
    )
    assert process.stdout is not None
    lines = [(time.monotonic() - begun, line.split(maxsplit=1)) for line in process.stdout]
    assert process.wait(60) == 0
    partials = [at for at, (kind, _) in lines if kind == "partial"]
    finals = [rest.split(maxsplit=2) for _, (kind, rest) in lines if kind == "final"]
    assert partials
    assert partials[0] < max(at for at, _ in lines) - 1.0
    heard = " ".join(text for _, _, text in finals)
    assert jiwer.wer(normalise(references["austen-0870.wav"]), normalise(heard)) < 0.15
    assert all(0 <= float(start) < float(end) < 12 for start, end, _ in finals)


def test_listen_takes_raw_audio_from_a_pipe_and_gives_json_with_words(
    service: str, data: Path, references: dict[str, str]
) -> None:
    raw = (data / "austen-0880.wav").read_bytes()[44:]
    done = speechlane("listen", "-", "--rate", "16000", "--json", "--url", f"{service}/v1", stdin=raw)
    rows: list[dict[str, Any]] = [json.loads(line) for line in done.stdout.splitlines()]
    final = next(row for row in rows if row["type"] == "final")
    assert "".join(word["word"].strip() for word in final["words"]) == final["text"].replace(" ", "")
    assert jiwer.wer(normalise(references["austen-0880.wav"]), normalise(final["text"])) < 0.4


def test_listen_in_a_terminal_draws_and_can_be_interrupted(service: str, data: Path) -> None:
    terminal, end = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", "listen", str(data / "austen-0870.wav"), "--url", service, "--words"],
        stdout=end,
        stderr=end,
        env=clean_environment(TERM="xterm-256color"),
    )
    os.close(end)
    seen, begun, interrupted = "", time.monotonic(), False
    while time.monotonic() - begun < 60:
        try:
            piece = os.read(terminal, 4096)
        except OSError:  # Linux' way to say that the other end has closed
            break
        if not piece:
            break
        seen += piece.decode("utf-8", "replace")
        if not interrupted and "dash" in seen.lower():
            process.send_signal(signal.SIGINT)
            interrupted = True
    os.close(terminal)
    assert process.wait(30) == 0
    assert interrupted
    assert time.monotonic() - begun < 60
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen)
    assert re.search(r"0\.\d\d +\d\.\d\d +.*John Dash", plain)
    assert "%" in plain  # the words' confidence
    assert "Traceback" not in plain


def test_transcribe_writes_the_format_of_the_files_ending(
    data: Path, tmp_path: Path, references: dict[str, str]
) -> None:
    done = speechlane("transcribe", data / "jfk.flac", "--out", tmp_path / "jfk.srt")
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    body = (tmp_path / "jfk.srt").read_text("utf-8")
    assert body.startswith("1\n00:00:0")
    text = " ".join(line for line in body.splitlines() if re.search("[a-z]", line))
    assert jiwer.wer(normalise(references["jfk.flac"]), normalise(text)) < 0.1


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("ws://127.0.0.1:8700", "ws://127.0.0.1:8700/v1/realtime?intent=transcription"),
        ("http://127.0.0.1:8700/", "ws://127.0.0.1:8700/v1/realtime?intent=transcription"),
        ("https://x.example/v1", "wss://x.example/v1/realtime?intent=transcription"),
        ("x.example:80", "ws://x.example:80/v1/realtime?intent=transcription"),
        ("wss://x.example/a/v1/realtime?model=base", "wss://x.example/a/v1/realtime?model=base"),
    ],
)
def test_a_services_address_may_be_written_in_many_ways(given: str, address: str) -> None:
    assert endpoint(given) == address
