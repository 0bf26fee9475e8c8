"""Reads hibari's weights out of its ONNX graph and undoes their quantisation."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import onnx
import torch
from onnx import numpy_helper
from torch import Tensor

# How the exporter named what multiplies by a weight: the graph keeps the biases' names but not the matrices'.
_MATRICES = (
    (r"/convs\.(\d)/(pw\d)/Transpose_output_0", r"m.text.convs.\1.\2.weight"),
    (r"/convs\.(\d)/(pw\d)_1/Transpose_output_0", r"pn.text.convs.\1.\2.weight"),
    (r"/Transpose_2_output_0", r"m.text.attn.self_attn.in_proj_weight"),
    (r"/Transpose_25_output_0", r"pn.text.attn.self_attn.in_proj_weight"),
    (r"/out_proj/Transpose_output_0", r"m.text.attn.self_attn.out_proj.weight"),
    (r"/out_proj_4/Transpose_output_0", r"pn.text.attn.self_attn.out_proj.weight"),
    (r"/(linear\d)/Transpose_output_0", r"m.text.attn.\1.weight"),
    (r"/(linear\d)_4/Transpose_output_0", r"pn.text.attn.\1.weight"),
    (r"/pro\.(\d)/(pw\d)/Transpose_output_0", r"pn.pro.\1.\2.weight"),
    (r"/dec\.(\d)/(pw\d)/Transpose_output_0", r"m.dec.\1.\2.weight"),
    (r"/head/Transpose_output_0", r"m.head.weight"),
)
_QUANTISED = "_quantized"

Weights = dict[str, Tensor]
"""Every parameter in float32 by its name in the model; matrices as [out, in]."""


class UnknownGraph(ValueError):
    """The file is not the graph whose parts are known here."""


def read_weights(path: Path) -> Weights:
    """The parameters of the graph in `path`, quantised ones as (integer - zero point) * scale.

    Raises UnknownGraph when it has other names than the known one.
    """
    graph = onnx.load(path).graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    weights: Weights = {}
    for name, values in stored.items():
        if name.endswith(_QUANTISED):
            base = name.removesuffix(_QUANTISED)
            scale, zero = stored[f"{base}_scale"], stored[f"{base}_zero_point"]
            matrix = (values.astype(np.float32) - zero.astype(np.float32)) * scale
            weights[_matrix_name(base)] = torch.from_numpy(np.ascontiguousarray(matrix.T, np.float32))
        elif name.startswith(("m.", "pn.")):
            weights[name] = torch.from_numpy(np.array(values, np.float32))
    return weights


def _matrix_name(base: str) -> str:
    for pattern, name in _MATRICES:
        if re.fullmatch(pattern, base):
            return re.sub(pattern, name, base)
    raise UnknownGraph(f"no part of the model is known to use the weight {base}")
