"""Any encoder that transformers can load, in one step: texts of one length together, so that nothing is padded."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from vision_text.embeddings.packed import Spans
from vision_text.embeddings.tokens import Ids


class WholeEncoder:
    """The same as `PackedEncoder` with a single layer, which is the whole model."""

    layers = 1

    def __init__(self, directory: Path, dtype: torch.dtype, device: str) -> None:
        from transformers import AutoModel

        self._model = AutoModel.from_pretrained(directory, dtype=dtype, local_files_only=True).to(device).eval()
        config = self._model.config
        self.width: int = config.hidden_size
        self.vocabulary: int = config.vocab_size
        self.most_tokens: int = getattr(config, "max_position_embeddings", 1 << 30)
        self._device = device

    def begin(self, texts: Sequence[Ids]) -> tuple[Tensor, Spans]:
        """The tokens, end to end."""
        return torch.from_numpy(np.concatenate(texts)).to(self._device), Spans([len(ids) for ids in texts])

    def run(self, x: Tensor, spans: Spans, first: int, count: int) -> Tensor:
        """All of it."""
        made = []
        for row, texts, length in spans.groups:
            ids = x[row : row + texts * length].view(texts, length)
            found = self._model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            made.append(found.float().reshape(texts * length, -1))
        return torch.cat(made)
