"""speechlane embed, search and collections, as a person uses them."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gateway.cli import app
from tests.conftest import clean_environment
from tests.gateway.collections.test_collections import DOCUMENTS, FIRST, served

runner = CliRunner()


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPEECHLANE_BATCH_DIR", str(tmp_path / "batch"))
    (tmp_path / "notes.jsonl").write_text("\n".join([*map(json.dumps, DOCUMENTS), "broken"]), "utf-8")
    return tmp_path


def test_from_a_file_to_a_hit_to_another_space(here: Path) -> None:
    made = runner.invoke(app, ["embed", "notes.jsonl", "--into", "notes", "--threads", "1", "--json"])
    assert made.exit_code == 3, made.output
    counts = json.loads(made.stdout)
    assert (counts["added"], counts["faulted"]) == (3, 1)
    assert "no JSON" in (here / "notes-errors.jsonl").read_text("utf-8")
    found = runner.invoke(app, ["search", "notes", "a boat in bad weather", "--limit", "1"])
    assert found.exit_code == 0 and "ship" in found.stdout and "stormy sea" in found.stdout
    words = ["search", "notes", "bank", "--mode", "words", "--where", "year >= 2000", "--json"]
    assert json.loads(runner.invoke(app, words).stdout)["document"] == "bank"
    assert runner.invoke(app, [*words[:-1], "--where", "year < 1000"]).exit_code == 3
    # Another space is refused by name, and reached by a migration.
    refused = runner.invoke(app, ["embed", "notes.jsonl", "--into", "notes", "--precision", "binary"])
    assert refused.exit_code == 1 and "recision is" in refused.output and "another space" in refused.output
    moved = runner.invoke(app, ["collections", "migrate", "notes", "--precision", "binary", "--threads", "1"])
    assert moved.exit_code == 0, moved.output
    shown = json.loads(runner.invoke(app, ["collections", "show", "notes", "--json"]).stdout)
    assert (shown["space"]["precision"], shown["documents"], shown["moving_to"]) == ("binary", 3, None)
    assert "notes" in runner.invoke(app, ["collections", "list"]).stdout
    assert runner.invoke(app, ["collections", "drop", "notes", "--yes"]).exit_code == 0
    assert runner.invoke(app, ["search", "notes", "x", "--mode", "words"]).exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["embed", "nowhere.jsonl", "--into", "x"], "There is no file or folder"),
        (["embed", "notes.xyz", "--into", "x"], "none of .jsonl"),
        (["embed", "notes.jsonl", "--into", "x", "--precision", "int4"], "--precision is int4"),
        (["embed", "notes.jsonl", "--into", "x", "--field", "year:date"], "NAME:KIND"),
        (["embed", "notes.jsonl", "--into", "x", "--jobs", "--transcripts"], "exclude each other"),
        (["search", "nothing", "x", "--mode", "words"], "There is no collection"),
        (["search", "../x", "x", "--mode", "words"], "no name for a collection"),
        (["search", "x", " "], "nothing is searched for"),
        (["collections", "migrate", "x"], "say what to"),
        (["collections", "show", "x"], "There is no collection"),
    ],
)
def test_wrong_arguments_say_what_is_wrong(here: Path, arguments: list[str], told: str) -> None:
    (here / "notes.xyz").write_text("x", "utf-8")
    result = runner.invoke(app, arguments)
    assert result.exit_code in (1, 2) and told in " ".join(result.output.split()), result.output


@pytest.mark.long
@pytest.mark.asyncio
async def test_documents_go_to_a_service(here: Path) -> None:
    async with served(here, api_keys=FIRST) as askers:
        url = askers(None)._client.make_url("/")
        arguments = ["embed", "notes.jsonl", "--into", "notes", "--url", str(url), "--key", FIRST, "--json"]
        for added, unchanged in ((3, 0), (0, 3)):
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "gateway.cli", *arguments, cwd=here,
                env=clean_environment(SPEECHLANE_BATCH_DIR=str(here / "batch")), stdout=-1, stderr=-1,
            )  # fmt: skip
            out, err = await process.communicate()
            assert process.returncode == 3, err.decode()
            counts = json.loads(out)
            assert (counts["added"], counts["unchanged"], counts["faulted"]) == (added, unchanged, 1)
        _, found = await askers(FIRST)("POST", "/v1/search", {"collection": "notes", "query": "storm", "limit": 1})
        assert found["data"][0]["document"] == "ship"
