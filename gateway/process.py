"""What the interpreter and the system are set to, so that thousands of sockets are served without long pauses."""

from __future__ import annotations

import gc
import logging
import resource
import sys

log = logging.getLogger("speechlane")

SWITCH_SECONDS = 0.001
"""After so long a thread of a device gives the interpreter up when the event loop wants it. By default it is 5 ms, and
the loop comes to wait for it many times in the handling of one frame."""
GARBAGE = (5_000, 10, 3)
"""Objects between two collections of the young ones, and how many of those until older and all ones are looked at. A
session that has ended is garbage in a ring; some thousand of them are kept at most."""


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
    gc.set_threshold(*GARBAGE)
    gc.collect()  # counts what it is to look at anew
