"""`speechlane load` as its users meet it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from gateway.cli import app as speechlane
from gateway.cli import brought
from load.harness import cli
from load.harness.cli import app
from load.harness.echo import echo

KINDS = ("asr", "tts", "voice", "embed", "jobs")


def load(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, [*map(str, arguments)], env={"COLUMNS": "160"})


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """A service that answers at once."""
    with echo() as running:
        yield running.url


@pytest.mark.parametrize("kind", KINDS)
def test_help_teaches_with_examples(kind: str) -> None:
    done = load(kind, "--help")
    assert done.exit_code == 0
    assert "Examples:" in done.stdout and "Checked:" in done.stdout
    assert f"speechlane load {kind} --" in done.stdout
    assert "--arrivals" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("asr", "--clients", "none"), "--clients"),
        (("asr", "--clients", "0"), "above 0"),
        (("tts", "--url", "127.0.0.1:8700"), "does not look like"),
        (("embed", "--arrivals", "often"), "closed"),
        (("embed", "--seconds", "0"), "--seconds"),
        (("jobs", "--cpus", "all"), "--cpus"),
        (("voice", "--recordings", "/nowhere"), "--recordings"),
        (("tts", "--json", "/nowhere/run.json"), "cannot be written"),
    ],
)
def test_wrong_arguments_are_named(arguments: tuple[str, ...], said: str) -> None:
    done = load(*arguments)
    assert done.exit_code == 2
    assert said in done.output


def test_a_folder_without_recordings_is_named(tmp_path: Path) -> None:
    done = load("asr", "--recordings", tmp_path)
    assert done.exit_code == 2
    assert "no recording" in done.output


def test_a_run_is_told_in_a_table_a_file_and_a_page(url: str, tmp_path: Path) -> None:
    figures, page = tmp_path / "run.json", tmp_path / "run.html"
    options = ("--url", url, "--clients", "1,2", "--seconds", "1", "--rate", "10", "--json", figures, "--html", page)
    done = load("embed", *options)
    assert done.exit_code == 0, done.output
    assert "all bars held" in done.output and re.search(r"admitted, refused.*1 of 1, 0.*2 of 2, 0", done.output)
    told = json.loads(figures.read_text("utf-8"))
    assert [step["clients"] for step in told["steps"]] == [1, 2]
    assert all(step["calibration"]["own_p95"] > 0 for step in told["steps"])
    assert "<svg" in page.read_text("utf-8")


def test_an_objective_that_is_missed_is_the_exit_status(url: str) -> None:
    options = ("--url", url, "--clients", "1", "--seconds", "1", "--rate", "10", "--no-calibrate")
    done = load("embed", *options, "--objective", "0.001")
    assert done.exit_code == 1
    assert "1 was asked" in done.output
    gone = load("embed", "--url", "http://127.0.0.1:9", "--clients", "1", "--seconds", "1", "--no-calibrate")
    assert gone.exit_code == 1
    assert "no service answers" in gone.output + str(gone.exception)


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Two packages that bring a command, one of which is broken."""
    points = [
        EntryPoint("load", "load.harness.cli:app", brought.GROUP),
        EntryPoint("broken", "load.nothing:app", brought.GROUP),
        EntryPoint("serve", "load.harness.cli:app", brought.GROUP),
    ]
    monkeypatch.setattr(brought, "entry_points", lambda group: points)
    brought._brought.cache_clear()
    yield
    brought._brought.cache_clear()


@pytest.mark.usefixtures("commands")
def test_commands_that_others_bring_are_among_our_own() -> None:
    def run(*arguments: str) -> Result:
        return CliRunner().invoke(speechlane, arguments, env={"COLUMNS": "160"})

    shown = run("--help")
    assert shown.exit_code == 0
    assert "Many clients at a service" in shown.stdout and "cannot be loaded" in shown.stdout
    assert "speechlane load asr --" in run("load", "asr", "--help").stdout
    assert "The service and its pages" in shown.stdout  # nobody takes the place of our own
    broken = run("broken", "--any", "thing")
    assert broken.exit_code == 1
    assert "load.nothing" in broken.output
    assert run("nothing").exit_code == 2


def test_what_has_to_be_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(*_: object) -> None:
        raise ModuleNotFoundError("no", name="jiwer")

    monkeypatch.setattr(cli, "objective", missing)
    done = load("tts", "--clients", "1")
    assert done.exit_code == 1
    assert "jiwer is not installed" in done.output
    assert "speechlane[load]" in done.output
