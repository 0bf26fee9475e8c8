"""From a voice's sample rate to the one asked for. The same samples come out however the input was cut."""

from __future__ import annotations

import numpy as np
import soxr

from speech.tts import Sound


class RateChange:
    """Mono float32 at `source` Hz to `target` Hz by soxr; the same rate passes unchanged.

    Up to 80 ms are held back for the filter. All that was taken comes out by `flush`: received * target / source
    samples, rounded.
    """

    def __init__(self, source: int, target: int) -> None:
        self._stream = None if source == target else soxr.ResampleStream(source, target, 1, dtype="float32")

    def feed(self, samples: Sound) -> Sound:
        """What of the output is complete, maybe nothing."""
        return self._change(samples, last=False)

    def flush(self) -> Sound:
        """The rest of the output."""
        return self._change(np.zeros(0, np.float32), last=True)

    def _change(self, samples: Sound, *, last: bool) -> Sound:
        if self._stream is None:
            return samples
        changed: Sound = self._stream.resample_chunk(np.ascontiguousarray(samples), last=last)
        return changed
