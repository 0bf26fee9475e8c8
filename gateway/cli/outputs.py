"""Where transcripts are written: in an output directory that remembers what came from what, to a file, to stdout."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import typer

from batch_jobs.job import JobOptions
from batch_jobs.wire import dump, load
from gateway.cli.console import one_line
from gateway.cli.recordings import NOTES, Recording, places, real

log = logging.getLogger(__name__)

Render = Callable[[str], bytes]
"""The transcript in a format."""


class OutputTaken(Exception):
    """A file is in the way that was not written from this recording; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Note:
    """What was written once: from which file (absolute, with size in bytes and time of change in ns), how, and where.

    `place` is below the output directory and has no format's ending.
    """

    source: str
    size: int
    changed: int
    settings: str
    place: str
    formats: tuple[str, ...]


def settings_digest(options: JobOptions) -> str:
    """Equal for options that give the same transcript."""
    plain = dump(options)
    kept = {key: value for key, value in json.loads(plain).items() if key not in ("priority", "webhook")}
    return hashlib.sha256(json.dumps(kept, sort_keys=True).encode()).hexdigest()[:16]


class Folder:
    """An output directory, made when it is missing."""

    def __init__(
        self, root: Path, recordings: Sequence[Recording], formats: Sequence[str], options: JobOptions
    ) -> None:
        """Raises OSError when the directory cannot be made or read."""
        self.root, self.formats = root, tuple(formats)
        self._settings = settings_digest(options)
        root.mkdir(parents=True, exist_ok=True)
        self._notes = _read(root / NOTES)
        self._moved = {(Path(note.source).name, note.size, note.changed): note for note in self._notes.values()}
        known = {one.path: Path(note.place) for one in recordings if one.path and (note := self._note(one.path))}
        here = {str(real(one.path)) for one in recordings if one.path is not None}
        here |= {note.source for one in recordings if one.path and (note := self._note(one.path))}
        others = [Path(note.place) for note in self._notes.values() if note.source not in here and self._stands(note)]
        self._places = places(recordings, known, others)
        self._sources = {real(one.path) for one in recordings if one.path is not None}

    def paths(self, recording: Recording) -> dict[str, Path]:
        """Where each format of its transcript belongs."""
        place = self.root / self._places[recording]
        return {kind: place.with_name(f"{place.name}.{kind}") for kind in self.formats}

    def done(self, recording: Recording) -> bool:
        """Whether everything asked for is there, from this very file with these settings."""
        note = self._note(recording.path) if recording.path is not None else None
        if note is None or recording.path is None:
            return False
        status = recording.path.stat()
        same = (note.size, note.changed, note.settings) == (status.st_size, status.st_mtime_ns, self._settings)
        return same and all(path.is_file() for path in self.paths(recording).values())

    def check(self, recording: Recording, force: bool) -> None:
        """Raises OutputTaken when writing would overwrite what is not a transcript of this recording."""
        note = self._note(recording.path) if recording.path is not None else None
        for kind, path in self.paths(recording).items():
            if real(path) in self._sources:
                raise OutputTaken(f"{path} is itself a recording to transcribe; give another --out or --format")
            if path.is_dir():
                raise OutputTaken(f"{path} is a directory; move it or give another --out")
            ours = note is not None and kind in note.formats
            if path.exists() and not ours and not force:
                raise OutputTaken(f"{path} is there and was not written from this recording; --force overwrites it")

    def write(self, recording: Recording, render: Render, *, whole: bool) -> list[Path]:
        """Write all formats; remember it as done when the transcript is `whole`. Raises OSError."""
        paths = self.paths(recording)
        for kind, path in paths.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            write_file(path, render(kind))
        if recording.path is not None:
            self._remember(recording.path, whole)
        return list(paths.values())

    def _remember(self, path: Path, whole: bool) -> None:
        try:
            str(real(path)).encode()
        except UnicodeEncodeError:  # a name that no text file can hold is not remembered
            return
        status, before = path.stat(), self._note(path)
        place = str(next(place for one, place in self._places.items() if one.path == path))
        older = before.formats if before is not None and before.place == place else ()
        note = Note(
            source=str(real(path)),
            size=status.st_size,
            changed=status.st_mtime_ns,
            settings=self._settings if whole else "",
            place=place,
            formats=tuple(dict.fromkeys((*older, *self.formats))),
        )
        self._notes[note.source] = note
        with (self.root / NOTES).open("a", encoding="utf-8") as notes:
            notes.write(dump(note) + "\n")  # one write, so that two commands at once do not mix their lines

    def _note(self, path: Path) -> Note | None:
        """What is known of a recording: by its path, or, when the tree was moved, by name, size and time."""
        if note := self._notes.get(str(real(path))):
            return note
        try:
            status = path.stat()
        except OSError:  # a link to nowhere, or gone meanwhile: whoever reads it says so
            return None
        note = self._moved.get((path.name, status.st_size, status.st_mtime_ns))
        return note if note is not None and not Path(note.source).exists() else None

    def _stands(self, note: Note) -> bool:
        place = self.root / note.place
        return any(place.with_name(f"{place.name}.{kind}").exists() for kind in note.formats)


def write_file(path: Path, data: bytes) -> None:
    """Replace a file in one step, so that nobody sees half of it. Raises OSError."""
    from batch_jobs.writers.files import write_file as replace

    if path.exists() and not path.is_file():  # a pipe, a device
        path.write_bytes(data)
    else:
        replace(path, data)


def _read(path: Path) -> dict[str, Note]:
    """The latest note of each recording; a line that is cut off or foreign is passed over."""
    notes: dict[str, Note] = {}
    try:
        lines = path.read_text("utf-8", "replace").splitlines()
    except FileNotFoundError:
        return notes
    for number, line in enumerate(lines, 1):
        try:
            note = load(Note, line)
        except ValueError:
            log.warning("line %d of %s is no note; it is passed over", number, path)
            continue
        notes[note.source] = note
    return notes


class OneFile:
    """--out names the file itself."""

    def __init__(self, path: Path, kind: str) -> None:
        self.path, self.kind = path, kind

    def done(self, recording: Recording) -> bool:
        return False

    def check(self, recording: Recording, force: bool) -> None:
        """Raises OutputTaken when the recording would overwrite itself."""
        if recording.path is not None and real(self.path) == real(recording.path):
            raise OutputTaken(f"{self.path} is the recording itself; give another --out")

    def paths(self, recording: Recording) -> dict[str, Path]:
        return {self.kind: self.path}

    def write(self, recording: Recording, render: Render, *, whole: bool) -> list[Path]:
        """Replace the file. Raises OSError."""
        write_file(self.path, render(self.kind))
        return [self.path]


class Standard:
    """The text goes to stdout; of several recordings each under a line with its name, as head does it."""

    def __init__(self, kind: str, several: bool) -> None:
        self.kind, self.several = kind, several
        self._begun = False

    def done(self, recording: Recording) -> bool:
        return False

    def check(self, recording: Recording, force: bool) -> None:
        pass

    def paths(self, recording: Recording) -> dict[str, Path]:
        return {}

    def write(self, recording: Recording, render: Render, *, whole: bool) -> list[Path]:
        """Print it. Raises OSError when nobody reads any more."""
        text = render(self.kind)
        if self.several:
            text = (b"\n" if self._begun else b"") + f"==> {one_line(recording.name)} <==\n".encode() + text
        self._begun = True
        typer.echo(text, nl=False)
        return []


class Nowhere(Standard):
    """With --json alone: the text is in the row."""

    def write(self, recording: Recording, render: Render, *, whole: bool) -> list[Path]:
        return []


Target = Folder | OneFile | Standard
