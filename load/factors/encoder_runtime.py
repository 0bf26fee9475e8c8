"""Other runtimes for what the encoder computes row by row: norms, dense layers, GELU. Attention stays torch's."""

from __future__ import annotations

import shutil
from collections.abc import Callable

import numpy as np
import torch
from onnxruntime import InferenceSession
from torch import Tensor

from load.factors.encoder_engines import with_encoder
from load.factors.factor import Absent, Base, Factor
from load.factors.live import Engine
from speech.voices.hibari.graphs import Graph
from speech.whisper.encoder import Encoder
from speech.whisper.weights import Checkpoint

_LEVELS = 63
"""Steps of a weight on each side of zero. More, and pairs of products overflow where AVX2 adds them in 16 bits."""

Linear = Callable[[Graph, str, Tensor, Tensor], str]


def plain(graph: Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    return graph.linear(x, weight, bias)


def in_bytes(graph: Graph, x: str, weight: Tensor, bias: Tensor) -> str:
    """Weights with a scale for each output, inputs with one for each row: no row hangs on the others."""
    most = graph.one("ReduceMax", graph.one("Abs", x), axes=[1], keepdims=1)
    step = graph.one("Mul", most, graph.constant(np.float32(1 / 127)))
    step = graph.one("Max", step, graph.constant(np.float32(1e-9)))
    one, zero = graph.constant(np.float32(1)), graph.constant(np.uint8(128))
    rows = graph.one("QuantizeLinear", graph.one("Div", x, step), one, zero)
    scales = weight.abs().amax(1).clamp_min(1e-8) / _LEVELS
    whole = (weight / scales[:, None]).round().numpy().astype(np.int8)
    zeros = graph.constant(np.zeros(len(whole), np.int8))
    inputs = rows, graph.constant(whole.T), one, graph.constant(scales), zero, zeros
    return graph.one("Add", graph.one("Mul", graph.one("MatMulIntegerToFloat", *inputs, fused=True), step),
                     graph.constant(bias))  # fmt: skip


class InGraphs(Encoder):
    """Two graphs of ONNX Runtime a layer: before its attention, and behind it."""

    linear: Linear = staticmethod(plain)

    def __init__(self, weights: Checkpoint, precision: str, device: str, probes: int = 0) -> None:
        super().__init__(weights, precision, device, probes)
        self._before = [self._graph(weights, i, behind=False) for i in range(self.layers)]
        self._behind_it = [self._graph(weights, i, behind=True) for i in range(self.layers)]

    def _graph(self, weights: Checkpoint, i: int, behind: bool) -> InferenceSession:
        graph, linear = Graph(), type(self).linear

        def of(name: str, a: str, b: str) -> tuple[Tensor, Tensor]:
            prefix = f"encoder/layer_{i}/{name}/"
            return weights.tensors[prefix + a], weights.tensors[prefix + b]

        def norm(x: str, name: str) -> str:
            return graph.norm(x, *of(name, "gamma", "beta"))

        def dense(x: str, name: str) -> str:
            return linear(graph, x, *of(name, "weight", "bias"))

        if not behind:
            y = dense(norm("x", "self_attention/layer_norm"), "self_attention/linear_0")
            return graph.session({"x": 2}, {"y": y})
        x = graph.one("Add", "x", dense("mixed", "self_attention/linear_1"))
        h = graph.gelu(dense(norm(x, "ffn/layer_norm"), "ffn/linear_0"))
        return graph.session({"x": 2, "mixed": 2}, {"y": graph.one("Add", x, dense(h, "ffn/linear_1"))})

    def _qkv(self, i: int, x: Tensor) -> Tensor:
        return torch.from_numpy(self._before[i].run(None, {"x": x.contiguous().numpy()})[0])

    def _rest(self, i: int, x: Tensor, mixed: Tensor) -> Tensor:
        rows = {"x": x.contiguous().numpy(), "mixed": mixed.contiguous().numpy()}
        return torch.from_numpy(self._behind_it[i].run(None, rows)[0])


class InGraphsOfBytes(InGraphs):
    linear: Linear = staticmethod(in_bytes)


class Compiled(Encoder):
    """Norms, GELU and sums fused by inductor; it takes up to a minute to begin."""

    def __init__(self, weights: Checkpoint, precision: str, device: str, probes: int = 0) -> None:
        super().__init__(weights, precision, device, probes)
        self._qkv = torch.compile(self._qkv, dynamic=True)  # type: ignore[method-assign]
        self._rest = torch.compile(self._rest, dynamic=True)  # type: ignore[method-assign]


def _float32(kind: type[Encoder]) -> Callable[[Base], Engine]:
    """Of float32 alone: `kind` gives nothing shorter."""
    return lambda base: with_encoder(base, kind, "float32")


def _compiled(base: Base) -> Engine:
    if not shutil.which("g++"):
        raise Absent("inductor needs a C++ compiler")
    return with_encoder(base, Compiled)


FACTORS = (
    Factor("graphs in float32", "encoder", "ONNX Runtime for the dense layers", _float32(InGraphs)),
    Factor("graphs in bytes", "encoder", "the same in int8, a scale for each row", _float32(InGraphsOfBytes)),
    Factor("compiled", "encoder", "torch.compile of all that goes row by row", _compiled),
)
