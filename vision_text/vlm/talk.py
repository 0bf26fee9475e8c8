"""What a language model on a device is given, what it holds meanwhile, and what it gives back."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from vision_text.vlm.kv import KV, Block
from vision_text.vlm.options import Options
from vision_text.vlm.prompt import Prompt
from vision_text.vlm.speculate import Speculation
from vision_text.vlm.writing import Writer
from workers.errors import BackendFailed


@dataclass(frozen=True, slots=True, eq=False)
class Handed:
    """A prompt that another device has computed, and the first token of its answer."""

    kv: KV
    first: int
    cached: int


@dataclass(frozen=True, slots=True, eq=False)
class Talk:
    """One answer to be made. `features` of each picture, None where `prefix` covers it. `hand_over`: end with the
    first token and what was computed, for another device to go on with `handed`."""

    prompt: Prompt
    features: tuple[Tensor | None, ...]
    prefix: tuple[Block, ...]
    options: Options
    max_tokens: int
    temperature: float
    top_p: float
    stop: tuple[str, ...]
    seed: int
    hand_over: bool = False
    handed: Handed | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """The end of an answer; `text` is what was still held back."""

    text: str
    finish_reason: str
    tokens: int
    cached: int
    kv_bytes: int
    kv_bytes_fp16: int
    proposed: int
    accepted: int


class NotFinite(BackendFailed):
    """A model's numbers are not finite: without lossy options they may be."""


@dataclass(slots=True, eq=False)
class State:
    talk: Talk
    writer: Writer
    ids: list[int]
    kv: KV | None = None
    speculation: Speculation | None = None
    cached: int = 0
    written: int = 0

    @property
    def opening(self) -> bool:
        """Still reading the prompt."""
        return self.written == 0
