"""What belongs to the process and not to the model: threads on one core's two halves, numbers near zero."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from load.factors.encoder_engines import Within, served
from load.factors.factor import Absent, Base, Factor
from load.factors.live import Engine


@contextmanager
def _two_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        yield
    finally:
        torch.set_num_threads(before)


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


def _two(base: Base) -> Engine:
    if len(os.sched_getaffinity(0)) < 2:
        raise Absent("there is one processor")
    return Within(served(base), _two_threads)


FACTORS = (
    Factor("two threads", "encoder", "a step on both halves of a core (processor time, not waiting)", _two),
    Factor("pinned", "encoder", "steps stay on one processor", lambda base: Within(served(base), _pinned)),
    Factor("denormals flushed", "encoder", "numbers near zero are zero", lambda base: Within(served(base), _flushed)),
)
