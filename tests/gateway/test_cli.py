"""The command line as its users meet it: in a terminal, in a pipe, and when something is wrong."""

from __future__ import annotations

import asyncio
import io
import json
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import wave
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
from typer.testing import CliRunner, Result
from whisper_normalizer.english import EnglishTextNormalizer

from gateway.cli import app
from gateway.cli.sources import file_blocks, stdin_blocks
from gateway.server import CannotListen, bind
from gateway.settings import Settings
from speechlane.client.wire import endpoint
from tests.conftest import RunningService, clean_environment, status_of, wait_until

normalise = EnglishTextNormalizer()
COMMANDS = ("serve", "listen", "transcribe", "models", "doctor")


def speechlane(*arguments: str | Path, **variables: str) -> Result:
    """Run a command to its end, in this process."""
    own = {name: None for name in os.environ if name.startswith("SPEECHLANE_") and name != "SPEECHLANE_CACHE"}
    return CliRunner().invoke(app, [*map(str, arguments)], env={**own, "COLUMNS": "120", **variables})


def process(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start a command as users do."""
    command = [sys.executable, "-m", "gateway.cli", *map(str, arguments)]
    return subprocess.Popen(command, env=clean_environment(), text=True, **options)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples(name: str) -> None:
    done = speechlane(name, "--help")
    assert done.exit_code == 0
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
        (("listen", "nowhere.wav"), "no file nowhere.wav"),
        (("listen", "pyproject.toml", "--url", "ws://127.0.0.1:9"), "speechlane serve"),
        (("listen", "pyproject.toml", "--url", "ws://127.0.0.1:99999"), "looks like ws://127.0.0.1:8700"),
        (("listen", "pyproject.toml", "--url", "ws://[::1"), "looks like ws://127.0.0.1:8700"),
        (("listen", "pyproject.toml", "--url", ""), "looks like ws://127.0.0.1:8700"),
        (("transcribe", "nowhere.wav"), "no file nowhere.wav"),
        (("transcribe", "pyproject.toml"), "send a recording with sound"),
        (("transcribe", "pyproject.toml", "--language", "klingon"), "ISO-639-1"),
        (("transcribe", "pyproject.toml", "--out", "nowhere/x.srt"), "no directory nowhere"),
        (("transcribe", "pyproject.toml", "--words"), "--format json"),
        (("transcribe", "tests/data/austen-0880.wav", "--device", "gpu"), '"cpu", "cuda:0"'),
        (("serve", "--no-download", "--log-level", "loud"), "'debug'"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(arguments: tuple[str, ...], remedy: str) -> None:
    done = speechlane(*arguments)
    assert done.exit_code in (1, 2, 3)
    assert "error:" in done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


def test_a_taken_port_is_named_with_the_remedy() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(CannotListen, match=f"port {port} is in use.*--port"):
            bind("127.0.0.1", port)
        doctor = speechlane("doctor", "--port", str(port), "--json")
    assert doctor.exit_code == 1
    found = {row["what"]: row for row in map(json.loads, doctor.stdout.splitlines())}
    assert found["port"]["state"] == "failed"
    assert "in use" in found["port"]["remedy"]
    assert {row["state"] for name, row in found.items() if name in ("python", "packages", "weights", "ffmpeg")} == {
        "ok"
    }


def test_doctor_knows_its_own_service(running_service: RunningService) -> None:
    port = running_service.url.rsplit(":", 1)[1]
    done = speechlane("doctor", "--port", port)
    assert done.exit_code == 0, done.stdout
    assert "a service is running there, ready" in done.stdout


@pytest.mark.long
def test_a_model_that_is_not_here_is_said_in_a_line(launch_service: Callable[..., RunningService]) -> None:
    service = launch_service("--models", "no-such-model-here", ready=False)
    assert service.process.wait(60) == 1
    assert "no model is called 'no-such-model-here'" in service.log()
    assert "Traceback" not in service.log()


def test_a_service_that_is_still_loading_stops_at_once(launch_service: Callable[..., RunningService]) -> None:
    loading = launch_service(ready=False)
    wait_until(lambda: status_of(f"{loading.url}/healthz") == 200, "alive", loading)
    assert status_of(f"{loading.url}/readyz") == 503
    begun = time.monotonic()
    assert loading.stop() == 0
    assert time.monotonic() - begun < 10
    assert "Traceback" not in loading.log()


def test_models_are_listed_with_source_and_licence() -> None:
    rows = {row["name"]: row for row in json.loads(speechlane("models", "--json").stdout)}
    assert {"tiny.en", "base", "silero-vad"} <= rows.keys()
    assert rows["tiny.en"]["licence"] == "MIT"
    assert Path(rows["tiny.en"]["found"], "model.bin").is_file()
    assert "faster-whisper-tiny.en" in speechlane("models").stdout


@pytest.mark.long
def test_listen_in_a_pipe_prints_partials_while_speaking_and_the_final(
    service: str, data: Path, references: dict[str, str]
) -> None:
    begun = time.monotonic()
    listening = process("listen", data / "austen-0870.wav", "--url", service, stdout=subprocess.PIPE)
    assert listening.stdout is not None
    lines = [(time.monotonic() - begun, line.split(maxsplit=1)) for line in listening.stdout]
    assert listening.wait(60) == 0
    partials = [at for at, (kind, _) in lines if kind == "partial"]
    finals = [rest.split(maxsplit=2) for _, (kind, rest) in lines if kind == "final"]
    assert partials
    assert partials[0] < max(at for at, _ in lines) - 1.0
    heard = " ".join(text for _, _, text in finals)
    assert jiwer.wer(normalise(references["austen-0870.wav"]), normalise(heard)) < 0.15
    assert all(0 <= float(start) < float(end) < 12 for start, end, _ in finals)


def test_listen_takes_raw_audio_from_a_pipe_and_gives_json_with_words(
    service: str, data: Path, tmp_path: Path, references: dict[str, str]
) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes((data / "austen-0880.wav").read_bytes()[44:])
    with raw.open("rb") as source:
        reading = process(
            *("listen", "-", "--rate", "16000", "--json", "--url", f"{service}/v1"),
            stdin=source,
            stdout=subprocess.PIPE,
        )
    out, _ = reading.communicate(timeout=60)
    rows: list[dict[str, Any]] = [json.loads(line) for line in out.splitlines()]
    final = next(row for row in rows if row["type"] == "final")
    assert "".join(word["word"].strip() for word in final["words"]) == final["text"].replace(" ", "")
    assert jiwer.wer(normalise(references["austen-0880.wav"]), normalise(final["text"])) < 0.4


def piped(data: bytes, rate: int, piece: int, monkeypatch: pytest.MonkeyPatch) -> bytes:
    """All that `listen -` would send of what comes through a pipe in pieces."""
    end, start = os.pipe()

    def write() -> None:
        with os.fdopen(start, "wb", buffering=0) as pipe:
            for at in range(0, len(data), piece):
                pipe.write(data[at : at + piece])

    async def collect() -> bytes:
        return b"".join([block async for block in stdin_blocks(rate)])

    with os.fdopen(end, "rb") as reading:
        monkeypatch.setattr(sys, "stdin", reading)
        writer = threading.Thread(target=write)
        writer.start()
        heard = asyncio.run(collect())
        writer.join()
    return heard


def wav(samples: np.ndarray, rate: int, channels: int) -> bytes:
    out = io.BytesIO()
    with wave.open(out, "wb") as file:
        file.setparams((channels, 2, rate, 0, "NONE", ""))
        file.writeframes(np.repeat(samples, channels).tobytes())
    return out.getvalue()


@pytest.mark.parametrize("piece", [1, 7, 100_000])
def test_a_wav_in_a_pipe_is_heard_as_what_its_header_says(piece: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tone = (np.sin(np.arange(16_000) * 2 * np.pi * 440 / 16_000) * 8000).astype("<i2")
    raw = tone.tobytes()[: 2000 if piece == 1 else None]
    assert piped(raw, 16_000, piece, monkeypatch) == raw, "raw sound stays as it is"
    assert piped(b"RIFF", 16_000, piece, monkeypatch) == b"RIFF", "two samples"
    if piece == 1:
        tone = tone[:1000]
    heard = np.frombuffer(piped(wav(tone, 16_000, 1), 16_000, piece, monkeypatch), "<i2")
    assert np.abs(heard - tone.astype(int)).max() <= 1, "no header among the samples"
    for rate, channels, asked in ((48_000, 2, 16_000), (8_000, 1, 16_000), (16_000, 1, 48_000)):
        sound = np.frombuffer(piped(wav(tone, rate, channels), asked, max(piece, 7), monkeypatch), "<i2")
        assert len(sound) == pytest.approx(len(tone) * asked / rate, abs=2)
        assert np.abs(sound).max() == pytest.approx(8000, rel=0.15)


@pytest.mark.long
def test_what_fails_on_this_side_is_not_blamed_on_the_service(service: str, data: Path, tmp_path: Path) -> None:
    unreadable = os.open(tmp_path / "sound", os.O_WRONLY | os.O_CREAT)
    listening = process("listen", "-", "--url", service, stdin=unreadable, stderr=subprocess.PIPE)
    assert "audio cannot be read" in listening.communicate(timeout=60)[1]
    listening = process("listen", "-", "--url", service, stderr=subprocess.PIPE, preexec_fn=lambda: os.close(0))
    assert "standard input is closed" in listening.communicate(timeout=60)[1]
    reader, writer = os.pipe()
    os.close(reader)  # as head does when it has enough
    listening = process("listen", data / "austen-0880.wav", "--url", service, stdout=writer, stderr=subprocess.PIPE)
    assert listening.communicate(timeout=60)[1] == ""
    for handle in (unreadable, writer):
        os.close(handle)


def test_listen_in_a_terminal_draws_and_can_be_interrupted(service: str, data: Path) -> None:
    terminal, end = pty.openpty()
    listening = process("listen", data / "austen-0870.wav", "--url", service, "--words", stdout=end, stderr=end)
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
            listening.send_signal(signal.SIGINT)
            interrupted = True
    os.close(terminal)
    assert listening.wait(30) == 0
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
    assert done.exit_code == 0, done.stderr
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
        ("wss://x.example/a/v1/realtime?model=base", "wss://x.example/a/v1/realtime?model=base&intent=transcription"),
    ],
)
def test_a_services_address_may_be_written_in_many_ways(given: str, address: str) -> None:
    assert endpoint(given, query="intent=transcription") == address


def test_the_overview_says_what_each_command_does_without_being_cut() -> None:
    for overview in (speechlane("--help", COLUMNS="80"), speechlane("jobs", "--help", COLUMNS="80")):
        commands = overview.stdout.partition("\nCommands:\n")[2]
        assert commands
        assert "..." not in commands


def test_jobs_are_looked_at_without_loading_what_models_need() -> None:
    check = "import sys, gateway.cli, batch_jobs.jobs; sys.exit('torch' in sys.modules)"
    subprocess.run([sys.executable, "-c", check], check=True)


def test_a_reader_that_nobody_listens_to_any_more_ends(data: Path) -> None:
    async def begin() -> None:
        async for _ in file_blocks(data / "jfk.flac"):
            break

    asyncio.run(begin())
    assert not [thread for thread in threading.enumerate() if thread.name == "audio source"]
