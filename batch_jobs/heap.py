"""What the C library keeps of freed memory."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import cache


def give_back() -> None:
    """Return the free pages of all heaps to the system; up to some tens of milliseconds, others run meanwhile.

    The buffers of pieces (a few MiB each, of many sizes, held by several at once) leave holes between what stays, and
    glibc by itself only returns what is free at a heap's end. A worker would grow for hours with what nobody uses.
    Other C libraries have nothing of the kind, and need it less.
    """
    trim = _trim()
    if trim is not None:
        trim(0)


@cache
def _trim() -> Callable[[int], int] | None:
    return getattr(ctypes.CDLL(None), "malloc_trim", None) if sys.platform == "linux" else None
