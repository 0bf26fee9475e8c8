"""tiny.en as the file that whisper.cpp reads."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import BinaryIO

import numpy as np
from faster_whisper.feature_extractor import FeatureExtractor
from torch import Tensor

from load.peers.checkpoint import renamed
from speech.whisper.weights import load

_MAGIC = 0x67676D6C
_FLOAT32, _FLOAT16 = 0, 1


def write(model: Path, into: Path) -> Path:
    """The file made of the CTranslate2 folder `model`, matrices in half precision; one that is there is kept."""
    path = into / "ggml-tiny.en.bin"
    if not path.exists():
        into.mkdir(parents=True, exist_ok=True)
        found = load(model)
        contexts = [len(found.tensors[f"{side}/position_encodings/encodings"]) for side in ("encoder", "decoder")]
        with path.open("wb") as file:
            _numbers(file, _MAGIC, found.vocabulary)
            for context, layers in zip(contexts, (found.encoder_layers, found.decoder_layers), strict=True):
                _numbers(file, context, found.dim, found.heads, layers)
            _numbers(file, found.mels, _FLOAT16)
            filters = FeatureExtractor(feature_size=found.mels).mel_filters.astype(np.float32)
            _numbers(file, *filters.shape)
            file.write(filters.tobytes())
            words = tokens(model)
            _numbers(file, len(words))
            for word in words:
                _numbers(file, len(word))
                file.write(word)
            for name, values in renamed(found).items():
                _tensor(file, name, values)
    return path


def tokens(model: Path) -> list[bytes]:
    """The bytes of every token that is text, in the order of their numbers."""
    kept = json.loads((model / "tokenizer.json").read_text(encoding="utf-8"))
    special = {one["content"] for one in kept["added_tokens"]}
    meaning = _bytes()
    ranked = sorted((number, text) for text, number in kept["model"]["vocab"].items() if text not in special)
    return [bytes(meaning[letter] for letter in text) for _, text in ranked]


def _bytes() -> dict[str, int]:
    """The byte that each letter stands for in a vocabulary of bytes: itself where it can be printed."""
    plain = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = [byte for byte in range(256) if byte not in set(plain)]
    return {chr(byte): byte for byte in plain} | {chr(256 + n): byte for n, byte in enumerate(others)}


def _tensor(file: BinaryIO, name: str, values: Tensor) -> None:
    if name.startswith("encoder.conv") and name.endswith("bias"):
        values = values.reshape(-1, 1)
    exact = values.ndim < 2 or name.endswith(("bias", "positional_embedding"))
    data = values.numpy().astype(np.float32 if exact else np.float16)
    _numbers(file, data.ndim, len(name), _FLOAT32 if exact else _FLOAT16, *reversed(data.shape))
    file.write(name.encode())
    file.write(data.tobytes())


def _numbers(file: BinaryIO, *values: int) -> None:
    file.write(struct.pack(f"<{len(values)}i", *values))
