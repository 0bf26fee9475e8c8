"""The command at a real service whose model takes steps of a known length."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console
from typer.testing import CliRunner

from load.capacity.cli import app
from load.capacity.goal import hearing
from load.capacity.measure import Plan
from load.capacity.session import Session, Target
from load.capacity.telling import table, told, write_page
from load.corpora import Clip, bundled
from load.harness.asr import AsrTrial
from load.harness.trial import Objective
from load.service import Running
from speech.promises import Promise, identity, keep, path_of, read
from tests.gateway.speak.conftest import Server
from tests.load.fixed_service import MODEL, engine

QUIET = Console(quiet=True)


@pytest.fixture
def profiles(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(tmp_path))
    return tmp_path / "profiles"


def short() -> list[Clip]:
    """Two recordings that take little time to say."""
    return sorted(bundled(), key=lambda clip: clip.path.stat().st_size)[:2]


def test_what_is_promised_is_admitted_and_no_more(profiles: Path, tmp_path: Path) -> None:
    goal = replace(hearing(within=2.0, late=0.5), word_errors=None)  # what is heard are no words
    keep(Promise(identity(MODEL, "cpu", ""), 2, 0.9, 2.0, goal.objective, 0.95, 0.0), profiles)
    server = Server(engine=engine(0.005, "silero", admission="measured"))
    running = server.serve()
    try:
        state = Running(running.http, None).state()
        mine = next(one for one in state["carried"] if one["model"] == MODEL)
        assert (mine["streams"], mine["basis"], mine["task"]) == (2, "measured", "asr")
        assert (state["devices"][0]["free_streams"], state["devices"][0]["basis"]) == (2, "measured")
        voice = next(one for one in state["carried"] if one["task"] == "tts")
        assert voice["basis"] == "estimated" and voice["streams"] >= 1 and voice["objective"] is None
        trial = AsrTrial(Objective("end of speech → final", 2.0), recordings=short())
        target = Target("asr", running.http)
        session = Session(target, trial, goal, Plan(seconds=3.0, hold=3.0), QUIET)
        assert session.prove_only() == []
        fewer, more = session.runs
        assert (fewer.clients, fewer.outcome.admitted, fewer.outcome.refused) == (1, 1, 0)
        assert (more.clients, more.outcome.admitted, more.outcome.refused) == (3, 2, 1)
        closed = Session(target, trial, goal, Plan(), QUIET)
        assert "--admission everybody" in closed.measure()[0], "a service that admits by a number is not searched"
        write_page(tmp_path / "page.html", session, "note")
        assert "3 s" in (tmp_path / "page.html").read_text("utf-8")
        assert json.loads(json.dumps(told(session, "note", [])))["runs"][1]["refused"] == 1
        assert table(session).row_count == 2
    finally:
        running.stop()
        server.close()


async def test_a_service_that_is_measured_admits_everybody(profiles: Path) -> None:
    goal = hearing()
    keep(Promise(identity(MODEL, "cpu", ""), 1, 0.9, 1.0, goal.objective, 0.95, 0.0), profiles)
    made = await asyncio.to_thread(engine, 0.001, "level", 64, "everybody")
    try:
        assert {one.basis for one in made.status().carried} == {"estimated"}
        assert made.status().devices[0].free_streams > 10_000
    finally:
        await made.close()


def test_arguments_that_make_no_sense_are_refused_and_numbers_are_shown(profiles: Path) -> None:
    run = CliRunner().invoke
    assert run(app, ["asr", "--start", "9", "--most", "4"]).exit_code == 2
    assert run(app, ["asr", "--url", "somewhere"]).exit_code == 2
    assert run(app, ["asr", "--cpus", "x"]).exit_code == 2
    assert run(app, ["pictures"]).exit_code == 2
    assert "asr: streams" in run(app, ["--help"]).output
    keep(Promise(identity("tiny.en", "cpu", "int8"), 41, 0.9, 1.0, "p95", 0.97, 0.0), profiles)
    shown = run(app, ["show"])
    assert shown.exit_code == 0 and "tiny.en" in shown.output and "41" in shown.output and "97 %" in shown.output


@pytest.mark.long
@pytest.mark.timeout(600)
def test_a_service_of_known_speed_is_measured_kept_and_proven(profiles: Path) -> None:
    """Steps of a quarter of a second, one stream each: finals wait for each other, so that few streams fit."""
    goal = replace(hearing(within=1.3, late=0.3), word_errors=None)
    flags = ("--step", "0.25", "--together", "1")
    target = Target("asr", flags=flags, most=16, program=("tests.load.fixed_service",), quiet=())
    trial = AsrTrial(Objective("end of speech → final", 1.3), recordings=short())
    out = Console(width=150)
    session = Session(target, trial, goal, Plan(most=16, seconds=12.0, hold=12.0, longest=120.0), out)
    missed = session.measure()
    out.print(table(session))
    assert missed == []
    assert session.found is not None and 1 < session.found.count < 16
    (kept,) = read(path_of(MODEL, "cpu", profiles))
    assert kept.streams == session.found.count and kept.confidence >= 0.95 and kept.busy > 0.5
