"""Small models of the classes that production uses, trained by `vision_text.training` and kept beside this file."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path


class SmallDamaged(ValueError):
    """A file is missing or is not what the manifest says. The message names the file and the remedy."""


@dataclass(frozen=True, slots=True)
class Small:
    """A small model. `score`: what its exact checker is to give, 0..1, by `script`'s own measure; `sha256` by file."""

    name: str
    task: str
    script: str
    seed: int
    licence: str
    score: float
    measure: str
    sha256: Mapping[str, str]

    @property
    def weights(self) -> tuple[str, ...]:
        """The files that hold weights, in the order in which a directory of them is read."""
        return tuple(str(path) for path in sorted(map(Path, self.sha256)) if path.suffix == ".safetensors")


@cache
def small_models() -> dict[str, Small]:
    """Those that the manifest names."""
    table = tomllib.loads(files("vision_text").joinpath("manifest.toml").read_text("utf-8"))
    return {entry["name"]: Small(**entry) for entry in table.get("small", ())}


def small_model(name: str) -> Path:
    """Its directory, every file of it hashed. Raises KeyError for an unknown name, SmallDamaged."""
    small, home = small_models()[name], Path(__file__).parent / name
    for file, sha256 in small.sha256.items():
        path = home / file
        found = sha256_of(path) if path.is_file() else "nothing"
        if found != sha256:
            raise SmallDamaged(
                f"{path} of {name} has the sha256 {found}, the manifest says {sha256}; it is not loaded. Install "
                f"speechlane again, or train the model with: python -m {small.script}"
            )
    return home


def sha256_of(path: Path) -> str:
    """Of a file, in hexadecimal."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
