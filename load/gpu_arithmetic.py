"""What a GPU would change, by arithmetic alone: operations and bytes of live Whisper, and how many streams they allow.

Of each model: the encoder's operations for a second of audio, with the window of 30 seconds for every partial and final
(what other live servers do) and as it is done here (frozen padding in groups, partials that encode their new rows
alone); the decoder's bytes for a token; and the batch from which on a token step waits for arithmetic and no longer for
weights. Of each GPU, by its published peaks of which --arithmetic and --bandwidth are reached: the streams that talk
without a pause on --utilisation of it, and what launching kernels one by one leaves of them: attention is one call for
each stream and layer, as docs/whisper.md says. The same arithmetic for one core of a CPU (--core GFLOP/s, --memory
GB/s) stands beside what `load.factors` measures there.

    python -m load.gpu_arithmetic
    python -m load.gpu_arithmetic --core 70 --memory 10
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

from load import report
from speech.whisper.encoder import FRAMES, MARGIN, REDO

SECOND = 50
"""Rows of the encoder."""
UTTERANCE = 4.0
"""Seconds of an utterance, whose final is decoded once."""
GROUPED = 10
"""Frozen frames that are attended to as one key."""
STEPS, ROWS = 4.5, 16.0
"""Of the decoder for a second of a stream with a partial each second: the draft of some ten tokens is checked in one
step, the new ones are three or four more; a final adds two steps in four seconds."""
KERNELS_OF_A_STREAM, KERNELS_OF_A_STEP, LAUNCH = 8, 14, 5e-6
"""Launched for a stream in a layer, for all of them in a layer, and seconds of one."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a Whisper model."""

    name: str
    dim: int
    encoder: int
    decoder: int
    vocabulary: int
    mels: int = 80

    def encode(self, rows: float, keys: float) -> float:
        """Floating point operations for so many rows that attend over so many keys."""
        layers = self.encoder * rows * (24 * self.dim**2 + 4 * keys * self.dim)
        convolutions = 2 * rows * (2 * 3 * self.mels * self.dim + 3 * self.dim**2)
        return layers + convolutions

    @property
    def whole(self) -> float:
        """Operations for a second of a stream whose partials and finals take 30 seconds each."""
        return self.encode(FRAMES, FRAMES) * (1 + 1 / UTTERANCE)

    @property
    def here(self) -> float:
        """Operations for a second of a stream, as it is done here; in the middle of an utterance."""
        heard = UTTERANCE / 2 * SECOND
        partial = self.encode(REDO + SECOND + MARGIN, heard + (FRAMES - heard) / GROUPED)
        rows = UTTERANCE * SECOND + MARGIN
        final = self.encode(rows, rows + (FRAMES - rows) / GROUPED)
        return partial + final / UTTERANCE

    @property
    def weights(self) -> float:
        """Numbers that a token step reads, whoever is in it: of layers and of the vocabulary."""
        return 14 * self.dim**2 * self.decoder + self.dim * self.vocabulary

    @property
    def cross(self) -> float:
        """Numbers that a token step reads for each stream: keys and values of 1,500 positions."""
        return 2.0 * FRAMES * self.dim * self.decoder

    def token(self) -> float:
        """Operations for a token."""
        return 2 * self.weights + 2 * self.cross


SHAPES = (
    Shape("tiny.en", 384, 4, 4, 51_864),
    Shape("base", 512, 6, 6, 51_865),
    Shape("small", 768, 12, 12, 51_865),
    Shape("large-v3-turbo", 1280, 32, 4, 51_866, 128),
)


@dataclass(frozen=True, slots=True)
class Machine:
    """Published peaks: operations a second, bytes a second; `size`: bytes of a number there."""

    name: str
    operations: float
    bytes: float
    size: int = 2

    def balance(self) -> float:
        """Tokens in a step from which on arithmetic is what it waits for, were there weights alone."""
        return self.operations / self.bytes * self.size / 2

    def seconds(self, shape: Shape, streams: float, arithmetic: float, bandwidth: float) -> float:
        """That it works for a second of so many streams whose steps all go together, at these shares of the peaks."""
        encoding = streams * shape.here / (self.operations * arithmetic)
        tokens = streams * ROWS * shape.token() / (self.operations * arithmetic)
        read = (STEPS * shape.weights + streams * STEPS * shape.cross) * self.size / (self.bytes * bandwidth)
        return encoding + max(tokens, read)

    def streams(self, shape: Shape, arithmetic: float, bandwidth: float, utilisation: float) -> int:
        """That fit, by arithmetic and bytes."""
        none = self.seconds(shape, 0, arithmetic, bandwidth)
        one = self.seconds(shape, 1000, arithmetic, bandwidth) - none
        return max(0, int((utilisation - none) / (one / 1000)))


GPUS = (Machine("L4", 121e12, 300e9), Machine("A100 80 GB", 312e12, 2039e9), Machine("H100 SXM", 989e12, 3350e9))
"""16-bit products without sparsity."""


def launched(shape: Shape, utilisation: float) -> int:
    """Streams whose kernels can be launched one by one, with a step of the decoder for all of them at once."""
    layers = STEPS * shape.decoder + (1 + 1 / UTTERANCE) * shape.encoder
    of_a_stream, shared = layers * KERNELS_OF_A_STREAM, layers * KERNELS_OF_A_STEP
    return max(0, int((utilisation / LAUNCH - shared) / of_a_stream))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--arithmetic", type=float, default=0.35, help="share of peak operations (default %(default)s)")
    parser.add_argument("--bandwidth", type=float, default=0.7, help="share of peak bytes (default %(default)s)")
    parser.add_argument("--utilisation", type=float, default=0.85, help="of the GPU (default %(default)s)")
    parser.add_argument("--core", type=float, default=70.0, help="GFLOP/s of a core (default %(default)g)")
    parser.add_argument("--memory", type=float, default=10.0, help="GB/s of a core (default %(default)g)")
    asked = parser.parse_args()
    out = report.console()
    sizes = [
        (one.name, f"{one.whole / 1e9:.0f}", f"{one.here / 1e9:.1f}", f"{one.whole / one.here:.0f}",
         f"{2 * one.weights / 1e6:.0f}", f"{2 * one.cross / 1e6:.1f}")
        for one in SHAPES
    ]  # fmt: skip
    head = ("model", "GFLOP a second, whole windows", "here", "times less", "MB a step (16 bit)", "and for each stream")
    out.print(report.table("Operations and bytes", head, sizes))
    core = Machine("a core", asked.core * 1e9, asked.memory * 1e9, 4)
    seconds = [
        (one.name, f"{one.here / core.operations:.3f}",
         f"{ROWS * one.token() / core.operations:.3f}", f"{STEPS * 4 * (one.weights + one.cross) / core.bytes:.3f}")
        for one in SHAPES
    ]  # fmt: skip
    parts = ("model", "encoding", "tokens by arithmetic", "tokens by bytes")
    out.print(report.table("Seconds of one core for a second of one stream, float32", parts, seconds))
    share = asked.arithmetic, asked.bandwidth, asked.utilisation
    carried = [
        (one.name, *(str(gpu.streams(one, *share)) for gpu in GPUS), str(launched(one, asked.utilisation)))
        for one in SHAPES
    ]
    out.print(
        report.table("Streams that talk without a pause", ("model", *(g.name for g in GPUS), "launches"), carried)
    )
    balance = ", ".join(f"{gpu.name} {gpu.balance():.0f}" for gpu in GPUS)
    out.print(f"tokens in a step at which it waits for arithmetic and no longer for weights: {balance}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
