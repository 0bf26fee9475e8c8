"""The keys and values of one request: contiguous, growing, in the precision that was asked for, maybe a tier down."""

from __future__ import annotations

import tempfile
from collections import Counter
from dataclasses import dataclass

import torch
from torch import Tensor

from vision_text.vlm.quantise import Coding

BITS = {"float32": 32, "offload": 32, "int8": 8, "int4": 4, "int1": 1}
FIRST_ROOM = 64
"""Tokens."""


@dataclass(frozen=True, slots=True)
class Shape:
    """Of a model's cache."""

    layers: int
    heads: int
    width: int
    dtype: torch.dtype

    def coding(self, kind: str) -> Coding:
        return Coding(BITS[kind], self.width, self.dtype)

    def bytes(self, kind: str, tokens: int = 1) -> int:
        """That a cache of that kind takes for so many tokens."""
        return self.coding(kind).bytes * 2 * self.layers * self.heads * tokens

    def bytes_fp16(self, tokens: int = 1) -> int:
        return 2 * self.width * 2 * self.layers * self.heads * tokens


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """What is kept of some consecutive tokens, all layers: shared, never written."""

    parts: tuple[Tensor, ...]

    @property
    def tokens(self) -> int:
        return self.parts[0].shape[3]

    @property
    def bytes(self) -> int:
        return sum(part.nbytes for part in self.parts)


class KV:
    """Parts are (layers, 2, heads, room, width of the part). A step writes behind `length` with `extend`, layer by
    layer, and makes it count with `commit`; one that fails has changed nothing.

    "offload" keeps them one tier below the device: of a GPU in the host's memory, of the host in a file without a
    name, whose pages the system takes back when memory is short. A layer is fetched when its turn comes.
    """

    def __init__(self, shape: Shape, kind: str, device: torch.device, counters: Counter[str]) -> None:
        self.shape, self.kind, self.device = shape, kind, device
        self.length = 0
        self._coding, self._counters = shape.coding(kind), counters
        self._room = 0
        self._parts: tuple[Tensor, ...] = tuple(self._empty(0, width, dtype) for width, dtype in self._coding.parts())

    def _empty(self, room: int, width: int, dtype: torch.dtype) -> Tensor:
        sizes = (self.shape.layers, 2, self.shape.heads, room, width)
        if self.kind != "offload" or not room:
            return torch.empty(sizes, dtype=dtype, device=self.device)
        if self.device.type != "cpu":
            return torch.empty(sizes, dtype=dtype, pin_memory=True)
        count = torch.Size(sizes).numel()
        with tempfile.NamedTemporaryFile(prefix="speechlane-kv-") as file:  # the mapping outlives the name
            return torch.from_file(file.name, shared=True, size=count, dtype=dtype).view(sizes)

    def reserve(self, tokens: int) -> None:
        """Room for so many tokens in all."""
        if tokens <= self._room:
            return
        self._room = max(tokens, 2 * self._room, FIRST_ROOM)
        old = self._parts
        self._parts = tuple(self._empty(self._room, width, dtype) for width, dtype in self._coding.parts())
        for part, before in zip(self._parts, old, strict=True):
            part[:, :, :, : self.length] = before[:, :, :, : self.length]

    def extend(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Keys and values (heads, all tokens, width) of a layer with those of new tokens behind what is committed,
        all of them as they are kept. There must be room."""
        end = self.length + key.shape[1]
        for part, new in zip(self._parts, self._coding.encode(torch.stack((key, value))), strict=True):
            part[layer, :, :, self.length : end] = new
        kept = tuple(part[layer, :, :, :end] for part in self._parts)
        if self.kind == "offload":
            kept = tuple(part.to(self.device, copy=True) for part in kept)
            self._counters["kv_fetched_bytes"] += sum(part.nbytes for part in kept)
        if self._coding.bits < 32:
            self._counters[f"kv_{self.kind}_reads"] += 1
        both = self._coding.decode(kept)
        return both[0], both[1]

    def commit(self, tokens: int) -> None:
        """So many of the new tokens count."""
        self.length += tokens

    def truncate(self, tokens: int) -> None:
        """Forget all but the first so many."""
        self.length = min(self.length, tokens)

    def block(self, start: int, end: int) -> Block:
        """A copy of some tokens."""
        return Block(tuple(part[:, :, :, start:end].clone() for part in self._parts))

    def adopt(self, block: Block) -> None:
        """Append what a cache of the same model and kind has kept."""
        end = self.length + block.tokens
        self.reserve(end)
        for part, shared in zip(self._parts, block.parts, strict=True):
            part[:, :, :, self.length : end] = shared
        self.length = end

    def moved(self, device: torch.device) -> KV:
        """A copy on another device."""
        other = KV(self.shape, self.kind, device, self._counters)
        other.adopt(self.block(0, self.length))
        return other

    @property
    def bytes(self) -> int:
        """Of the tokens in it."""
        return self.shape.bytes(self.kind, self.length)

    def free(self) -> None:
        self.length = self._room = 0
        self._parts = tuple(self._empty(0, width, dtype) for width, dtype in self._coding.parts())
