"""What belongs to the process and not to the model: the processor it runs on, numbers near zero."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from load.factors.encoder_engines import Within, served
from load.factors.factor import Factor


@contextmanager
def _flushed() -> Iterator[None]:
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


@contextmanager
def _pinned() -> Iterator[None]:
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


FACTORS = (
    Factor("pinned", "encoder", "steps stay on one processor", lambda base: Within(served(base), _pinned)),
    Factor("denormals flushed", "encoder", "numbers near zero are zero", lambda base: Within(served(base), _flushed)),
)
