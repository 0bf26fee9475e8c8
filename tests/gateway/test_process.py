"""What a process is set to before it serves, in a process of its own; and when garbage is collected."""

from __future__ import annotations

import asyncio
import gc
import subprocess
import sys
from dataclasses import dataclass

import pytest

from gateway import process
from tests.conftest import ROOT

LOOK = """
import gc, resource, sys
from gateway import process
resource.setrlimit(resource.RLIMIT_NOFILE, (256, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
process.prepare()
process.settle()
soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
print(soft == hard, sys.getswitchinterval() < 0.005, gc.get_freeze_count() > 1000, gc.isenabled())
"""


def test_as_many_files_as_may_be_and_no_collection_of_what_stays() -> None:
    found = subprocess.run([sys.executable, "-c", LOOK], cwd=ROOT, capture_output=True, text=True, check=True)
    assert found.stdout.split() == ["True"] * 4


@dataclass
class Sessions:
    sessions: int = 0
    ended: int = 0


async def test_garbage_is_collected_once_it_is_worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(process, "LOOK_SECONDS", 0.001)
    collected: list[int] = []
    monkeypatch.setattr(gc, "collect", lambda: collected.append(here.ended))
    here = Sessions(sessions=2000)
    sweeping = asyncio.create_task(process.sweep(here))
    await asyncio.sleep(0.03)
    for here.ended in (100, 999, 1000, 1500, 2000):
        await asyncio.sleep(0.03)
    here.sessions = 0
    for here.ended in (2100, 2000 + process.LEFT):
        await asyncio.sleep(0.03)
    sweeping.cancel()
    assert collected == [1000, 2000, 2000 + process.LEFT]
