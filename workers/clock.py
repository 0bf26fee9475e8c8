"""The loop's clock, injected so that schedulers can be tested on virtual time."""

from __future__ import annotations

import time
from collections.abc import Callable

Clock = Callable[[], float]
"""Seconds since an arbitrary fixed moment, never going back."""

monotonic: Clock = time.monotonic
