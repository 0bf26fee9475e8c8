"""One stream's ear: whole windows of its samples through voice activity, with all that is carried between calls."""

from __future__ import annotations

import asyncio
import logging

import numpy as np
from numpy.typing import NDArray

from speech.asr import Samples
from speech.vad import WINDOW, WINDOW_SECONDS, Gain, VadRequest, VadResult, VadState
from workers.clock import Clock
from workers.errors import Overloaded
from workers.pool import Pool
from workers.task import Lane, Work

log = logging.getLogger(__name__)

_SPEED = 50
"""Times real time that voice activity is given for a long piece of audio."""


class Hearing:
    """Samples in, windows with their probabilities out. `tail` are the samples short of a window (under 512)."""

    def __init__(self, vad: Pool, clock: Clock, lane: Lane, within: float) -> None:
        """`within`: seconds in which a short piece should have been heard."""
        self.tail: Samples = np.zeros(0, np.float32)
        self.device_seconds = 0.0
        """Seconds that the device of voice activity was stepping for the newest audio."""
        self.newest: Work | None = None
        """What was done for it."""
        self._vad, self._clock, self._lane, self._within = vad, clock, lane, within
        self._state = VadState.fresh(Gain())

    @property
    def state(self) -> VadState:
        """What voice activity carries behind the newest whole window."""
        return self._state

    def go_on(self, state: VadState, tail: Samples) -> None:
        """Hear from here on as another did that had come so far."""
        self._state, self.tail = state, tail

    async def hear(self, samples: Samples) -> tuple[Samples, NDArray[np.float32]]:
        """(samples of whole windows, the probability of each). Raises ServingError."""
        audio = np.concatenate([self.tail, samples])
        whole = len(audio) // WINDOW * WINDOW
        probabilities = np.zeros(0, np.float32)
        if whole:
            windows = audio[:whole].reshape(-1, WINDOW)
            result = await self._ask(VadRequest(self._state, windows))
            self._state, probabilities = result.state, result.probabilities
        self.tail = audio[whole:].copy()
        return audio[:whole], probabilities

    async def _ask(self, request: VadRequest) -> VadResult:
        seconds = len(request.windows) * WINDOW_SECONDS
        while True:
            try:
                deadline = self._clock() + self._within + seconds / _SPEED
                handle = self._vad.submit(request, lane=self._lane, deadline=deadline)
                answer: VadResult = await handle.result()
            except Overloaded as full:
                log.warning("voice activity waits for room: %s", full.message)
                await asyncio.sleep(min(full.retry_after, 1.0))
            else:
                self.device_seconds = handle.timing.device_seconds
                self.newest = Work("vad", handle.timing)
                return answer
