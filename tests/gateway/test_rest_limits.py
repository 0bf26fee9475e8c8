"""What a service with keys and narrow limits refuses, how it says so, and how it goes down."""

from __future__ import annotations

import asyncio
import io
import json
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import openai
import pytest
import soundfile
from aiohttp import ClientSession, FormData
from prometheus_client.parser import text_string_to_metric_families
from typer.testing import CliRunner

from gateway.cli import app
from tests.conftest import RunningService, clean_environment

KEY = "office-key-0123456789abcdef"
BEARER = {"Authorization": f"Bearer {KEY}"}
MIB = 1024 * 1024
UPLOAD, AUDIO_SECONDS = 24 * MIB, 700


@pytest.fixture(scope="module")
def narrow(launch_service: Callable[..., RunningService], tmp_path_factory: pytest.TempPathFactory) -> RunningService:
    """A service with a key from a file, limits from a TOML file and a flag."""
    directory = tmp_path_factory.mktemp("narrow")
    (directory / "keys").write_text(f"# for the tests\n{KEY}\n", "utf-8")
    config = directory / "speechlane.toml"
    config.write_text(
        f"max_upload_bytes = {UPLOAD}\nmax_audio_seconds = {AUDIO_SECONDS}\nmax_files = 1\nmax_sessions_per_key = 1\n",
        "utf-8",
    )
    return launch_service(
        "--config",
        str(config),
        "--drain-seconds",
        "10",
        "--voices",
        "heart",
        SPEECHLANE_API_KEYS_FILE=str(directory / "keys"),
    )


@pytest.fixture(scope="module")
def client(narrow: RunningService) -> openai.OpenAI:
    return openai.OpenAI(base_url=f"{narrow.url}/v1", api_key=KEY, max_retries=0)


def recording(seconds: float, data: Path, kind: str = "WAV") -> bytes:
    """Speech over and over."""
    speech, rate = soundfile.read(data / "austen-0870.wav", dtype="int16")
    file = io.BytesIO()
    soundfile.write(file, np.resize(speech, int(seconds * rate)), rate, format=kind)
    return file.getvalue()


async def metric(narrow: RunningService, name: str, **labels: str) -> float | None:
    async with ClientSession(headers=BEARER) as http, http.get(f"{narrow.url}/metrics") as answer:
        families = text_string_to_metric_families(await answer.text())
        for sample in (sample for family in families for sample in family.samples):
            if sample.name == name and labels.items() <= sample.labels.items():
                return float(sample.value)
    return None


@pytest.mark.parametrize("key", ["wrong-key-0123456789", KEY[:-1]])
def test_a_wrong_key_is_an_authentication_error(narrow: RunningService, data: Path, key: str) -> None:
    stranger = openai.OpenAI(base_url=f"{narrow.url}/v1", api_key=key, max_retries=0)
    for attempt in (
        lambda: stranger.models.list(),
        lambda: stranger.audio.transcriptions.create(file=data / "austen-0880.wav", model="whisper-1"),
    ):
        with pytest.raises(openai.AuthenticationError) as caught:
            attempt()
        assert caught.value.code == "invalid_api_key"


def test_the_right_key_sees_the_models(client: openai.OpenAI) -> None:
    (model,) = client.models.list().data
    assert model.id == "tiny.en"
    assert client.models.retrieve("whisper-1").id == "whisper-1"
    with pytest.raises(openai.NotFoundError) as caught:
        client.models.retrieve("base")
    assert caught.value.code == "model_not_found"


def test_a_file_that_is_too_large_is_refused(client: openai.OpenAI, narrow: RunningService) -> None:
    """By its announced length, and as well when it comes in pieces of unknown number."""
    for content in (bytes(UPLOAD + 2 * MIB), bytes(UPLOAD + 1)):
        with pytest.raises(openai.APIStatusError) as caught:
            client.audio.transcriptions.create(file=("talk.wav", content), model="whisper-1")
        assert (caught.value.status_code, caught.value.code, caught.value.param) == (413, "input_too_large", "file")
        assert "24 MiB" in caught.value.message


async def test_a_chunked_upload_is_bounded_too(narrow: RunningService) -> None:
    async def body() -> object:
        yield b'--x\r\nContent-Disposition: form-data; name="file"; filename="a.wav"\r\n\r\n'
        for _ in range(26):
            yield bytes(MIB)

    headers = BEARER | {"Content-Type": "multipart/form-data; boundary=x"}
    async with (
        ClientSession(headers=headers) as http,
        http.post(f"{narrow.url}/v1/audio/transcriptions", data=body()) as answer,
    ):
        assert answer.status == 413


def test_a_recording_that_is_too_long_is_refused(client: openai.OpenAI, data: Path) -> None:
    """A small file of long silence, as FLAC can be, is measured by its sound."""
    file = io.BytesIO()
    soundfile.write(file, np.zeros((AUDIO_SECONDS + 5) * 8000, np.int16), 8000, format="FLAC")
    assert len(file.getvalue()) < MIB
    with pytest.raises(openai.APIStatusError) as caught:
        client.audio.transcriptions.create(file=("talk.flac", file.getvalue()), model="whisper-1")
    assert (caught.value.status_code, caught.value.param) == (413, "file")


async def test_a_full_service_refuses_at_once_and_a_client_that_goes_frees_its_place(
    narrow: RunningService, data: Path
) -> None:
    long = recording(660, data)
    url = f"{narrow.url}/v1/audio/transcriptions"

    def form(content: bytes) -> FormData:
        fields = FormData()
        fields.add_field("file", content, filename="talk.wav")
        return fields

    async with ClientSession(headers=BEARER) as http:
        busy = asyncio.create_task(http.post(url, data=form(long)))
        while not await metric(narrow, "speechlane_audio_seconds_total", kind="file"):
            assert not busy.done()
            await asyncio.sleep(0.05)
        begun = time.monotonic()
        async with http.post(url, data=form(recording(1, data))) as answer:
            error = (await answer.json())["error"]
            assert (answer.status, error["code"], error["type"]) == (429, "overloaded", "rate_limit_error")
            assert int(answer.headers["Retry-After"]) >= 1
        assert time.monotonic() - begun < 2
        assert await metric(narrow, "speechlane_refused_total", kind="file", reason="overloaded") == 1
        assert await metric(narrow, "speechlane_files") == 1
        busy.cancel()
        gone = time.monotonic()
        while await metric(narrow, "speechlane_files"):
            assert time.monotonic() - gone < 5
            await asyncio.sleep(0.05)
        async with http.post(url, data=form(recording(1, data))) as answer:
            assert answer.status == 200


async def test_readyz_tells_its_load_to_those_with_the_key(narrow: RunningService) -> None:
    async with ClientSession() as http:
        async with http.get(f"{narrow.url}/readyz") as answer:
            assert (answer.status, await answer.json()) == (200, {"status": "ready"})
        async with http.get(f"{narrow.url}/readyz", headers=BEARER) as answer:
            body = await answer.json()
    assert (body["status"], body["sessions"]) == ("ready", 0)
    assert body["devices"][0]["free_streams"] >= 1
    assert set(body["devices"][0]["queue"]) == {"final", "partial", "interactive", "bulk"}


@pytest.mark.long
def test_it_goes_down_without_losing_the_sentence_that_is_being_said(narrow: RunningService, data: Path) -> None:
    """Last in this file, because it ends the service."""
    listen = ["listen", str(data / "austen-0870.wav"), "--url", narrow.url]
    for given, hint in (("", "SPEECHLANE_API_KEY"), ("wrong-key-0123456789", "wrong")):
        refused = CliRunner().invoke(app, listen, env={"SPEECHLANE_API_KEY": given})
        assert refused.exit_code == 1
        assert hint in refused.stderr
    speaking = subprocess.Popen(
        [sys.executable, "-m", "gateway.cli", *listen, "--json", "--patience", "2"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=clean_environment(SPEECHLANE_API_KEY=KEY),
        text=True,
    )
    assert speaking.stdout is not None
    assert json.loads(speaking.stdout.readline())["type"] == "partial"
    second = CliRunner().invoke(app, listen, env={"SPEECHLANE_API_KEY": KEY})
    assert "sessions are all open" in second.stderr  # one for each key
    assert asyncio.run(metric(narrow, "speechlane_sessions")) == 1
    assert narrow.stop() == 0
    out, err = speaking.communicate(timeout=30)
    assert [json.loads(line)["type"] for line in out.splitlines()][-1] == "final"
    assert speaking.returncode == 1
    assert narrow.url.removeprefix("http://") in err
    log = narrow.log()
    assert "session 1 of key-1 begins" in log
    assert "session 1 of key-1 ends" in log
    assert "Stopped." in log
    for secret in (KEY, "wrong-key", "Dashwood"):
        assert secret not in log
