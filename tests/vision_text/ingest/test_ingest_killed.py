"""An ingest that is killed, in processes of its own: every document is stored once, none is missing."""

from __future__ import annotations

from pathlib import Path

import pytest

from load.embed_resume import Trial, run


@pytest.mark.timeout(240)
def test_every_document_once_however_often_it_is_killed(tmp_path: Path) -> None:
    assert run(Trial(tmp_path, 400, workers=False), 3, workers=False) == []


@pytest.mark.timeout(120)
def test_ctrl_c_stores_what_is_done_and_says_how_to_go_on(tmp_path: Path) -> None:
    trial = Trial(tmp_path, 400, workers=False)
    process = trial.ingest()
    while process.poll() is None and trial.stored() == 0:
        pass
    process.send_signal(2)
    assert process.wait(60) == 130
    assert "goes on where it was" in (tmp_path / "log.txt").read_text("utf-8")
    before = trial.stored()
    assert 0 < before < 400
    last = trial.ingest()
    assert last.wait(100) == 3
    assert trial.verdict() == []
