"""`speechlane jobs` and `speechlane worker`: from handing in to the transcript, and what goes wrong between."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import jiwer
import pytest
from typer.testing import CliRunner, Result
from whisper_normalizer.english import EnglishTextNormalizer

from batch_jobs.job import Job, JobOptions, State
from batch_jobs.jobs import Jobs
from batch_jobs.settings import BatchSettings
from gateway.cli import app
from gateway.cli.job_tables import show_job
from gateway.cli.lane_options import batch_settings, duration, shown_url, without_secrets
from tests.conftest import clean_environment

normalise = EnglishTextNormalizer()
COMMANDS = ("submit", "list", "show", "watch", "cancel", "retry", "dead", "purge")


def speechlane(*arguments: str | Path, **variables: str) -> Result:
    """Run a command to its end, in this process."""
    own = {name: None for name in os.environ if name.startswith("SPEECHLANE_") and name != "SPEECHLANE_CACHE"}
    return CliRunner().invoke(app, [*map(str, arguments)], env={**own, "COLUMNS": "120", **variables})


class Worker:
    """`speechlane worker` in a process of its own."""

    def __init__(self, directory: Path, *flags: str | Path) -> None:
        self.log = directory / f"worker-{time.monotonic_ns()}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "gateway.cli", "worker", *map(str, flags)],
                env=clean_environment(),
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def wait_for(self, text: str, seconds: float = 60.0) -> None:
        deadline = time.monotonic() + seconds
        while text not in self.log.read_text("utf-8"):
            assert self.process.poll() is None, self.log.read_text("utf-8")
            assert time.monotonic() < deadline, self.log.read_text("utf-8")
            time.sleep(0.05)

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            raise


@pytest.fixture
def worker(tmp_path: Path) -> Iterator[Callable[..., Worker]]:
    """Start workers; they are stopped when the test ends."""
    started: list[Worker] = []

    def start(*flags: str | Path) -> Worker:
        started.append(Worker(tmp_path, *flags))
        return started[-1]

    yield start
    for one in started:
        one.stop()


@pytest.mark.parametrize("name", COMMANDS)
def test_help_teaches_with_examples(name: str) -> None:
    done = speechlane("jobs", name, "--help")
    assert done.exit_code == 0
    assert f"speechlane jobs {name}" in done.stdout
    for flag in ("--redis-url", "--spool-url", "--batch-dir", "--json"):
        assert flag in done.stdout


def test_worker_help_teaches() -> None:
    done = speechlane("worker", "--help")
    assert "Examples:" in done.stdout
    assert "SPEECHLANE_REDIS_URL" in done.stdout


def test_places_come_from_flag_variable_and_file_in_this_order(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in os.environ if name.startswith("SPEECHLANE_")]:
        monkeypatch.delenv(name)
    file = tmp_path / "speechlane.toml"
    file.write_text('redis_url = "redis://file"\nspool_url = "s3://file/x"\nport = 1\nbatch_spool_bytes = 5\n', "utf-8")
    monkeypatch.setenv("SPEECHLANE_SPOOL_URL", "s3://variable/x")
    monkeypatch.setenv("SPEECHLANE_CONFIG", str(file))
    found = batch_settings(None, None, tmp_path, None)
    assert (found.redis_url, found.spool_url, found.directory) == ("redis://file", "s3://variable/x", tmp_path)
    assert found.spool_bytes == 5
    assert batch_settings("redis://flag", None, None, None).redis_url == "redis://flag"


def test_durations() -> None:
    assert [duration(text, "--x") for text in ("90", "15m", "1.5h", "7d", "2 w")] == [90, 900, 5400, 604_800, 1_209_600]


def test_no_password_of_the_queue_is_shown() -> None:
    secret = "p%40ss-word"
    url = f"redis://user:{secret}@127.0.0.1:9/0"
    assert shown_url(url) == "redis://127.0.0.1:9/0"
    settings = BatchSettings(redis_url=url, spool_url="s3://key:hidden@bucket/x?secret=hidden")
    said = without_secrets(f"{url} p@ss-word {secret} {settings.spool_url}", settings)
    assert not {part for part in ("p@ss", secret, "hidden") if part in said}
    for arguments in (("jobs", "list"), ("worker",)):
        done = speechlane(*arguments, "--redis-url", url)
        assert done.exit_code == 1
        assert "127.0.0.1:9" in done.stderr
        assert secret not in done.stderr
        assert "p@ss-word" not in done.stderr
        assert "Traceback" not in done.stderr
    for flag, name in (("--redis-url", "redis"), ("--spool-url", "s3")):
        done = speechlane("jobs", "list", flag, f"{name}://:{secret}@[::1")
        assert (done.exit_code, "looks like" in done.stderr, secret in done.stderr) == (2, True, False)


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        (("submit", "nowhere.wav"), 1, "no file nowhere.wav"),
        (("submit", "tests/data/jfk.flac", "--priority", "urgent"), 2, "high, normal, low"),
        (("list", "--state", "lost"), 2, "queued, running"),
        (("list", "--redis-url", "http://x"), 2, "redis://HOST"),
        (("list", "--config", "nowhere.toml"), 2, "no file nowhere.toml"),
        (("show", "no-such-job"), 1, "no-such-job"),
        (("watch", "no-such-job"), 1, "no-such-job"),
        (("cancel", "no-such-job"), 1, "no-such-job"),
        (("purge", "--older-than", "a while"), 2, "such as 7d"),
    ],
)
def test_what_is_wrong_is_said_with_the_remedy(
    tmp_path: Path, arguments: tuple[str, ...], code: int, remedy: str
) -> None:
    done = speechlane("jobs", *arguments, "--batch-dir", tmp_path)
    assert done.exit_code == code, done.stderr
    assert remedy in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.long
def test_from_handing_in_to_the_transcript(
    tmp_path: Path, data: Path, references: dict[str, str], worker: Callable[..., Worker]
) -> None:
    place = ("--batch-dir", tmp_path / "batch")
    bad = tmp_path / "bad.wav"
    bad.write_text("this is text, whatever its name says\n" * 50)
    given = speechlane("jobs", "submit", data / "austen-0870.wav", bad, "--language", "en", *place)
    assert given.exit_code == 0, given.stderr
    (good_id, good), (bad_id, _) = (line.split("\t") for line in given.stdout.splitlines())
    assert good.endswith("austen-0870.wav")
    early = speechlane("jobs", "show", good_id, "--format", "txt", *place)
    assert (early.exit_code, early.stdout) == (1, "")
    listed = speechlane("jobs", "list", *place)
    assert good_id in listed.stdout
    assert "queued" in listed.stdout

    working = worker(*place)
    watched = speechlane("jobs", "watch", "--json", *place)
    assert watched.exit_code == 3, watched.stderr
    last = {row["id"]: row for row in map(json.loads, watched.stdout.splitlines())}
    assert (last[good_id]["state"], last[good_id]["progress"]) == ("done", 1.0)
    assert last[bad_id]["state"] == "failed"
    working.wait_for("done, ")  # news wait for a second to come together
    assert working.stop() == 0
    log = working.log.read_text("utf-8")
    assert re.search(rf"job {good_id}: done, 0:07 of audio", log)
    assert re.search(rf"job {bad_id}: failed: ", log)
    assert "Traceback" not in log

    shown = speechlane("jobs", "show", good_id, "--format", "txt", *place).stdout
    assert jiwer.wer(normalise(references["austen-0870.wav"]), normalise(shown)) < 0.15
    details = speechlane("jobs", "show", good_id, *place).stdout
    assert "× real time" in details
    cues = tmp_path / "talk.srt"
    assert speechlane("jobs", "show", good_id, "--out", cues, *place).exit_code == 0
    assert cues.read_text("utf-8").startswith("1\n00:00:0")
    failed = speechlane("jobs", "list", "--state", "failed", "--json", *place)
    assert [row["id"] for row in map(json.loads, failed.stdout.splitlines())] == [bad_id]
    dead = [json.loads(line) for line in speechlane("jobs", "dead", "--json", *place).stdout.splitlines()]
    assert {row["job"] for row in dead} <= {bad_id}
    assert speechlane("jobs", "cancel", good_id, *place).exit_code == 1
    purged = speechlane("jobs", "purge", "--older-than", "0s", "--json", *place)
    assert json.loads(purged.stdout) == {"removed": 2}
    assert speechlane("jobs", "list", "--json", *place).stdout == ""


def test_a_cancelled_job_can_be_tried_again(tmp_path: Path, data: Path) -> None:
    place = ("--batch-dir", tmp_path / "batch")
    given = speechlane("jobs", "submit", data / "austen-0880.wav", "--json", *place)
    job_id = json.loads(given.stdout)["id"]
    assert speechlane("jobs", "cancel", job_id, *place).stdout == f"{job_id}\tcancelled\n"
    assert speechlane("jobs", "watch", job_id, *place).exit_code == 3
    assert speechlane("jobs", "retry", job_id, "--json", *place).exit_code == 0
    assert json.loads(speechlane("jobs", "show", job_id, "--json", *place).stdout)["state"] == "queued"


@pytest.mark.long
def test_a_worker_that_is_stopped_gives_back_what_it_holds(
    tmp_path: Path, data: Path, worker: Callable[..., Worker]
) -> None:
    place = ("--batch-dir", tmp_path / "batch")
    speechlane("jobs", "submit", *(data / f"austen-0{number}.wav" for number in (870, 890, 920)), *place)
    with closing(Jobs.open(BatchSettings(tmp_path / "batch"))) as jobs:
        working = worker(*place, "--concurrency", "2")
        working.wait_for("Ready")
        while all(job.state is State.QUEUED for job in jobs.list()):
            time.sleep(0.01)
        assert working.stop() == 0
        free = set[tuple[str, str]]()
        while lease := jobs.queue.take(0.2):  # far less than the lease of a dead worker
            assert (lease.attempt, lease.deliveries) == (1, 1), "being stopped is no failure"
            free.add((lease.task.job, lease.task.id))
        for job in jobs.list():
            left = jobs.queue.tasks(job.id).keys() - jobs.queue.results(job.id).keys()
            assert job.state.ended or {(job.id, task) for task in left} <= free


def test_a_worker_with_a_device_that_is_not_there_says_so(tmp_path: Path) -> None:
    done = speechlane("worker", "--device", "gpu", "--log-format", "text", "--batch-dir", tmp_path)
    assert done.exit_code == 1
    assert '"cpu", "cuda:0"' in done.stderr


def test_a_job_that_waits_says_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    job = Job("job", "talk.wav", JobOptions(), State.RUNNING, "0" * 64, waiting="the spool is full")
    show_job(job, as_json=False)
    assert "delayed    the spool is full" in capsys.readouterr().out
    show_job(job, as_json=True)
    assert json.loads(capsys.readouterr().out)["waiting"] == "the spool is full"
