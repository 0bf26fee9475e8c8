"""What an embedder is to load, and the limits of what it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

Proven = Callable[[str], Mapping[str, object]]
"""The options with which a model of that name may be served."""


def nothing_proven(name: str) -> Mapping[str, object]:
    """As exactly as it can be run."""
    return {}


OPENAI_NAMES = ("text-embedding-3-small", "text-embedding-3-large", "text-embedding-ada-002")
"""Names of OpenAI's models, which stand for the default here so that clients work unchanged."""


@dataclass(frozen=True, slots=True)
class EmbeddingSettings:
    """`models`: names, paths or hub names; the first is the default. `rerankers`: the same for cross-encoders.

    `arithmetic` of the linear layers: "float32", or "bfloat16" where its vectors pass the check against float32, else
    the model is refused; so is `engine` "onnx", which needs the model's onnx/model.onnx. `matryoshka`: by model, the
    sizes that its vectors may be cut to where its own files do not say. `ranges`: by model, a .npz with what int8 was
    calibrated with. `threads` of torch, None: as they are. `objective`: seconds in which an online request should be
    done. `most_characters` of a text and `most_pixels` of a picture.
    """

    models: tuple[str, ...] = ("all-MiniLM-L6-v2",)
    rerankers: tuple[str, ...] = ()
    engine: Literal["torch", "onnx"] = "torch"
    arithmetic: Literal["float32", "bfloat16"] = "float32"
    download: bool = False
    threads: int | None = None
    matryoshka: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    ranges: Mapping[str, Path] = field(default_factory=dict)
    objective: float = 0.1
    most_characters: int = 1_000_000
    most_pixels: int = 64_000_000

    def with_proven(self, options: Mapping[str, object]) -> EmbeddingSettings:
        """With the engine and the arithmetic among the options, unless something else was asked for already."""
        if (self.engine, self.arithmetic) != ("torch", "float32"):
            return self
        how: dict[str, Any] = {name: options[name] for name in ("engine", "arithmetic") if name in options}
        return replace(self, **how)
