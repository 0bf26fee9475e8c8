"""`speechlane transcribe`: which files, which names, what is said of them, and what an interruption leaves behind."""

from __future__ import annotations

import io
import json
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import jiwer
import numpy as np
import pytest
import soundfile
from rich.table import Table
from rich.text import Text
from typer.testing import CliRunner, Result
from whisper_normalizer.english import EnglishTextNormalizer

from batch_jobs.job import Job, JobOptions, State
from gateway.cli import app
from gateway.cli.console import Plain, one_line
from gateway.cli.job_tables import _end, show_jobs
from gateway.cli.outputs import Folder, OutputTaken
from gateway.cli.progress import Tally, clock_time, figures_of
from gateway.cli.recordings import find, places
from tests.conftest import DATA, clean_environment

normalise = EnglishTextNormalizer()
PASSAGE = ("austen-0870.wav", "austen-0880.wav", "austen-0890.wav", "austen-0920.wav", "austen-0930.wav")


def speechlane(*arguments: str | Path, input: bytes | None = None) -> Result:
    """Run a command to its end, in this process."""
    own = {name: None for name in os.environ if name.startswith("SPEECHLANE_") and name != "SPEECHLANE_CACHE"}
    return CliRunner().invoke(app, [*map(str, arguments)], input, env={**own, "COLUMNS": "120"})


def process(*arguments: str | Path, **options: Any) -> subprocess.Popen[str]:
    """Start a command as users do."""
    command = [sys.executable, "-m", "gateway.cli", *map(str, arguments)]
    return subprocess.Popen(command, env=clean_environment(), text=True, **options)


def wait_for(condition: Callable[[], object], running: subprocess.Popen[str], seconds: float = 60.0) -> None:
    """Wait for something that a running command brings about."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert running.poll() is None, "the command ended too early"
        assert time.monotonic() < deadline, "it did not come"
        time.sleep(0.02)


def errors(reference: str, heard: str) -> float:
    return float(jiwer.wer(normalise(reference), normalise(heard)))


@pytest.fixture(scope="module")
def passage(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A minute and a half: a passage read three times, a second of silence after each sentence."""
    pieces = []
    for name in PASSAGE * 3:
        samples, rate = soundfile.read(DATA / name, dtype="float32")
        pieces += [samples, np.zeros(rate, np.float32)]
    path = tmp_path_factory.mktemp("passage") / "passage.wav"
    soundfile.write(path, np.concatenate(pieces), 16000)
    return path


# Which files, and how their transcripts are called.


def test_a_folder_stands_for_its_recordings_and_nothing_else(tmp_path: Path) -> None:
    for name in (
        "b.MP3",
        "a.wav",
        "notes.txt",
        ".hidden.wav",
        "deep/er/film.mkv",
        ".git/x.wav",
        "out/a.wav",
        "cover.jpg",
    ):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    found = find([str(tmp_path), str(tmp_path / "a.wav"), "nowhere.wav"], leave_out=tmp_path / "out")
    assert [one.path for one in found.recordings] == [
        tmp_path / name for name in ("a.wav", "b.MP3", "deep/er/film.mkv")
    ]
    assert (found.skipped, found.missing) == (2, ("nowhere.wav",))
    assert find([str(tmp_path / "notes.txt")]).recordings, "a file that is named is tried whatever its name"
    odd = os.fsdecode(os.fsencode(tmp_path) + b"/\xff.wav")
    Path(odd).touch()
    assert find([odd]).recordings[0].name.endswith("/\N{REPLACEMENT CHARACTER}.wav")


def test_links_to_nowhere_and_to_themselves_stop_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "calls"
    folder.mkdir()
    (folder / "a.wav").write_bytes(b"sound")
    (folder / "gone.wav").symlink_to("nowhere.wav")
    (folder / "loop.wav").symlink_to("loop.wav")
    (folder / "ring").symlink_to(".")
    found = find([str(folder)], leave_out=folder / "loop.wav")
    assert [one.place.name for one in found.recordings] == ["a.wav", "gone.wav", "loop.wav"]
    out = Folder(tmp_path / "out", found.recordings, ("txt",), JobOptions())
    assert not any(out.done(one) for one in found.recordings)
    out.check(found.recordings[0], force=False)
    out.write(found.recordings[0], lambda kind: b"words\n", whole=True)
    assert Folder(tmp_path / "out", found.recordings, ("txt",), JobOptions()).done(found.recordings[0])


def test_names_cannot_speak_to_the_terminal(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    name = "a\nb\x1b[2J\x9b\u202egnp.\rwav"
    job = Job("0", name, JobOptions(), State.FAILED, "", error=f"cannot read {name}")
    for terminal in (False, True):
        console = Plain(file=io.StringIO(), force_terminal=terminal, color_system=None, width=1000)
        table = Table("NAME")
        table.add_row(Text(job.name))
        for thing in (table, job.error or "", Text(job.name), _end(job)):
            console.print(thing)
        shown = console.file.getvalue()  # type: ignore[attr-defined]
        assert not set(shown) & set("\x1b\x9b\r\u202e"), shown
        assert "[2J" in shown
    assert one_line(name).splitlines() == [one_line(name)]
    show_jobs([job])
    assert len(capsys.readouterr().out.splitlines()) == 2


def test_no_two_recordings_get_one_name(tmp_path: Path) -> None:
    for name in ("a.mp3", "a.wav", "A.ogg", "b.wav", "sub/a.mp3"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = find([str(tmp_path)]).recordings
    names = {str(one.place): str(place) for one, place in places(found, {}).items()}
    assert names == {"a.mp3": "a.mp3", "a.wav": "a.wav", "A.ogg": "A.ogg", "b.wav": "b", "sub/a.mp3": "sub/a"}
    once = {one.path: Path("a") for one in found if one.path and one.place == Path("a.mp3")}
    again = {str(one.place): str(place) for one, place in places(found, once).items()}
    assert again["a.mp3"] == "a", "what was written once keeps its name"
    assert again["a.wav"] == "a.wav"
    apart = find([str(tmp_path / "a.mp3"), str(tmp_path / "sub" / "a.mp3")]).recordings
    assert sorted(map(str, places(apart, {}).values())) == ["a.mp3", "a.mp3-2"]


def test_a_folder_of_results_remembers_what_it_was_made_from(tmp_path: Path) -> None:
    recording, out = tmp_path / "talk.mp3", tmp_path / "out"
    recording.write_bytes(b"sound")
    found = find([str(recording)]).recordings

    def folder(**options: Any) -> Folder:
        return Folder(out, found, ("txt",), JobOptions(**options))

    assert not folder().done(found[0])
    folder().write(found[0], lambda kind: b"words\n", whole=True)
    assert folder().done(found[0])
    assert not folder(language="de").done(found[0])
    assert not Folder(out, found, ("txt", "srt"), JobOptions()).done(found[0])
    folder().check(found[0], force=False)
    moved = find([str(recording.rename(tmp_path / "moved").rename(tmp_path / "talk.mp3"))]).recordings
    assert folder().done(moved[0])
    recording.write_bytes(b"other sound")
    assert not folder().done(found[0])
    # Another recording that would be called the same never takes its place.
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "talk.wav").touch()
    other = find([str(tmp_path / "sub" / "talk.wav")]).recordings
    assert Folder(out, other, ("txt",), JobOptions()).paths(other[0])["txt"] == out / "talk.wav.txt"
    (out / "foreign.txt").write_text("notes of my own")
    (tmp_path / "foreign.wav").touch()
    foreign = find([str(tmp_path / "foreign.wav")]).recordings
    with pytest.raises(OutputTaken, match="--force"):
        Folder(out, foreign, ("txt",), JobOptions()).check(foreign[0], force=False)


def test_progress_counts_audio_and_what_is_left() -> None:
    now = [0.0]
    tally = Tally(lambda: now[0])

    def job(covered: float, **fields: Any) -> Job:
        return Job("id", "a", JobOptions(), State.RUNNING, "", covered=covered, decoded=600.0, expected=600.0, **fields)

    tally.expect("a", 600.0)
    tally.expect("b", None)
    tally.update("a", job(60.0))  # was there from an earlier run
    now[0] = 10.0
    tally.update("a", job(160.0))
    assert tally.speed("a") == pytest.approx(10.0)
    assert tally.left("a") == pytest.approx(44.0)
    assert tally.total() == pytest.approx(1200.0), "an unknown file counts as the mean of the others"
    assert figures_of(tally, "a") == "2:40 / 10:00  10.0 × real time  0:44 left"
    tally.end("b")
    assert (tally.total(), tally.files_ended, tally.files) == (600.0, 1, 2)
    assert [clock_time(seconds) for seconds in (0.4, 59.6, 3599.6, 360_000.0)] == [
        "0:00",
        "1:00",
        "1:00:00",
        "100:00:00",
    ]


# Real recordings.


@pytest.mark.parametrize(
    ("arguments", "code", "remedy"),
    [
        (("tests/data/jfk.flac", "--format", "doc"), 2, "txt, srt, vtt, tsv, json"),
        (("tests/data", "--format", "srt"), 2, "--out DIRECTORY"),
        (("tests/data", "--out", "README.md"), 2, "is a file"),
        (("tests/data/jfk.flac", "--channels", "left"), 2, "mix and each"),
        (("nowhere.wav", "neither.wav"), 1, "no file nowhere.wav"),
        (("docs",), 1, "no recording in the folder"),
    ],
)
def test_wrong_arguments_are_said_with_the_remedy(arguments: tuple[str, ...], code: int, remedy: str) -> None:
    done = speechlane("transcribe", *arguments)
    assert (done.exit_code, done.stdout) == (code, "")
    assert remedy in done.stderr


@pytest.mark.long
def test_a_folder_is_mirrored_and_one_bad_file_stops_nothing(
    tmp_path: Path, data: Path, references: dict[str, str]
) -> None:
    calls, out = tmp_path / "calls", tmp_path / "out"
    (calls / "sub").mkdir(parents=True)
    kept = {"a.wav": "austen-0870.wav", "a.flac": "jfk.flac", "sub/b.wav": "austen-0920.wav"}
    for name, recording in kept.items():
        (calls / name).write_bytes((data / recording).read_bytes())
    (calls / "notes.txt").write_text("not a recording")
    (calls / "bad.mp3").write_text("this is text, whatever its name says\n" * 50)
    arguments = ("transcribe", calls, "--out", out, "--format", "txt,json", "--json", "--batch-dir", tmp_path / "batch")
    done = speechlane(*arguments)
    assert done.exit_code == 3, done.stderr
    rows = {Path(row["file"]).relative_to(calls).as_posix(): row for row in map(json.loads, done.stdout.splitlines())}
    assert {name: row["state"] for name, row in rows.items()} == {**dict.fromkeys(kept, "done"), "bad.mp3": "failed"}
    assert "bad.mp3" in done.stderr
    assert "Skipped 1 file that is no audio" in done.stderr
    texts = {"a.wav": "a.wav.txt", "a.flac": "a.flac.txt", "sub/b.wav": "sub/b.txt"}
    for name, text in texts.items():
        assert str(out / text) in rows[name]["outputs"]
        assert errors(references[kept[name]], (out / text).read_text("utf-8")) < 0.15
    words = [
        word for segment in json.loads((out / "sub/b.json").read_text("utf-8"))["segments"] for word in segment["words"]
    ]
    assert words
    assert not list((tmp_path / "batch" / "runs").iterdir()), "what is done leaves nothing behind"
    (calls / "bad.mp3").unlink()
    (out / "sub" / "b.json").unlink()
    again = speechlane(*arguments)
    assert again.exit_code == 0, again.stderr
    rows = {Path(row["file"]).name: row["state"] for row in map(json.loads, again.stdout.splitlines())}
    assert rows == {"a.wav": "skipped", "a.flac": "skipped", "b.wav": "done"}


def test_a_recording_comes_through_a_pipe(tmp_path: Path, data: Path, references: dict[str, str]) -> None:
    done = speechlane("transcribe", "-", "--batch-dir", tmp_path, input=(data / "jfk.flac").read_bytes())
    assert done.exit_code == 0, done.stderr
    assert errors(references["jfk.flac"], done.stdout) < 0.1


@pytest.mark.long
def test_bars_are_drawn_in_a_terminal(tmp_path: Path, data: Path) -> None:
    terminal, end = pty.openpty()
    files = [data / "austen-0870.wav", data / "austen-0920.wav"]
    running = process("transcribe", *files, "--batch-dir", tmp_path, stdout=subprocess.DEVNULL, stderr=end)
    os.close(end)
    seen = b""
    while True:
        try:
            piece = os.read(terminal, 65536)
        except OSError:  # Linux' way to say that the other end has closed
            break
        if not piece:
            break
        seen += piece
    os.close(terminal)
    assert running.wait(30) == 0
    plain = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen.decode("utf-8", "replace"))
    assert "Loading tiny.en" in plain
    assert "of 2 files" in plain
    assert "0:07" in plain
    assert "2 files: 2 transcribed" in plain


def results(root: Path) -> dict[Path, tuple[int, bytes]]:
    """What was transcribed of pieces: the time at which each was written (ns), and what it says."""
    found = {}
    for path in root.glob("runs/*/**/named/results/**/*"):
        with suppress(FileNotFoundError):  # the command is done with it
            if path.is_file():
                found[path] = path.stat().st_mtime_ns, path.read_bytes()
    return found


@pytest.mark.long
def test_the_same_command_goes_on_where_it_was_stopped(
    tmp_path: Path, passage: Path, references: dict[str, str]
) -> None:
    """Interrupted, then killed, then left alone."""
    arguments = ("transcribe", passage, "--batch-dir", tmp_path, "--concurrency", "1")
    seen: dict[Path, tuple[int, bytes]] = {}
    for number in (signal.SIGINT, signal.SIGKILL, None):
        running, before = process(*arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE), dict(seen)
        wait_for(lambda: seen.update(results(tmp_path)) or len(seen) > len(before), running)  # noqa: B023
        if number is not None:
            running.send_signal(number)
        out, said = running.communicate(timeout=90)
        seen.update(results(tmp_path))
        # The one in hand may have been kept and not counted yet. It is found, and kept anew, as it was.
        again = [path for path, (written, _) in before.items() if seen[path][0] != written]
        assert len(again) <= 1, "what was transcribed is not transcribed again"
        assert all(seen[path][1] == said_before for path, (_, said_before) in before.items())
        if number == signal.SIGINT:
            assert (running.returncode, out) == (130, "")
            assert "the same command goes on" in said
            assert "Traceback" not in said
    assert running.returncode == 0, said
    assert errors(" ".join(references[name] for name in PASSAGE * 3), out) < 0.15
    assert not list((tmp_path / "runs").iterdir())


@pytest.mark.long
def test_the_same_command_runs_once_and_a_second_interrupt_ends_it_at_once(tmp_path: Path, passage: Path) -> None:
    arguments = ("transcribe", passage, "--batch-dir", tmp_path)
    running = process(*arguments, stderr=subprocess.PIPE, stdout=subprocess.PIPE)
    wait_for(lambda: list(tmp_path.glob("runs/*/run.lock")), running)
    other = speechlane(*arguments)
    assert other.exit_code == 1
    assert "running already" in other.stderr
    running.send_signal(signal.SIGINT)
    time.sleep(0.05)
    running.send_signal(signal.SIGINT)
    begun = time.monotonic()
    _, said = running.communicate(timeout=30)
    assert time.monotonic() - begun < 10
    assert running.returncode == 130
    assert "Traceback" not in said
