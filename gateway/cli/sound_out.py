"""Where `speechlane say` puts its sound: a file, standard output, the loudspeaker."""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np

from gateway.cli.saying import SayError
from speech.encode import FORMATS, Encoder, OutputFormat, SoundFile, output_format
from speech.tts import Sound

ENDINGS = {"ogg": "opus", "raw": "pcm16", "pcm": "pcm16", "ulaw": "mulaw"}
"""File endings that are not names of formats."""


class Sink(Protocol):
    """Takes the sound, from any one thread. `open` before, then `close` (all of it came) or `abandon`."""

    def open(self, rate: int) -> None: ...
    def write(self, samples: Sound) -> None: ...
    def close(self) -> None: ...
    def abandon(self) -> None: ...


def sink_for(output: str | None, play: bool, kind: str | None, rate: int | None, *, terminal: bool) -> Sink:
    """The sink that the options name. Raises `SayError`, `InputInvalid`."""
    if kind is not None and kind not in FORMATS:
        raise SayError(f"--format is {kind!r} but can be {', '.join(FORMATS)}")
    if output is None and (play or terminal):
        return Loudspeaker(asked=play)
    if output in (None, "-"):
        return _Encoded(None, kind or "wav", rate)
    path = Path(str(output))
    ending = path.suffix.lower().lstrip(".")
    name = kind or ENDINGS.get(ending, ending)
    if name not in FORMATS:
        raise SayError(f"the ending of {path.name} names no format; end it in .wav, .flac, .mp3, .opus or .aac")
    if not path.parent.is_dir():
        raise SayError(f"there is no directory {path.parent} to write {path.name} to")
    return _Encoded(path, name, rate)


class _Encoded:
    """A file, which is there only when it is whole, or standard output for None."""

    def __init__(self, path: Path | None, name: str, rate: int | None) -> None:
        self._path, self._name, self._rate = path, name, rate
        self._file: BinaryIO | None = None
        self._part = path and path.with_name(f".{path.name}.{os.getpid()}.part")
        # Refused now, not after the voice has been loaded.
        output_format(name, rate or 24_000, rate)

    def open(self, rate: int) -> None:
        form: OutputFormat = output_format(self._name, rate, self._rate)
        if self._part is None:
            self._encoder = Encoder(form, rate)
            self._file = sys.stdout.buffer
            return
        try:
            self._file = self._part.open("wb")
        except OSError as error:
            raise SayError(f"{self._path} cannot be written: {error.strerror}") from error
        self._encoder = SoundFile(self._file, form, rate)

    def write(self, samples: Sound) -> None:
        self._put(self._encoder.feed(samples))

    def close(self) -> None:
        self._put(self._encoder.flush())
        assert self._file is not None
        if self._part is None or self._path is None:
            self._file.flush()
            return
        self._file.close()
        self._part.replace(self._path)

    def abandon(self) -> None:
        if self._part is not None:
            if self._file is not None:
                self._file.close()
            with suppress(FileNotFoundError):
                self._part.unlink()

    def _put(self, data: bytes) -> None:
        assert self._file is not None
        try:
            self._file.write(data)
        except BrokenPipeError:
            raise SayError("whoever read the sound has gone") from None
        except OSError as error:
            raise SayError(f"the sound cannot be written: {error.strerror}") from error


class Loudspeaker:
    """The default output device."""

    def __init__(self, *, asked: bool) -> None:
        try:
            import sounddevice  # type: ignore[import-not-found,import-untyped,unused-ignore]

            sounddevice.query_devices(kind="output")
        except Exception as error:  # the package, the PortAudio library or the device is missing
            how = "" if asked else "; or name a file: -o speech.wav"
            raise SayError(
                f"there is no loudspeaker to play on ({error}): it needs sounddevice "
                f"({sys.executable} -m pip install sounddevice), "
                f"PortAudio (on Debian apt-get install libportaudio2) and a device{how}"
            ) from error
        self._sounddevice = sounddevice
        self._stream: Any = None

    def open(self, rate: int) -> None:
        try:
            self._stream = self._sounddevice.OutputStream(samplerate=rate, channels=1, dtype="float32")
            self._stream.start()
        except Exception as error:
            raise SayError(f"the loudspeaker cannot be opened: {error}") from error

    def write(self, samples: Sound) -> None:
        self._stream.write(np.ascontiguousarray(samples[:, None]))

    def close(self) -> None:
        self._stream.stop()  # after what waits has been played
        self._stream.close()

    def abandon(self) -> None:
        if self._stream is not None:
            self._stream.abort()
            self._stream.close()
