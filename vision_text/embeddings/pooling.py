"""From the vectors of tokens to one of each text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

from vision_text.embeddings.layout import Layout
from vision_text.embeddings.packed import Spans
from vision_text.models import ModelUnusable, read_json

_OF_TOKENS: dict[str, Callable[[Tensor], Tensor]] = {
    "cls": lambda x: x[:, 0],
    "max": lambda x: x.amax(1),
    "mean": lambda x: x.mean(1),
    "mean_sqrt_len_tokens": lambda x: x.sum(1) / x.shape[1] ** 0.5,
    "lasttoken": lambda x: x[:, -1],
}
_ACTIVATIONS: dict[str, Callable[[Tensor], Tensor]] = {"Identity": lambda x: x, "Tanh": torch.tanh, "ReLU": F.relu}


class Pooling:
    """Pooling, the linear layers after it, and the norm, as the model's files say. `width` of what comes out."""

    def __init__(self, layout: Layout, width: int, device: str) -> None:
        self._modes, self._normalise = [_OF_TOKENS[mode] for mode in layout.pooling], layout.normalise
        self._dense = [_dense(directory, device) for directory in layout.dense]
        self.width = len(self._dense[-1][0]) if self._dense else width * len(self._modes)

    def __call__(self, x: Tensor, spans: Spans, skipped: Sequence[int]) -> Tensor:
        """(texts, width) from the rows of tokens; `skipped` tokens of each text's prompt do not count."""
        made = []
        text = 0
        for row, count, length in spans.groups:
            tokens = x[row : row + count * length].view(count, length, -1)
            for skip, same in _runs(skipped[text : text + count]):
                chosen = tokens[same, skip:]
                made.append(torch.cat([mode(chosen) for mode in self._modes], 1))
            text += count
        y = torch.cat(made)
        for weight, bias, activation in self._dense:
            y = activation(F.linear(y, weight, bias))
        return F.normalize(y) if self._normalise else y


def _runs(skipped: Sequence[int]) -> list[tuple[int, slice]]:
    """Neighbours that skip equally many tokens."""
    runs: list[tuple[int, slice]] = []
    for n, skip in enumerate(skipped):
        if runs and runs[-1][0] == skip:
            runs[-1] = (skip, slice(runs[-1][1].start, n + 1))
        else:
            runs.append((skip, slice(n, n + 1)))
    return runs


def _dense(directory: Path, device: str) -> tuple[Tensor, Tensor | None, Callable[[Tensor], Tensor]]:
    from safetensors.torch import load_file

    name = str(read_json(directory / "config.json").get("activation_function", "Identity")).rpartition(".")[2]
    if name not in _ACTIVATIONS or not (directory / "model.safetensors").is_file():
        raise ModelUnusable(f"{directory}: a dense layer needs model.safetensors and one of {', '.join(_ACTIVATIONS)}")
    weights = load_file(directory / "model.safetensors")
    bias = weights.get("linear.bias")
    return (
        weights["linear.weight"].float().to(device),
        None if bias is None else bias.float().to(device),
        _ACTIVATIONS[name],
    )
