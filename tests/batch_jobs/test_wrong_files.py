"""Odd and broken files through the whole lane, side by side: each gets the right answer, and none harms another."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cache
from typing import NamedTuple

import av
import numpy as np
import pytest
import soundfile

from batch_jobs.errors import NotReady
from batch_jobs.job import FORMATS, Job, State
from batch_jobs.jobs import Jobs
from batch_jobs.media.timeline import CUT_OFF
from batch_jobs.settings import BatchSettings
from batch_jobs.transcript import Transcript
from speech.asr import SAMPLE_RATE, Samples
from speech.engine import Engine
from tests.batch_jobs.lane import ended, submit
from tests.batch_jobs.media_files import encoded
from tests.gateway.realtime.client import wer
from tests.speech.sounds import joined, recording, silence

SPOKEN = ("austen-0880.wav", "austen-0890.wav", "austen-0930.wav")
MOST_ERRORS = 0.2
"""Word error rate of tiny.en on these recordings, with a margin; in the narrow band of a telephone too."""


@cache
def talk() -> Samples:
    return joined(*(part for name in SPOKEN for part in (recording(name), silence(1.0))))


def video() -> bytes:
    """Three seconds of picture."""
    out = io.BytesIO()
    with av.open(out, "w", format="mp4") as file:
        track = file.add_stream("mpeg4", rate=10)
        track.width = track.height = 64
        for number in range(30):
            file.mux(track.encode(av.VideoFrame.from_ndarray(np.full((64, 64, 3), number, np.uint8))))
        file.mux(track.encode(None))
    return out.getvalue()


def eight_channels() -> bytes:
    """Eight microphones in a room, one nearer to the speaker than the next."""
    out = io.BytesIO()
    soundfile.write(out, np.stack([talk() * 0.9**n for n in range(8)], 1), SAMPLE_RATE, format="WAV")
    return out.getvalue()


def mp3() -> bytes:
    return encoded("mp3", "libmp3lame", 44_100, talk())


FILES = {
    "silent.wav": lambda: encoded("wav", "pcm_s16le", 16_000, silence(30)),
    "nothing.wav": lambda: b"",
    "one sample.wav": lambda: encoded("wav", "pcm_s16le", 16_000, np.ones(1, np.float32)),
    "cut off.mp3": lambda: mp3()[: len(mp3()) * 2 // 3],
    "a flac.mp3": lambda: encoded("flac", "flac", 16_000, talk()),
    "eight.wav": eight_channels,
    "telephone.wav": lambda: encoded("wav", "pcm_mulaw", 8_000, talk()),
    "no header.mp3": lambda: encoded("mp3", "libmp3lame", 44_100, talk(), {"write_xing": "0"}, bit_rate=0),
    "film.mp4": video,
    "notes.wav": lambda: b"Milk, bread, and a new battery for the clock.\n" * 200,
}
HEARD = ("a flac.mp3", "eight.wav", "telephone.wav", "no header.mp3")
EMPTY = {"silent.wav": 30.0, "one sample.wav": 1 / SAMPLE_RATE}
REFUSED = {
    "nothing.wav": "the file is empty (0 bytes); send a recording",
    "film.mp4": "has no sound track; send a recording with sound",
    "notes.wav": "the file is no recording that can be read",
}


class Lane(NamedTuple):
    """The lane after all files went through it at once."""

    jobs: Jobs
    done: dict[str, Job]

    def transcript(self, name: str) -> Transcript:
        return self.jobs.transcript(self.done[name].id)

    def text(self, name: str) -> str:
        return " ".join(segment.text for segment in self.transcript(name).segments)


@pytest.fixture(scope="module")
def lane(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    jobs = Jobs.open(BatchSettings(directory=tmp_path_factory.mktemp("lane")))
    given = {name: submit(jobs, make(), name) for name, make in FILES.items()}
    yield Lane(jobs, dict(zip(given, ended(jobs, engine, list(given.values())), strict=True)))
    jobs.close()


@pytest.mark.parametrize("name", HEARD)
def test_odd_recordings_are_heard_whole(lane: Lane, references: dict[str, str], name: str) -> None:
    job, transcript = lane.done[name], lane.transcript(name)
    assert (job.state, job.error, job.warnings) == (State.DONE, None, ())
    assert wer(" ".join(references[one] for one in SPOKEN), lane.text(name)) <= MOST_ERRORS
    account = transcript.account
    assert account.decoded == pytest.approx(len(talk()) / SAMPLE_RATE, abs=0.15)
    assert account.container is None if name == "no header.mp3" else account.container == pytest.approx(account.decoded)
    assert account.missing == ()
    assert account.words == pytest.approx(account.speech)
    assert account.channels == 1


def test_a_file_that_was_cut_off_is_heard_up_to_there_and_names_the_rest(
    lane: Lane, references: dict[str, str]
) -> None:
    job, account = lane.done["cut off.mp3"], lane.transcript("cut off.mp3").account
    assert (job.state, job.error) == (State.PARTIAL, None)
    length = len(talk()) / SAMPLE_RATE
    assert account.container == pytest.approx(length, abs=0.1)
    assert account.decoded == pytest.approx(2 / 3 * length, abs=0.3)
    [hole] = account.missing
    assert (hole.start, hole.end, hole.reason) == (account.decoded, account.container, CUT_OFF)
    assert any(CUT_OFF in warning for warning in job.warnings)
    assert lane.transcript("cut off.mp3").segments[-1].end <= account.decoded
    assert wer(" ".join(references[one] for one in SPOKEN[:2]), lane.text("cut off.mp3")) <= MOST_ERRORS


@pytest.mark.parametrize("name", EMPTY)
def test_where_nobody_speaks_the_transcript_is_empty_and_the_account_full(lane: Lane, name: str) -> None:
    job, transcript = lane.done[name], lane.transcript(name)
    assert (job.state, job.error, job.warnings, job.progress) == (State.DONE, None, (), 1.0)
    assert transcript.segments == transcript.suspicions == transcript.repairs == ()
    account = transcript.account
    assert (account.decoded, account.speech, account.words, account.missing) == (EMPTY[name], 0.0, 0.0, ())
    assert {kind: lane.jobs.render(job.id, kind) for kind in FORMATS if kind != "json"} == {
        "txt": b"", "srt": b"", "vtt": b"WEBVTT\n", "tsv": b"start\tend\ttext\n",
    }  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_no_recording_fails_with_what_to_do(lane: Lane, name: str) -> None:
    job = lane.done[name]
    assert job.state is State.FAILED
    assert REFUSED[name] in (job.error or "")
    assert [(dead.kind, dead.deliveries) for dead in lane.jobs.dead(job.id)] == [("split", 1)], "tried once"
    with pytest.raises(NotReady, match=re.escape(job.error or "?")):
        lane.transcript(name)
    assert lane.jobs.source(job.id).read() == FILES[name](), "its bytes can be had back"
