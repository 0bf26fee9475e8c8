"""Finding bundled weights in the installed packages, and joining those that come in parts."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from speech.models.cache import cache_dir
from speech.models.errors import ModelCorrupt, ModelError
from speech.models.integrity import copy_hashed, require
from speech.models.manifest import Bundle, BundledFile

log = logging.getLogger(__name__)


def missing_packages(bundle: Bundle) -> tuple[str, ...]:
    """The requirements of the bundle that are not installed, in any version."""
    return tuple(package for package in bundle.packages if _version(package.split("==")[0]) is None)


def installed(bundle: Bundle) -> bool:
    """Whether every package of the bundle is installed. Says nothing about the files in them."""
    return not missing_packages(bundle)


def locate(bundle: Bundle) -> Path:
    """The directory with the bundle's files, each verified against the manifest; joins them first when split.

    Raises ModelCorrupt when a file differs from the manifest, ModelError when the cache cannot be written.
    """
    if bundle.split:
        return _joined(bundle)
    for file in bundle.files:
        require(part_path(file.parts[0]), file.sha256, remedy=_reinstall(bundle))
    return part_path(bundle.files[0].parts[0]).parent


def verify_bundle(bundle: Bundle) -> None:
    """Hash every file of the bundle in full, and its joined copy where there is one. Raises ModelCorrupt."""
    joined = joined_dir(bundle)
    for file in bundle.files:
        _require_parts(bundle, file, copy_hashed(_parts(bundle, file)))
        copy = joined / file.name
        if copy.is_file() and copy_hashed([copy]) != file.sha256:
            raise ModelCorrupt(
                f"{copy} differs from the manifest. Delete {joined}; it is made again at the next start."
            )


def part_path(part: str) -> Path:
    """Where a part lies, found without importing its package (silero_vad would load torch)."""
    module, _, rest = part.partition("/")
    spec = find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise ModelCorrupt(f"the package {module} is not installed")
    return Path(spec.submodule_search_locations[0]) / rest


def joined_dir(bundle: Bundle) -> Path:
    """Where a split bundle is, or will be, joined."""
    return cache_dir() / "models" / f"{bundle.name}-{bundle.revision}"


def _joined(bundle: Bundle) -> Path:
    """The bundle in the cache. Any number of processes may start at once: one joins, the others wait for it."""
    target = joined_dir(bundle)
    root = target.parent
    remedy = f"Delete {target} and start again."
    try:
        root.mkdir(parents=True, exist_ok=True)
        with FileLock(root / f"{bundle.name}.lock"):
            if target.is_dir():
                try:
                    for file in bundle.files:
                        require(target / file.name, file.sha256, remedy=remedy)
                    return target
                except ModelCorrupt as error:
                    log.warning("joining %s again: %s", bundle.name, error)
                    shutil.rmtree(target)
            for left in root.glob(f".{bundle.name}-*"):  # by a process that was killed while it joined
                shutil.rmtree(left)
            _join(bundle, root, target)
            return target
    except OSError as error:
        raise ModelError(
            f"{bundle.name} comes in parts that are joined in {root}, which failed: {error}. "
            "Make room or set SPEECHLANE_CACHE to a writable directory."
        ) from error


def _join(bundle: Bundle, root: Path, target: Path) -> None:
    work = Path(tempfile.mkdtemp(prefix=f".{bundle.name}-", dir=root))
    try:
        for file in bundle.files:
            with (work / file.name).open("wb") as stream:
                _require_parts(bundle, file, copy_hashed(_parts(bundle, file), stream))
                stream.flush()
                os.fsync(stream.fileno())
        work.chmod(0o755)
        work.rename(target)
    except BaseException:
        shutil.rmtree(work, ignore_errors=True)
        raise
    for file in bundle.files:
        require(target / file.name, file.sha256, remedy="The disk may be failing.")


def _parts(bundle: Bundle, file: BundledFile) -> list[Path]:
    paths = [part_path(part) for part in file.parts]
    for path in paths:
        if not path.is_file():
            raise ModelCorrupt(f"{path} is missing. {_reinstall(bundle)}")
    return paths


def _require_parts(bundle: Bundle, file: BundledFile, found: str) -> None:
    if found != file.sha256:
        raise ModelCorrupt(
            f"{file.name} of {bundle.name} ({' + '.join(file.parts)}) has sha256 {found}, the manifest says "
            f"{file.sha256}; it is not loaded. {_reinstall(bundle)}"
        )


def _reinstall(bundle: Bundle) -> str:
    return f"Mend it with: pip install --force-reinstall --no-deps {' '.join(bundle.packages)}"


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
