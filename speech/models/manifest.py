"""The manifest of bundled weights: what exists, from which package, under which licence, with which sha256."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files


@dataclass(frozen=True, slots=True)
class BundledFile:
    """One file of a bundle. `parts` are paths relative to site-packages, in the order in which they are joined."""

    name: str
    parts: tuple[str, ...]
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """Weights that packages bring. `languages` is ("*",) for a model of all of Whisper's languages.

    `packages` are requirements ("name==version") that together hold every part.
    """

    name: str
    task: str
    languages: tuple[str, ...]
    licence: str
    source: str
    packages: tuple[str, ...]
    files: tuple[BundledFile, ...]

    @property
    def revision(self) -> str:
        """Short identity of the weights: the sha256 of the largest file, 12 digits."""
        return max(self.files, key=lambda file: file.size).sha256[:12]

    @property
    def split(self) -> bool:
        """Whether a file lies in several parts, so that the model has to be joined before use."""
        return any(len(file.parts) > 1 for file in self.files)


@cache
def bundles() -> dict[str, Bundle]:
    """All bundles by name, in the manifest's order."""
    table = tomllib.loads(files("speech.models").joinpath("manifest.toml").read_text("utf-8"))
    return {entry["name"]: _bundle(entry) for entry in table["bundle"]}


def _bundle(entry: dict[str, object]) -> Bundle:
    fields = {key: tuple(value) if isinstance(value, list) else value for key, value in entry.items() if key != "file"}
    rows = entry["file"]
    assert isinstance(rows, list)
    return Bundle(**fields, files=tuple(BundledFile(**{**row, "parts": tuple(row["parts"])}) for row in rows))  # type: ignore[arg-type]
