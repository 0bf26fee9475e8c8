"""An encoder exported to ONNX, by ONNX Runtime, in one step: texts of one length together."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vision_text.embeddings.layout import Layout
from vision_text.embeddings.packed import Spans
from vision_text.embeddings.tokens import Ids
from vision_text.models import ModelUnusable

_PLACES = ("onnx/model.onnx", "model.onnx")


class OnnxEncoder:
    """The same as `WholeEncoder`, of the file that sentence-transformers' models bring as onnx/model.onnx."""

    layers = 1

    def __init__(self, layout: Layout, device: str) -> None:
        import onnxruntime

        path = _found(layout.transformer)
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = torch.get_num_threads()
        wanted = ["CUDAExecutionProvider"] if device.startswith("cuda") else []
        known = onnxruntime.get_available_providers()
        providers = [name for name in wanted if name in known] + ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(path, options, providers=providers)
        self._inputs = {found.name for found in self._session.get_inputs()}
        if unknown := self._inputs - {"input_ids", "attention_mask", "token_type_ids"}:
            raise ModelUnusable(f"{path} wants {', '.join(sorted(unknown))}, which a text does not have")
        self.width: int = layout.config["hidden_size"]
        self.vocabulary: int = layout.config["vocab_size"]
        self.most_tokens: int = layout.most_tokens or 512

    def begin(self, texts: Sequence[Ids]) -> tuple[Tensor, Spans]:
        """The tokens, end to end."""
        return torch.from_numpy(np.concatenate(texts)), Spans([len(ids) for ids in texts])

    def run(self, x: Tensor, spans: Spans, first: int, count: int) -> Tensor:
        """All of it."""
        made = []
        for row, texts, length in spans.groups:
            ids = x[row : row + texts * length].view(texts, length).numpy()
            given = {"input_ids": ids, "attention_mask": np.ones_like(ids), "token_type_ids": np.zeros_like(ids)}
            found = self._session.run(None, {name: given[name] for name in self._inputs})[0]
            made.append(torch.from_numpy(np.asarray(found, np.float32)).reshape(texts * length, -1))
        return torch.cat(made)


def _found(directory: Path) -> Path:
    path = next((directory / place for place in _PLACES if (directory / place).is_file()), None)
    if path is None:
        raise ModelUnusable(f"{directory} has no {' or '.join(_PLACES)}; export it, or take the engine torch")
    return path
