"""A codec language model on disk: its folders, sizes, tokeniser and how it is sampled."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path

import torch

from speech.models.errors import ModelCorrupt
from speech.voices.codec.checkpoint import llama_config, llama_weights, snac_config, snac_weights
from speech.voices.codec.llama import Llama
from speech.voices.codec.prompt import Prompter
from speech.voices.codec.sampling import Sampling
from speech.voices.codec.snac import SnacDecoder


class CodecModel:
    """Reads the configurations at once, the weights when a device wants them.

    `dtype` of the language model; None: float32 on a CPU, else bfloat16.
    """

    def __init__(
        self,
        name: str,
        language_model: Path,
        codec: Path,
        *,
        revision: str = "",
        sampling: Sampling | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Raises ModelCorrupt when a folder is not what it should be."""
        self.name, self.revision = name, revision
        self.sampling = sampling if sampling is not None else Sampling()
        self.llama, self.snac = llama_config(language_model), snac_config(codec)
        self.prompter = Prompter(language_model, self.snac.codebook)
        self.layout = self.prompter.layout
        if max(self.layout.stop, self.layout.first_code + self.layout.codes - 1) >= self.llama.vocabulary:
            raise ModelCorrupt(f"{language_model}: the tokeniser has more tokens than the model")
        self._folders, self._dtype = (language_model, codec), dtype

    @property
    def frame_seconds(self) -> float:
        """Seconds of sound in a frame."""
        return self.snac.frame / self.snac.rate

    @property
    def weight_bytes(self) -> int:
        """What the weights take on an accelerator, codec included."""
        return _elements(self.llama.shapes()) * 2 + _elements(self.snac.shapes()) * 4

    def row_bytes(self, capacity: int) -> int:
        """What the keys and values of one segment of `capacity` tokens take there."""
        return 2 * self.llama.layers * self.llama.kv_heads * self.llama.head * capacity * 2

    def on(self, device: str, capacity: int) -> tuple[Llama, SnacDecoder]:
        """Both halves on a device. Raises ModelCorrupt."""
        dtype = self._dtype or (torch.float32 if device == "cpu" else torch.bfloat16)
        language_model, codec = self._folders
        weights = llama_weights(language_model, self.llama, dtype, device)
        first = self.layout.first_code
        outputs = torch.tensor([self.layout.stop, *range(first, first + self.layout.codes)])
        llama = Llama(self.llama, weights, outputs, capacity)
        return llama, SnacDecoder(self.snac, snac_weights(codec, self.snac, device))


def _elements(shapes: Mapping[str, tuple[int, ...]]) -> int:
    return sum(math.prod(shape) for shape in shapes.values())
