"""Which recordings a command line means, and under which names their transcripts are written."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

STDIN = "-"
NOTES = ".speechlane.jsonl"
BLOCK = 1 << 20
"""Bytes read at once."""

# Endings of what FFmpeg's libraries read and people keep speech in. Only folders are filtered by them: a file that is
# named is tried whatever it is called.
_AUDIO = """
3ga 8svx aa3 aac aax ac3 act adts aif aifc aiff alac alaw amr ape au awb caf dsf dss dts eac3 flac gsm m4a m4b m4p m4r
mka mp1 mp2 mp3 mpa mpc mpga nist oga ogg oma opus ra ram sln snd sph spx tak tta ulaw voc vox w64 wav wave weba wma wv
"""
_VIDEO = """
3g2 3gp 3gpp asf avi divx dv f4v flv m2t m2ts m2v m4v mkv mov mp4 mpe mpeg mpg mts mxf nut ogm ogv qt rm rmvb ts vob
webm wmv wtv
"""
MEDIA = frozenset(f"{_AUDIO} {_VIDEO}".split())


@dataclass(frozen=True, slots=True)
class Recording:
    """A file to transcribe. `path` None: standard input. `name` is how messages call it.

    `place` is where its transcript goes below the output directory, without an ending of its own ("calls/a.mp3").
    """

    path: Path | None
    name: str
    place: Path


@dataclass(frozen=True, slots=True)
class Found:
    """What the arguments stand for. `skipped` counts the files of folders that are no media by their endings.

    `missing` are arguments that are not there, `closed` folders that could not be looked into, with the reason.
    """

    recordings: tuple[Recording, ...]
    missing: tuple[str, ...]
    closed: tuple[tuple[str, str], ...]
    skipped: int
    folders: int

    @property
    def several(self) -> bool:
        """Whether more than one recording may be meant, so that results need a directory."""
        return self.folders > 0 or len(self.recordings) + len(self.missing) > 1


def skipped(found: Found) -> str:
    """That files of folders were passed over."""
    files = "1 file that is" if found.skipped == 1 else f"{found.skipped} files that are"
    return f"Skipped {files} no audio or video by name."


def find(arguments: Sequence[str], *, leave_out: Path | None = None) -> Found:
    """The recordings that files, folders and "-" stand for, in a stable order, each once.

    Hidden files and folders are passed over, links to folders are not followed; nor is `leave_out`, the output
    directory, looked into.
    """
    recordings: list[Recording] = []
    missing: list[str] = []
    closed: list[tuple[str, str]] = []
    skipped = folders = 0
    seen: set[Path] = set()
    for argument in arguments:
        path = Path(argument)
        if argument == STDIN:
            if not any(one.path is None for one in recordings):
                recordings.append(Recording(None, STDIN, Path("stdin")))
        elif os.path.isdir(path):
            folders += 1
            inside, others = _walk(path, leave_out, closed)
            skipped += others
            # Several folders keep their own names apart below the output directory.
            top = Path(real(path).name) if len(arguments) > 1 else Path()
            for file in inside:
                if _new(file, seen):
                    recordings.append(Recording(file, readable(str(file)), top / file.relative_to(path)))
        elif os.path.exists(path):
            if _new(path, seen):
                recordings.append(Recording(path, readable(argument), Path(path.name)))
        else:
            missing.append(readable(argument))
    return Found(tuple(recordings), tuple(missing), tuple(closed), skipped, folders)


def _new(path: Path, seen: set[Path]) -> bool:
    known = len(seen)
    seen.add(real(path))
    return len(seen) > known


def real(path: Path) -> Path:
    """Absolute and without links; of a link to nowhere or to itself as far as it goes, where `Path.resolve` may raise:
    one bad file must not stop the others."""
    return Path(os.path.realpath(path))


def readable(name: str) -> str:
    """A file's name as it can be printed and stored; bytes of it that are no UTF-8 become a mark."""
    return os.fsencode(name).decode("utf-8", "replace")


def _walk(folder: Path, leave_out: Path | None, closed: list[tuple[str, str]]) -> tuple[list[Path], int]:
    """Media files below `folder`, sorted, and how many other files there are; adds what is `closed` to it."""
    found, others = [], 0
    out = real(leave_out) if leave_out is not None else None
    refused: list[OSError] = []
    for directory, folders, files in os.walk(folder, onerror=refused.append):
        here = Path(directory)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and (out is None or real(here / name) != out)
        )
        for name in sorted(files):
            if name.startswith("."):
                continue
            if name.rpartition(".")[2].lower() in MEDIA:
                found.append(here / name)
            else:
                others += 1
    closed += [(readable(str(error.filename)), error.strerror or str(error)) for error in refused]
    return found, others


def places(
    recordings: Sequence[Recording], known: dict[Path, Path], taken: Iterable[Path] = ()
) -> dict[Recording, Path]:
    """Where each transcript goes below the output directory, without the format's ending; no two in one place.

    "a.mp3" goes to "a", unless "a.wav" wants that too: then "a.mp3" and "a.wav". `known` are the places in which
    transcripts of a recording (by its path) were written before, and which they keep; `taken` belong to recordings
    that are not among these.
    """
    used = {_key(place) for place in (*known.values(), *taken)}
    wanted = Counter(_key(one.place.with_suffix("")) for one in recordings)
    chosen: dict[Recording, Path] = {}
    for one in recordings:
        before = known.get(one.path) if one.path is not None else None
        if before is not None:
            chosen[one] = before
            continue
        short, full = one.place.with_suffix(""), one.place
        numbered = (full.with_name(f"{full.name}-{number}") for number in range(2, len(recordings) + len(used) + 3))
        for place in (*((short,) if wanted[_key(short)] == 1 else ()), full, *numbered):
            if _key(place) not in used:
                used.add(_key(place))
                chosen[one] = place
                break
    return chosen


def _key(place: Path) -> str:
    """Equal for names that some file systems hold for the same."""
    return str(place).casefold()


def blocks(path: Path | None) -> Iterator[bytes]:
    """The bytes of a recording; None: of standard input. Raises OSError."""
    with sys.stdin.buffer if path is None else path.open("rb") as source:
        while block := source.read(BLOCK):
            yield block


def container_seconds(path: Path) -> float | None:
    """How long a file says that it is, without decoding it; None when it does not say."""
    import av

    if not path.is_file():  # a pipe would be read empty
        return None
    try:
        with av.open(str(path), metadata_errors="ignore") as container:
            return container.duration / av.time_base if container.duration else None
    except (av.FFmpegError, OSError, ValueError):
        return None
