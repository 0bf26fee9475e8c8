"""An ingest that is interrupted and killed, in processes of its own: every document once, none missing."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest

from load.embed_resume import Trial, run


@pytest.mark.long
@pytest.mark.timeout(300)
def test_every_document_once_whatever_ends_it(tmp_path: Path) -> None:
    trial = Trial(tmp_path, 400, workers=False)
    process = trial.ingest()
    while process.poll() is None and trial.stored() == 0:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert "goes on where it was" in (tmp_path / "log.txt").read_text("utf-8")
    assert 0 < trial.stored() < 400
    assert run(trial, 1, workers=False) == []
