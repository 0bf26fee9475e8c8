"""Sound in containers (Ogg, WebM, MP3, AAC, FLAC, WAV, M4A) to 16 kHz mono float32: as a live stream, or a whole file.

Nothing that a header claims is believed: memory and time follow the bytes that came and the samples that were decoded.
"""

from __future__ import annotations

import io
import threading
import weakref
from collections.abc import Iterator
from typing import BinaryIO

import numpy as np

from speech.asr import SAMPLE_RATE, Samples
from speech.audio import AudioDecoder
from speech.container_decode import ReadOnly, decode
from speech.container_format import HEAD_BYTES, Mp4Order, demuxer
from speech.wav_stream import wav_header
from workers.errors import InputInvalid, InputTooLarge

FEED_SECONDS = 600.0
"""The longest audio that one `feed` may decode to: a few bytes of FLAC can claim hours of silence."""

SILENT_BYTES = 8 << 20
"""Bytes of a stream that may pass (tags, pictures, other tracks) before the first decoded sample."""

_PIECE_SECONDS = 1.0


def decode_file(data: bytes | BinaryIO, *, max_seconds: float) -> Iterator[Samples]:
    """Decode a whole file, yielding about a second of 16 kHz mono at a time. Blocks: call it in a worker thread.

    `data` is the file's bytes or a seekable binary file object that stands at its start.
    Damaged parts are skipped where the format allows. Raises InputInvalid(param="file") when it is empty, no known
    sound file, has no sound or none that decodes, and InputTooLarge(param="file") when it is longer than `max_seconds`,
    which may be found only after earlier pieces were yielded.
    """
    file = io.BytesIO(data) if isinstance(data, bytes | bytearray | memoryview) else data
    source = ReadOnly(file)
    head = source.read(HEAD_BYTES)
    if not head:
        raise InputInvalid("file is empty; send a recording", param="file")
    kind = demuxer(head, "file")
    source.seek(0)
    pieces: list[Samples] = []
    pending = 0
    for samples in decode(source, kind, "file", max_seconds):
        pieces.append(samples)
        pending += len(samples)
        if pending >= _PIECE_SECONDS * SAMPLE_RATE:
            yield np.concatenate(pieces)
            pieces, pending = [], 0
    if pending:
        yield np.concatenate(pieces)


class ContainerDecoder:
    """A container that arrives in pieces, as from a browser's MediaRecorder. Not for use from several threads at once.

    FFmpeg pulls its input, so a thread of the decoder's own runs it; `feed` returns when that thread has used all the
    bytes it was given, so the output is the same in every run. Call `close` (or use `with`): it ends the thread. The
    stream's clock is the count of decoded samples; a gap in the container's time stamps is not filled.
    """

    def __init__(self) -> None:
        self._stream: _Piped | _Wav | None = None
        self._head = b""
        self._error: Exception | None = None
        self._ended = False

    def __enter__(self) -> ContainerDecoder:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def feed(self, data: bytes | bytearray | memoryview) -> Samples:
        """Decode the next bytes, cut anywhere; returns the 16 kHz mono samples that are complete, maybe none.

        FFmpeg needs the following bytes to close some frames: MP3 and AAC come one frame late, FLAC ten (about a
        second), Ogg by whole pages as its writer made them. Raises InputInvalid(param="audio") when the stream is no
        container we take or cannot be decoded or streamed, InputTooLarge(param="audio") past FEED_SECONDS or
        SILENT_BYTES; the stream has then ended, and every later call raises the same. ValueError after `flush` or
        `close`.
        """
        return self._next(bytes(data), last=False)

    def flush(self) -> Samples:
        """End the stream: the rest of the samples. InputInvalid(param="audio") when bytes came but no sound was in."""
        try:
            return self._next(b"", last=True)
        finally:
            self.close()

    def close(self) -> None:
        """Give up what is not decoded and end the thread. Idempotent."""
        self._ended = True
        if self._stream is not None:
            self._stream.close()

    def _next(self, data: bytes, *, last: bool) -> Samples:
        if self._error is not None:
            raise self._error
        if self._ended:
            raise ValueError("the stream was flushed or closed; start a new decoder")
        try:
            if self._stream is not None:
                return self._stream.feed(data, last=last)
            self._head += data
            if not self._head or (len(self._head) < HEAD_BYTES and not last):
                return _NONE
            kind = demuxer(self._head, "audio")
            header = wav_header(self._head) if kind == "wav" else None
            if kind == "wav" and header is None and not last:
                return _NONE
            head, self._head = self._head, b""
            if header is not None and header.format is not None:
                self._stream = _Wav(AudioDecoder(header.format), header.length)
                head = head[header.start :]
            else:
                self._stream = _Piped(kind)
            return self._stream.feed(head, last=last)
        except Exception as error:
            self._error = error
            self.close()
            raise


_NONE: Samples = np.zeros(0, np.float32)


class _Wav:
    """The samples of a WAV behind its header; what follows them (tags) is no sound."""

    def __init__(self, decoder: AudioDecoder, length: int | None) -> None:
        self._decoder = decoder
        self._left = length
        self._seen = False

    def feed(self, data: bytes, *, last: bool) -> Samples:
        if self._left is not None:
            data = data[: self._left]
            self._left -= len(data)
        self._seen = self._seen or bool(data)
        samples = self._decoder.feed(data)
        if not last:
            return samples
        if not self._seen:
            raise InputInvalid("audio has no sound behind its header; it is damaged or cut off", param="audio")
        return np.concatenate((samples, self._decoder.flush()))

    def close(self) -> None:
        """Nothing to free."""


class _Piped:
    """A container that FFmpeg pulls from a pipe on a thread."""

    def __init__(self, kind: str) -> None:
        self._order = Mp4Order("audio") if kind == "mov" else None
        self._fed = 0
        self._pipe = _Pipe()
        # The thread knows the pipe alone, so that an owner lost without close() is collected and the pipe closed.
        self._finalizer = weakref.finalize(self, self._pipe.close)
        self._thread = threading.Thread(target=_run, args=(self._pipe, kind), name="container", daemon=True)
        self._thread.start()

    def feed(self, data: bytes, *, last: bool) -> Samples:
        if self._order is not None:
            self._order.feed(data)
        self._fed += len(data)
        samples = self._pipe.exchange(data, last=last)
        if not self._pipe.made and self._fed > SILENT_BYTES:
            raise InputTooLarge(
                f"no sound in the first {SILENT_BYTES >> 20} MiB of audio; send sound alone", param="audio"
            )
        return samples

    def close(self) -> None:
        self._finalizer()
        self._thread.join()


class _Closed(Exception):
    """The owner gave the stream up; ends the decoding thread."""


class _Pipe:
    """Between the owner and the decoding thread: bytes in, samples out, one lock. Holds what one feed brought."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._input = bytearray()
        self._output: list[Samples] = []
        self._pending = 0
        self._last = self._closed = self._hungry = self._finished = False
        self.error: BaseException | None = None
        self.made = 0

    def exchange(self, data: bytes, *, last: bool) -> Samples:
        """Hand over bytes, wait until they are used up, take the samples. Raises what the thread failed with."""
        with self._changed:
            if not self._finished:
                self._input += data
                self._last, self._hungry = last, False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._finished or self._hungry)
            if self.error is not None and (last or not self._output):
                raise self.error
            samples = np.concatenate(self._output) if self._output else _NONE
            self._output, self._pending = [], 0
            return samples

    def read(self, size: int) -> bytes:
        """For FFmpeg: up to `size` bytes, waiting for some; b"" at the end of the stream or when it was closed."""
        with self._changed:
            while not (self._input or self._last or self._closed):
                self._hungry = True
                self._changed.notify_all()
                self._changed.wait()
            data = bytes(self._input[:size])
            del self._input[:size]
            return data

    def put(self, samples: Samples) -> None:
        with self._changed:
            if self._closed:
                raise _Closed
            self._output.append(samples)
            self._pending += len(samples)
            self.made += len(samples)
            if self._pending > FEED_SECONDS * SAMPLE_RATE:
                raise InputTooLarge(
                    f"one piece of audio decodes to over {FEED_SECONDS:.0f} s; send it in smaller pieces", param="audio"
                )

    def finish(self, error: BaseException | None) -> None:
        """The thread has ended, with or without an error."""
        with self._changed:
            self._finished = True
            self._input.clear()
            self.error = error
            self._changed.notify_all()

    def close(self) -> None:
        with self._changed:
            self._closed = self._finished = True
            self._input.clear()
            self._output.clear()
            self._changed.notify_all()


def _run(pipe: _Pipe, kind: str) -> None:
    error: BaseException | None = None
    try:
        for samples in decode(pipe, kind, "audio", None):
            pipe.put(samples)
    except _Closed:
        pass
    except BaseException as raised:
        error = raised  # raised again in the owner's thread
    pipe.finish(error)
