"""LiveKit Agents and Pipecat with their OpenAI plugins, unmodified, as docs/protocols.md points them at the service.

They run in an environment of their own, `make agents`, since they want other versions of what the service needs.
"""

from __future__ import annotations

import asyncio
import json
import subprocess
import wave
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.conftest import DATA, ROOT
from tests.gateway.realtime.client import PCM, TRANSCRIPTION, recording, session, silence, update, words

PYTHON = ROOT / ".venv-agents" / "bin" / "python"
RECORDINGS = ("austen-0930.wav", "austen-0880.wav")
TEXT = "Good morning, the train leaves at a quarter past nine."
RATE = 24_000
LAST_FRAME = RATE // 100
"""Samples of silence that LiveKit ends a speech with."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.skipif(
        not (PYTHON.parents[1] / "installed").exists(),
        reason="LiveKit Agents and Pipecat are not installed: make agents",
    ),
    pytest.mark.timeout(240),
]


def run(client: str, service: str, directory: Path) -> dict[str, Any]:
    """What a client reports."""
    files = [str(DATA / name) for name in RECORDINGS]
    script, address = Path(__file__).with_name(client), service.removeprefix("http://")
    command = [PYTHON, script, address, directory / "sound.wav", TEXT, *files]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.fixture(scope="module")
def livekit(service: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What LiveKit's plugins report, and the sound."""
    directory = tmp_path_factory.mktemp("livekit")
    return run("livekit_client.py", service, directory), directory / "sound.wav"


@pytest.fixture(scope="module")
def pipecat(service: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    """What Pipecat's services report, and the sound."""
    directory = tmp_path_factory.mktemp("pipecat")
    return run("pipecat_client.py", service, directory), directory / "sound.wav"


@pytest.fixture(scope="module")
def live(service: str) -> list[list[str]]:
    """The words of our own live path, turn by turn."""

    async def hear() -> list[list[str]]:
        url = service.replace("http", "ws", 1) + "/v1/realtime?intent=transcription"
        async with session(url, update(format=PCM)) as client:
            for name in RECORDINGS:
                await client.append(recording(name) + silence(1.0), 0.1)
            return [words((await client.until(TRANSCRIPTION + "completed"))["transcript"]) for _ in RECORDINGS]

    return asyncio.run(hear())


@pytest.fixture(scope="module")
def file(service: str) -> list[str]:
    """The words of /v1/audio/transcriptions for the first recording."""
    return transcribed(service, DATA / RECORDINGS[0])


@pytest.fixture(scope="module")
def made(service: str) -> bytes:
    """The service's own sound of the text, PCM16."""
    asked = {"model": "tts-1", "voice": "heart", "input": TEXT, "response_format": "pcm"}
    return httpx.post(f"{service}/v1/audio/speech", json=asked, timeout=60).content


def transcribed(service: str, path: Path) -> list[str]:
    with path.open("rb") as sound:
        form = {"model": "whisper-1"}
        answer = httpx.post(f"{service}/v1/audio/transcriptions", files={"file": sound}, data=form, timeout=60)
    return words(answer.json()["text"])


def test_livekit_recognises_an_utterance(livekit: tuple[dict[str, Any], Path], file: list[str]) -> None:
    heard = livekit[0]["stt"]
    assert words(heard["text"]) == file
    assert heard["language"] == "en"


@pytest.mark.parametrize("who", ["live_stt", "committed_stt"])
def test_livekit_streams(livekit: tuple[dict[str, Any], Path], live: list[list[str]], who: str) -> None:
    """With the service's turns and, as a model without turn detection has it, with LiveKit's own."""
    heard = livekit[0][who]
    assert list(map(words, heard["texts"])) == live
    assert heard["languages"] == ["en"] * len(live)
    kinds = heard["kinds"]
    assert [kind for kind in kinds if kind.endswith("of_speech")] == ["start_of_speech", "end_of_speech"] * len(live)
    assert 0 <= kinds.count("recognition_usage") - kinds.count("final_transcript") + 1 <= 1, "one end for each turn"
    for interim in map(words, heard["interim"]):  # a busy machine leaves them out
        assert any(turn[: len(interim)] == interim for turn in live)
    if who == "live_stt":
        assert heard["seconds"] > 3, "what the service heard as speech, which LiveKit accounts"


def test_pipecat_recognises_an_utterance(pipecat: tuple[dict[str, Any], Path], file: list[str]) -> None:
    heard = pipecat[0]["stt"]
    assert heard["errors"] == []
    assert list(map(words, heard["texts"])) == [file]


@pytest.mark.parametrize("who", ["live_stt", "turns_stt"])
def test_pipecat_streams(pipecat: tuple[dict[str, Any], Path], live: list[list[str]], who: str) -> None:
    """With the pipeline's own voice activity, and with the service's turns."""
    heard = pipecat[0][who]
    assert heard["errors"] == []
    assert list(map(words, heard["texts"])) == live
    turns = {"ProposedUserStartedSpeakingFrame", "ProposedUserStoppedSpeakingFrame"}
    assert turns & set(heard["kinds"]) == (turns if who == "turns_stt" else set())


def test_livekit_speaks(livekit: tuple[dict[str, Any], Path], made: bytes, service: str) -> None:
    report, sound = livekit
    assert (report["tts"]["samples"], report["tts"]["rate"]) == (len(made) // 2 + LAST_FRAME, RATE)
    assert played(sound) == made + bytes(2 * LAST_FRAME)
    assert transcribed(service, sound) == words(TEXT)


def test_pipecat_speaks(pipecat: tuple[dict[str, Any], Path], made: bytes, service: str) -> None:
    report, sound = pipecat
    assert report["tts"]["errors"] == []
    assert (report["tts"]["samples"], report["tts"]["rate"]) == (len(made) // 2, RATE)
    assert played(sound) == made
    assert transcribed(service, sound) == words(TEXT)


def played(sound: Path) -> bytes:
    with wave.open(str(sound)) as file:
        assert (file.getframerate(), file.getnchannels()) == (RATE, 1)
        return file.readframes(file.getnframes())
