"""Reads the weights of a CTranslate2 Whisper folder, so that any faster-whisper model works here too.

The layout of model.bin (version 6) is that of CTranslate2's ModelSpec serialisation: a header, then
(name, shape, type, bytes) for every variable, then aliases.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

_TYPES: dict[int, type[np.generic]] = {0: np.float32, 1: np.int8, 2: np.int16, 3: np.int32, 4: np.float16}
_MAX_NAME = 512
_MAX_BYTES = 16 << 30


class WeightsError(ValueError):
    """The folder is not a CTranslate2 Whisper model that can be read; the message says what is wrong."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """All variables in float32, and the sizes that follow from them."""

    tensors: dict[str, Tensor]
    heads: int
    encoder_layers: int
    decoder_layers: int
    dim: int
    mels: int
    vocabulary: int
    alignment_heads: tuple[tuple[int, int], ...]


def load(folder: Path) -> Checkpoint:
    """Read `folder`/model.bin and config.json. Raises WeightsError."""
    raw = _read_variables(folder / "model.bin")
    try:
        config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise WeightsError(f"config.json of the model can't be read: {error}") from error
    tensors = {
        name: _float(raw, name, value)
        for name, value in raw.items()
        if value.ndim and not name.endswith("/weight_scale")
    }
    heads = config.get("alignment_heads") or []
    try:
        mels = int(tensors["encoder/conv1/weight"].shape[1])
        vocabulary, dim = (int(n) for n in tensors["decoder/embeddings/weight"].shape)
        return Checkpoint(
            tensors=tensors,
            heads=int(raw["encoder/num_heads"]),
            encoder_layers=_count(tensors, "encoder"),
            decoder_layers=_count(tensors, "decoder"),
            dim=dim,
            mels=mels,
            vocabulary=vocabulary,
            alignment_heads=tuple((int(layer), int(head)) for layer, head in heads),
        )
    except KeyError as error:
        raise WeightsError(f"model.bin is no Whisper model: variable {error} is missing") from error


def _count(tensors: dict[str, Tensor], side: str) -> int:
    numbered = (name.split("/")[1].removeprefix("layer_") for name in tensors if name.startswith(f"{side}/layer_"))
    return len({number for number in numbered if number.isdigit()})


def _float(raw: dict[str, NDArray[Any]], name: str, value: NDArray[Any]) -> Tensor:
    """As float32; int8 rows are stored multiplied by their scale (CTranslate2's convention)."""
    out = value.astype(np.float32)
    scale = raw.get(f"{name}_scale")
    if value.dtype == np.int8 and scale is not None:
        out /= scale.astype(np.float32).reshape(-1, *[1] * (value.ndim - 1))
    return torch.from_numpy(out)


def _read_variables(path: Path) -> dict[str, NDArray[Any]]:
    try:
        with path.open("rb") as file:
            return _parse(file)
    except OSError as error:
        raise WeightsError(f"model.bin can't be read: {error}") from error
    except (struct.error, UnicodeDecodeError) as error:
        raise WeightsError("model.bin is truncated or not a CTranslate2 model") from error


def _parse(file: BinaryIO) -> dict[str, NDArray[Any]]:
    version = _number(file, "I")
    if version != 6:
        raise WeightsError(
            f"model.bin has format version {version}; convert it with a current ct2-transformers-converter"
        )
    if _text(file) != "WhisperSpec":
        raise WeightsError("model.bin is a CTranslate2 model, but not a Whisper one")
    _number(file, "I")
    out: dict[str, NDArray[Any]] = {}
    for _ in range(_number(file, "I")):
        name = _text(file)
        shape = [_number(file, "I") for _ in range(_number(file, "B"))]
        kind, size = _number(file, "B"), _number(file, "I")
        if kind not in _TYPES or size > _MAX_BYTES:
            raise WeightsError(f"model.bin: variable {name} has a type or size that can't be read")
        data = file.read(size)
        if len(data) != size:
            raise WeightsError(f"model.bin ends in the middle of variable {name}")
        out[name] = np.frombuffer(data, _TYPES[kind]).reshape(shape)
    for _ in range(_number(file, "I")):
        alias = _text(file)
        out[alias] = out[_text(file)]
    return out


def _number(file: BinaryIO, kind: str) -> int:
    value: int = struct.unpack("<" + kind, file.read(struct.calcsize("<" + kind)))[0]
    return value


def _text(file: BinaryIO) -> str:
    size = _number(file, "H")
    if size > _MAX_NAME:
        raise WeightsError("model.bin is not a CTranslate2 model")
    return file.read(size)[:-1].decode()
