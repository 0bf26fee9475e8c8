"""The layers in bytes, as parts of graphs, and those of the plan ready to run: see layers.py for what they compute."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from onnxruntime import InferenceSession
from torch import Tensor
from torch.nn import functional

from speech.voices.hibari.graphs import Graph, Span
from speech.voices.hibari.layers import HEADS
from speech.voices.hibari.weights import Weights


def add_block(
    graph: Graph,
    x: str,
    weights: Weights,
    name: str,
    axis: int,
    dilation: int = 1,
    spans: tuple[Span, Span] | None = None,
) -> str:
    """layers.Block, with frames on `axis` and channels on the last; `spans` of what goes into its two matrices."""
    kernel, gamma = weights[f"{name}.dw.weight"][:, 0], weights[f"{name}.gamma"]
    reach = dilation * (kernel.shape[1] - 1)
    y = graph.constant(weights[f"{name}.dw.bias"])
    for tap, weight in enumerate(kernel.t()):
        near = graph.cut(x, tap * dilation, tap * dilation - reach or None, axis)
        y = graph.one("Add", y, graph.one("Mul", near, graph.constant(weight)))
    y = graph.norm(y, weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"])
    up, down = spans or (None, None)
    y = graph.gelu(graph.short(y, weights[f"{name}.pw1.weight"], weights[f"{name}.pw1.bias"], up))
    # The layer's scale is folded into its last matrix.
    matrix, bias = weights[f"{name}.pw2.weight"] * gamma[:, None], weights[f"{name}.pw2.bias"] * gamma
    return graph.one("Add", graph.cut(x, reach // 2, -(reach // 2), axis), graph.short(y, matrix, bias, down))


class Layer:
    """A layer of whole sequences, [frames, channels] to [frames, channels]."""

    def __init__(self, build: Callable[[Graph, str], str]) -> None:
        graph = Graph()
        self._session: InferenceSession = graph.session({"x": 2}, {"y": build(graph, "x")})

    def __call__(self, x: Tensor) -> Tensor:
        return torch.from_numpy(self._session.run(None, {"x": x.numpy()})[0])


class Int8Block:
    """layers.Block for whole sequences."""

    def __init__(self, weights: Weights, name: str, dilation: int = 1) -> None:
        kernel = weights[f"{name}.dw.weight"]
        radius = dilation * (kernel.shape[2] // 2)

        def build(graph: Graph, x: str) -> str:
            around = graph.one("Pad", x, graph.constant(np.array([radius, 0, radius, 0])))
            return add_block(graph, around, weights, name, 0, dilation)

        self.whole = Layer(build)
        self.cost = 2 * weights[f"{name}.pw2.weight"].numel() / 1e6
        """Millions of multiplications per frame."""


class Int8TextEncoder:
    """layers.TextEncoder."""

    def __init__(self, weights: Weights, name: str, loops: int) -> None:
        self._embedding = weights[f"{name}.emb.weight"]
        self.dim = self._embedding.shape[1]
        attend = Layer(lambda graph, x: _attention(graph, x, weights, f"{name}.attn", self.dim))
        ending = weights[f"{name}.norm.weight"], weights[f"{name}.norm.bias"]
        self.layers: list[Callable[[Tensor], Tensor]] = [
            *(Int8Block(weights, f"{name}.convs.{number}").whole for number in range(2)),
            *[attend] * loops,
            Layer(lambda graph, x: graph.norm(x, *ending)),
        ]
        """What the input goes through in order, each [n, dim] to [n, dim]."""

    def begin(self, ids: Tensor) -> Tensor:
        """Symbols [n] to the input of the first layer [n, dim]."""
        return functional.embedding(ids, self._embedding)


def _attention(graph: Graph, x: str, weights: Weights, name: str, dim: int) -> str:
    def normed(x: str, part: str) -> str:
        return graph.norm(x, weights[f"{name}.{part}.weight"], weights[f"{name}.{part}.bias"])

    def linear(x: str, part: str, joint: str = ".") -> str:
        return graph.short(x, weights[f"{name}.{part}{joint}weight"], weights[f"{name}.{part}{joint}bias"])

    joined = linear(normed(x, "norm1"), "self_attn.in_proj", "_")
    apart = graph.one("Reshape", joined, graph.constant(np.array([0, 3 * HEADS, dim // HEADS])))
    q, k, v = graph.add("Split", graph.one("Transpose", apart, perm=[1, 0, 2]), outputs=3, axis=0)  # [heads, n, width]
    alike = graph.one("MatMul", q, graph.one("Transpose", k, perm=[0, 2, 1]))
    scaled = graph.one("Mul", alike, graph.constant(np.float32((dim // HEADS) ** -0.5)))
    mixed = graph.one("MatMul", graph.one("Softmax", scaled, axis=-1), v)
    flat = graph.one("Reshape", graph.one("Transpose", mixed, perm=[1, 0, 2]), graph.constant(np.array([0, dim])))
    x = graph.one("Add", x, linear(flat, "self_attn.out_proj"))
    return graph.one("Add", x, linear(graph.gelu(linear(normed(x, "norm2"), "linear1")), "linear2"))
