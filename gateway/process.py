"""What the interpreter and the system are set to, so that thousands of sockets are served without long pauses."""

from __future__ import annotations

import asyncio
import gc
import logging
import resource
import sys
from typing import Protocol

log = logging.getLogger("speechlane")

SWITCH_SECONDS = 0.001
"""After so long a thread of a device gives the interpreter up when the event loop wants it. By default it is 5 ms, and
the loop comes to wait for it many times in the handling of one frame."""
YOUNG, MIDDLE, OLD = 1_000, 5, 200
"""Objects until the young ones are looked at for garbage, times that until the middle ones are, and times that until
all are: some milliseconds, some more, and half a second where thousands of sessions are live. So the last is kept for
what nobody foresaw; `sweep` knows when it is worth it."""
LOOK_SECONDS = 5.0
LEFT = 250
"""Sessions that have ended and are garbage, each in a ring of some 150 objects and 50 KiB."""


class Sessions(Protocol):
    """Of the service."""

    @property
    def sessions(self) -> int:
        """Live now."""

    @property
    def ended(self) -> int:
        """From the start."""


def prepare() -> None:
    """Before anything is loaded."""
    sys.setswitchinterval(SWITCH_SECONDS)
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        # Many systems begin with 1,024, which a few hundred sessions and their files take up.
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except (OSError, ValueError) as error:  # a system that has no such number of them
        log.debug("at most %d files may be open: %s", soft, error)


def settle() -> None:
    """Once everything is loaded: what is there now stays, so that no collection of garbage has to look at it.

    Models and libraries are most of a million objects. To go through them takes half a second, in which nobody is
    answered.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(YOUNG, MIDDLE, OLD)


async def sweep(sessions: Sessions) -> None:
    """Collect what sessions have left, once that is half as much as those that are live, or more; until cancelled."""
    swept = sessions.ended
    while True:
        await asyncio.sleep(LOOK_SECONDS)
        if sessions.ended - swept >= max(LEFT, sessions.sessions // 2):
            swept = sessions.ended
            gc.collect()
