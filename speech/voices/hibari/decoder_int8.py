"""The decoder in bytes, for processors with byte dot products: one graph, in which rows are computed together.

The range of what goes into each matrix is fixed, so quantising looks at one number at a time, and integer sums are
exact: a frame's spectra are bit for bit the same in any company.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from onnxruntime import InferenceSession
from torch import Tensor

from speech.voices.hibari.decoder import BLOCKS, RADIUS, DecoderCarry, Opened, inputs
from speech.voices.hibari.graphs import Graph
from speech.voices.hibari.layers_int8 import add_block
from speech.voices.hibari.plan import SegmentPlan
from speech.voices.hibari.weights import Weights

_LEAST = -0.17
"""Of a GELU."""
_SPANS = (
    *(((-6.6, 6.6), (_LEAST, 10.7)), ((-6.6, 6.6), (_LEAST, 8.6)), ((-7.0, 7.0), (_LEAST, 9.2))),
    *(((-6.6, 6.6), (_LEAST, 8.1)), ((-7.8, 7.8), (_LEAST, 9.9)), ((-9.4, 9.4), (_LEAST, 14.3))),
    *(((-9.4, 9.4), (_LEAST, 11.2)), ((-11.2, 11.2), (_LEAST, 29.1))),
)
_HEAD_SPAN = (-9.6, 9.6)
"""The least and the greatest that go into each block's two matrices and into the last one, over 70 texts in float32."""


class Int8Decoder(Opened):
    """As decoder.Decoder, on a CPU."""

    def __init__(self, weights: Weights) -> None:
        super().__init__(weights)
        self._session = _graph(weights)

    def run(
        self, plans: Sequence[SegmentPlan], carries: Sequence[DecoderCarry], firsts: Sequence[int], count: int
    ) -> tuple[Tensor, list[DecoderCarry]]:
        """See decoder.Decoder.run. Spectra of a row whose values are not numbers are not numbers either."""
        shift = 0 if carries[0].opening else RADIUS
        new = torch.stack([inputs(*row, count) for row in zip(plans, firsts, strict=True)])
        x = torch.cat((torch.stack([carry.entry for carry in carries]), new), 1)
        given = {"frames": x.numpy(), "layers": torch.stack([carry.layers for carry in carries]).numpy()}
        ends = np.array([[plan.frames - first + shift] for plan, first in zip(plans, firsts, strict=True)])
        length = x.shape[1] - 2 * RADIUS
        for layer in range(BLOCKS + 1):
            given[f"sounding{layer}"] = _sounding(length, ends + layer * shift)
            length -= RADIUS - shift
        spectra, kept, sums = self._session.run(None, given)
        spectra[~np.isfinite(sums)] = np.nan  # bytes know none
        entry, layers = x[:, -2 * RADIUS :], torch.from_numpy(kept)
        # Copies, so that a stream does not hold the memory of its batch.
        return torch.from_numpy(spectra), [
            DecoderCarry(a.clone(), b.clone()) for a, b in zip(entry, layers, strict=True)
        ]


def _sounding(length: int, ends: NDArray[np.int64]) -> NDArray[np.float32]:
    """[rows, 1, length, 1]: 1 for frames before each row's end, 0 behind it."""
    return (np.arange(length) < ends).astype(np.float32)[:, None, :, None]


def _graph(weights: Weights) -> InferenceSession:
    """Inputs: frames [rows, 6 + n, 130], layers [rows, 8, 6, 256], and for the entry and each block sounding; see run.
    Outputs: spectra [rows, n, 3005], layers to carry on, and a sum of each row that is finite if all of it is."""
    graph = Graph()
    kernel = weights["m.dec_in.weight"]  # [256, 130, 7]
    taps = kernel.shape[2]
    near = [graph.cut("frames", tap, tap - taps + 1 or None, 1) for tap in range(taps)]
    side_by_side = graph.one("Concat", *near, axis=2)
    x = graph.linear(side_by_side, kernel.transpose(1, 2).flatten(1), weights["m.dec_in.bias"])
    x = graph.one("Unsqueeze", x, graph.constant(np.array([1])))  # [rows, 1, n, 256]
    x = graph.one("Mul", x, "sounding0")
    before = graph.add("Split", "layers", outputs=BLOCKS, axis=1)
    kept = []
    for number, (carried, spans) in enumerate(zip(before, _SPANS, strict=True)):
        x = graph.one("Concat", carried, x, axis=2)
        kept.append(graph.cut(x, -2 * RADIUS, None, 2))
        x = graph.one("Mul", add_block(graph, x, weights, f"m.dec.{number}", 2, spans=spans), f"sounding{number + 1}")
    x = graph.one("Squeeze", x, graph.constant(np.array([1])))
    total = graph.one("ReduceSum", x, graph.constant(np.array([1, 2])), keepdims=0)
    x = graph.norm(x, weights["m.dec_norm.weight"], weights["m.dec_norm.bias"])
    spectra = graph.short(x, weights["m.head.weight"], weights["m.head.bias"], _HEAD_SPAN)
    sounding = {f"sounding{layer}": 4 for layer in range(BLOCKS + 1)}
    return graph.session(
        {"frames": 3, "layers": 4, **sounding},
        {"spectra": spectra, "kept": graph.one("Concat", *kept, axis=1), "sums": total},
    )
