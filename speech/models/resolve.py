"""From a model's name to its files: a path, then an installed bundle, then the Hugging Face hub.

Only the operator's start-up and command line resolve names. A request names a model that is loaded already, so no
request can read a path or cause a download.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from speech.models.bundled import installed, locate, missing_packages, verify_bundle
from speech.models.errors import ModelCorrupt, ModelNotFound
from speech.models.manifest import Bundle, bundles

_NEEDED = ("config.json", "model.bin", "tokenizer.json")


@dataclass(frozen=True, slots=True)
class ModelFiles:
    """A model on this machine. `directory` holds all its files.

    `revision` identifies the weights: 12 digits of the sha256 (bundle), the commit (hub) or "" (path).
    """

    name: str
    directory: Path
    origin: Literal["path", "bundle", "hub"]
    revision: str = ""

    def file(self, name: str) -> Path:
        """One file of the model. Raises ModelCorrupt when the model has none of that name."""
        path = self.directory / name
        if not path.is_file():
            raise ModelCorrupt(f"the model {self.name} has no {name} in {self.directory}")
        return path


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A bundled model for a listing. `size` in bytes; `languages` is ("*",) for all of Whisper's."""

    name: str
    task: str
    languages: tuple[str, ...]
    size: int
    licence: str
    source: str
    packages: tuple[str, ...]
    installed: bool


@dataclass(frozen=True, slots=True)
class Verification:
    """What a full check found for one bundle; `detail` says what is wrong and how to mend it."""

    name: str
    state: Literal["ok", "missing", "corrupt"]
    detail: str = ""


def resolve(name: str, *, allow_download: bool = False) -> ModelFiles:
    """The files of the model `name`: a directory, a bundle's name, or a name on the hub.

    Bundled files are verified first (the first time in full; 0.3 s for tiny.en). A hub model that was downloaded
    before is found without the network. `allow_download` lets the operator fetch one.
    Raises ModelNotFound, ModelCorrupt, or ModelError when the cache cannot be written.
    """
    if _is_path(name):
        return _from_path(name)
    bundle = bundles().get(name)
    if bundle is not None and installed(bundle):
        return ModelFiles(name, locate(bundle), "bundle", bundle.revision)
    return _from_hub(name, allow_download, bundle)


def known_models() -> list[KnownModel]:
    """Every bundled model, installed or not."""
    return [
        KnownModel(
            bundle.name,
            bundle.task,
            bundle.languages,
            sum(file.size for file in bundle.files),
            bundle.licence,
            bundle.source,
            bundle.packages,
            installed(bundle),
        )
        for bundle in bundles().values()
    ]


def verify() -> list[Verification]:
    """Hash every installed bundle in full against the manifest (about 1 s)."""
    found = []
    for bundle in bundles().values():
        if missing := missing_packages(bundle):
            found.append(Verification(bundle.name, "missing", f"pip install {' '.join(missing)}"))
            continue
        try:
            verify_bundle(bundle)
        except ModelCorrupt as error:
            found.append(Verification(bundle.name, "corrupt", str(error)))
        else:
            found.append(Verification(bundle.name, "ok"))
    return found


def _is_path(name: str) -> bool:
    """A hub name has a slash too ("owner/name"): a relative path needs a leading dot, or to exist."""
    return name.startswith((".", "~")) or os.path.isabs(name) or (os.sep in name and Path(name).is_dir())


def _from_path(name: str) -> ModelFiles:
    directory = Path(name).expanduser().absolute()
    if not directory.is_dir():
        raise ModelNotFound(f"there is no directory {directory}; a model by path is a directory with {_needed()}")
    _require_files(name, directory)
    return ModelFiles(name, directory, "path")


def _from_hub(name: str, allow_download: bool, bundle: Bundle | None) -> ModelFiles:
    # Imported here because the bundled models, the usual case, do not need the hub's client.
    from faster_whisper.utils import download_model
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError, LocalEntryNotFoundError

    try:
        directory = Path(download_model(name, local_files_only=not allow_download))
    except (ValueError, HFValidationError):
        raise ModelNotFound(f"no model is called {name!r}. {_choices()}") from None
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        if bundle is not None:
            remedy = f"Install it with: pip install {' '.join(bundle.packages)}"
        elif allow_download:
            remedy = f"The download failed: {str(error).rstrip('.')}"
        else:
            remedy = f"To download it: speechlane serve --models {name} --download"
        raise ModelNotFound(f"the model {name!r} is not on this machine. {remedy}. {_choices()}") from error
    _require_files(name, directory)
    return ModelFiles(name, directory, "hub", directory.name)


def _require_files(name: str, directory: Path) -> None:
    absent = [file for file in _NEEDED if not (directory / file).is_file()]
    if not list(directory.glob("vocabulary.*")):
        absent.append("vocabulary.txt or vocabulary.json")
    if absent:
        raise ModelCorrupt(f"{name} ({directory}) is not a CTranslate2 Whisper model: it has no {', '.join(absent)}")


def _needed() -> str:
    return ", ".join((*_NEEDED, "vocabulary.txt or vocabulary.json"))


def _choices() -> str:
    names = ", ".join(bundle.name for bundle in bundles().values() if bundle.task == "transcription")
    return f"A model is a directory, a bundled name ({names}) or the name of a CTranslate2 Whisper model on the hub."
