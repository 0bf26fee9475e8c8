"""Small graphs for ONNX Runtime, put together when a model is loaded.

What it does at once takes torch a dozen calls (quantising, an integer product and its scales, a GELU), and between
calls a thread waits for its turn among Python's threads. Everything here has an exact or a row's own arithmetic, so
what is computed for a row does not depend on the rows beside it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from torch import Tensor

Span = tuple[float, float]
_END = 1 << 60
_FUSED = "com.microsoft"
_VERSIONS = {"": 17, _FUSED: 1}
_EPSILON = 1e-5


class Graph:
    """Takes operations in their order; a value is known by its name."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._stored: list[Any] = []

    def constant(self, values: Tensor | NDArray[Any] | np.generic) -> str:
        """Values that are part of the graph."""
        name = f"constant{len(self._stored)}"
        made = values.numpy() if isinstance(values, Tensor) else np.asarray(values)
        self._stored.append(numpy_helper.from_array(np.array(made, order="C"), name))
        return name

    def add(self, kind: str, *inputs: str, outputs: int = 1, fused: bool = False, **attributes: Any) -> list[str]:
        """An operation, and the names of its results."""
        names = [f"value{len(self._nodes)}_{n}" for n in range(outputs)]
        domain = _FUSED if fused else ""
        self._nodes.append(helper.make_node(kind, list(inputs), names, domain=domain, **attributes))
        return names

    def one(self, kind: str, *inputs: str, **attributes: Any) -> str:
        """An operation with one result."""
        return self.add(kind, *inputs, **attributes)[0]

    def cut(self, x: str, start: int, stop: int | None, axis: int) -> str:
        """x[start:stop] along an axis."""
        ends = (start, _END if stop is None else stop, axis)
        return self.one("Slice", x, *(self.constant(np.array([end], np.int64)) for end in ends))

    def norm(self, x: str, weight: Tensor, bias: Tensor) -> str:
        """Layer normalisation over the last axis."""
        return self.one("LayerNormalization", x, self.constant(weight), self.constant(bias), axis=-1, epsilon=_EPSILON)

    def linear(self, x: str, weight: Tensor, bias: Tensor) -> str:
        """x Wᵀ + b in float32, W as [out, in]."""
        return self.one("Add", self.one("MatMul", x, self.constant(weight.t())), self.constant(bias))

    def short(self, x: str, weight: Tensor, bias: Tensor, span: Span | None = None) -> str:
        """The same in bytes: weights with a scale for each output, inputs in 255 steps between the ends of `span` (what
        lies outside becomes the end), or between the least and the greatest of all inputs."""
        if span is None:
            x, step, zero = self.add("DynamicQuantizeLinear", x, outputs=3)
        else:
            scale = np.float32((span[1] - span[0]) / 255)
            step, zero = self.constant(scale), self.constant(np.uint8(round(-span[0] / float(scale))))
            x = self.one("QuantizeLinear", x, step, zero)
        scales = weight.abs().amax(1).clamp_min(1e-8) / 127
        whole = (weight / scales[:, None]).round().numpy().astype(np.int8)
        zeros = self.constant(np.zeros(len(whole), np.int8))
        inputs = (x, self.constant(whole.T), step, self.constant(scales), zero, zeros, self.constant(bias))
        return self.one("MatMulIntegerToFloat", *inputs, fused=True)

    def gelu(self, x: str) -> str:
        """The exact GELU."""
        return self.one("Gelu", x, fused=True)

    def session(self, inputs: dict[str, int], outputs: dict[str, str]) -> onnxruntime.InferenceSession:
        """Ready to run in one thread. `inputs`: name to number of axes, of any length; `outputs`: name to value."""
        for name, value in outputs.items():
            self._nodes.append(helper.make_node("Identity", [value], [name]))
        given = [
            helper.make_tensor_value_info(name, TensorProto.FLOAT, [f"{name}{axis}" for axis in range(axes)])
            for name, axes in inputs.items()
        ]
        made = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in outputs]
        model = helper.make_model(
            helper.make_graph(self._nodes, "graph", given, made, self._stored),
            opset_imports=[helper.make_opsetid(domain, version) for domain, version in _VERSIONS.items()],
            ir_version=8,
        )
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
