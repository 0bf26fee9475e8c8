"""A process does not keep what it needed for utterances of lengths that have passed."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from speech.engine import _SHAPES_KEPT

_HEAR = """
import asyncio, ctypes
import numpy as np
from speech.asr import DecodeOptions, FinalRequest
from speech.engine import Engine, EngineSettings
from workers.clock import monotonic
from workers.task import Lane

class Heap(ctypes.Structure):
    _fields_ = [(name, ctypes.c_size_t) for name in (
        "arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks", "keepcost")]

mallinfo = ctypes.CDLL(None).mallinfo2
mallinfo.restype = Heap

async def main():
    engine = await Engine.start(EngineSettings(threads=1, voices=()))
    options = DecodeOptions(language="en", temperatures=(0.0,))
    async def hear(samples):
        noise = np.random.default_rng(samples).standard_normal(samples).astype(np.float32) * 0.001
        await engine.asr(None).submit(FinalRequest(noise, options), lane=Lane.BULK, deadline=monotonic() + 60).result()
    def used():
        heap = mallinfo()
        return heap.uordblks + heap.hblkhd
    for n in range(20):
        await hear(32_000 + 320 * n)
    before = used()
    for n in range(20, 100):
        await hear(32_000 + 320 * n)
    print((used() - before) >> 20)
    await engine.close()

asyncio.run(main())
"""


@pytest.mark.long
@pytest.mark.skipif(sys.platform != "linux", reason="asks glibc what is in use")
def test_utterances_of_many_lengths_leave_nothing_behind() -> None:
    environment = {name: value for name, value in os.environ.items() if name not in _SHAPES_KEPT}
    heard = subprocess.run([sys.executable, "-c", _HEAR], env=environment, capture_output=True, text=True, timeout=100)
    assert heard.returncode == 0, heard.stderr
    assert int(heard.stdout) < 40  # MiB, where it was 266
