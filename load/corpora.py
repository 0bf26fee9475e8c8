"""Real recordings with reference texts for measurements: the repository's own, and Debian's telephone prompts.

The prompts (Asterisk core sounds, CC-BY-SA 3.0) come in five languages; `fetch` downloads their Debian packages into
the cache directory and unpacks them there, nothing is installed.
"""

from __future__ import annotations

import csv
import gzip
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

LANGUAGES = ("en", "es", "fr", "it", "ru")
SOUNDS = (".wav", ".flac", ".ogg", ".mp3")
_TESTS = Path(__file__).parent.parent / "tests" / "data"


@dataclass(frozen=True, slots=True)
class Clip:
    """One recording: its file, what is said in it, and in which language."""

    path: Path
    text: str
    language: str


def cache() -> Path:
    """Where measurements keep what they download."""
    base = os.environ.get("SPEECHLANE_CACHE") or Path.home() / ".cache" / "speechlane"
    return Path(base) / "corpora"


def fetch(language: str) -> Path:
    """The unpacked prompts of a language; downloads them once. Needs apt-get and dpkg-deb."""
    folder = cache() / f"asterisk-{language}"
    if not folder.exists():
        folder.mkdir(parents=True)
        packages = [f"asterisk-core-sounds-{language}-wav", f"asterisk-core-sounds-{language}"]
        subprocess.run(["apt-get", "download", "-qq", *packages], cwd=folder, check=True)
        for package in sorted(folder.glob("*.deb")):
            subprocess.run(["dpkg-deb", "-x", str(package), str(folder)], check=True)
            package.unlink()
    return folder


def prompts(language: str, *, shortest: float = 1.0, longest: float = 25.0) -> Iterator[Clip]:
    """Prompts with a text, between `shortest` and `longest` seconds, in the order of their names."""
    folder = fetch(language)
    texts = dict(_lines(next(folder.rglob(f"core-sounds-{language}.txt.gz"))))
    voice = next(d for d in sorted(next(folder.rglob("sounds")).iterdir()) if d.is_dir() and not d.is_symlink())
    for path in sorted(voice.rglob("*.wav")):
        name = str(path.relative_to(voice)).removesuffix(".wav")
        seconds = (path.stat().st_size - 44) / 16_000
        if name in texts and shortest <= seconds <= longest and not name.startswith(("silence", "letters", "phonetic")):
            yield Clip(path, texts[name], language)


def bundled() -> Iterator[Clip]:
    """The recordings in the repository."""
    for table in (_TESTS / "references.tsv", _TESTS / "prompts" / "references.tsv"):
        if table.exists():
            with table.open(newline="") as file:
                for row in csv.DictReader(file, delimiter="\t"):
                    yield Clip(table.parent / row["file"], row["text"], "en")


def recordings(folder: Path | None) -> list[Clip]:
    """Those of a folder, or of the repository.

    What is said in them is in the folder's references.tsv, under `file` and `text`; of others it is not known ("").
    Raises ValueError when there is none.
    """
    if folder is None:
        if not (found := list(bundled())):
            raise ValueError("the repository's recordings are not here; name a folder with recordings")
        return found
    texts: dict[str, str] = {}
    if (table := folder / "references.tsv").exists():
        with table.open(encoding="utf-8", newline="") as file:
            texts = {row["file"]: row["text"] for row in csv.DictReader(file, delimiter="\t")}
    paths = sorted(path for path in folder.rglob("*") if path.suffix.lower() in SOUNDS)
    if not paths:
        raise ValueError(f"there is no recording ({', '.join(SOUNDS)}) in {folder}")
    return [Clip(path, texts.get(path.relative_to(folder).as_posix(), ""), "en") for path in paths]


def _lines(path: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8-sig") as file:
        for line in file:
            name, mark, text = line.partition(":")
            if mark and not line.startswith(";") and text.strip() and "[" not in text and "<" not in text:
                yield name.strip(), text.strip()
