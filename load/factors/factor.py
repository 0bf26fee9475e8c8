"""What a factor is: a name, a reason, and how it makes an engine out of what the served one is made of."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from load.factors.live import Engine
from speech.models import cache_dir, resolve
from speech.whisper import profile, weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import Precision
from speech.whisper.weights import Checkpoint

MODULES = (
    "decoder_speculative", "decoder_vocabulary", "decoder_attention", "decoder_quality", "decoder_overhead",
    "encoder_redo", "encoder_precision", "encoder_runtime", "encoder_attention", "encoder_machine",
)  # fmt: skip
"""Of this package, each with a tuple FACTORS; one that is not there is passed over."""


@dataclass(frozen=True, slots=True)
class Base:
    """What the served engine is made of."""

    name: str
    checkpoint: Checkpoint
    folder: Path
    precision: Precision
    probes: int

    @classmethod
    def of(cls, model: str, threads: int = 1) -> Base:
        """A model as this machine serves it; measured now if it was not before."""
        found = resolve(model)
        checkpoint = weights.load(found.directory)
        chosen = profile.choose(checkpoint, found.name, "cpu", threads, cache_dir() / "profiles")
        return cls(found.name, checkpoint, found.directory, chosen.precision, profile.PROVEN_PROBES.get(found.name, 0))

    def backend(self) -> WhisperBackend:
        """As it is served, not loaded yet."""
        return WhisperBackend(self.name, self.checkpoint, self.folder, self.precision, self.probes)

    def loaded(self) -> WhisperBackend:
        """As it is served."""
        made = self.backend()
        made.load("cpu")
        return made


class Absent(Exception):
    """It cannot be had here, with the reason: the processor, a package, or the model."""


@dataclass(frozen=True, slots=True)
class Factor:
    """`make` gives the engine with it, loaded; raises `Absent`. `better`: it is for fewer wrong words and may cost
    something; `served`: engines have it already, and `make` gives the engine without it.
    """

    name: str
    side: Literal["encoder", "decoder"]
    what: str
    make: Callable[[Base], Engine]
    better: bool = False
    served: bool = False


def factors() -> Iterator[Factor]:
    """All of them, in the order of MODULES."""
    for name in MODULES:
        try:
            module = importlib.import_module(f"load.factors.{name}")
        except ModuleNotFoundError as missing:
            if missing.name != f"load.factors.{name}":
                raise
            continue
        yield from module.FACTORS
