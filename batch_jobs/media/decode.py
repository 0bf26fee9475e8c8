"""A media file as a stream of 16 kHz sound, a second at a time, whatever the file is and however long.

Nothing of the file is held but the packet being decoded and the second being gathered.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, NoReturn

import av
import numpy as np
from av.error import FFmpegError

from batch_jobs.job import Channels
from batch_jobs.media.channels import Each, Mix, Rule
from batch_jobs.media.grid import Block, Grid
from batch_jobs.media.probe import Source, check
from batch_jobs.media.timeline import Span, Timeline
from speech.asr import SAMPLE_RATE, Samples
from speech.audio import MAX_FLOAT
from speech.resample import Resampler
from workers.errors import InputInvalid, InputTooLarge

_DAMAGED_READS = 1000
"""Read errors in a row after which the rest of the file is given up."""
_MOST_CHANGES = 256
"""Changes of sample rate or channels in one file; each costs new filters."""


@dataclass(frozen=True, slots=True)
class Sound:
    """The next samples (16 kHz mono float32) of a channel; the first of them is sample `start` of the file."""

    channel: int
    start: int
    samples: Samples


@dataclass(frozen=True, slots=True)
class Report:
    """How the decoding went. `samples`: length of the file's sound at 16 kHz; `damaged` counts packets."""

    samples: int
    missing: tuple[Span, ...]
    damaged: int
    warnings: tuple[str, ...]


class Media:
    """An open media file. Not for use by two threads at once; `close` it, or use `with`. Everything here blocks."""

    def __init__(self, file: BinaryIO, channels: Channels, max_seconds: float) -> None:
        """`file` is seekable and stands at its start. Raises InputInvalid(param="file" or "channels"), InputTooLarge.

        `codec` is FFmpeg's name of the coding; `claimed` the length in seconds as far as the file states it.
        """
        self._source = Source(file)
        self.codec = self._source.codec
        self.claimed = self._source.claimed
        self.report: Report | None = None
        """There when all sound was taken."""
        self.channels = 0
        """Channels in the file; 0 until the first sound came."""
        self.decoded = 0
        """Samples at 16 kHz that the sound taken so far stands for."""
        self._separate, self._max_seconds = channels is Channels.EACH, max_seconds
        self._timeline = Timeline(self._source.start, self.claimed, self._source.pauses)
        self._rule: Rule | None = None
        self._bad = self._good = 0
        self._changed = 0
        self._read = 0
        if self.claimed is not None and self.claimed > max_seconds:
            self.close()
            self._too_long()

    def __enter__(self) -> Media:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close FFmpeg's side; the file object stays the caller's. Idempotent."""
        self._source.container.close()

    def sounds(self) -> Iterator[list[Sound]]:
        """About a second at a time, all channels of it together; `report` is there after the last.

        The same file gives the same pieces every time. Raises InputInvalid(param="file") when nothing in it decodes,
        and InputTooLarge past the longest.
        """
        done = 0  # samples at 16 kHz before the present rate began
        resamplers: dict[int, Resampler] = {}
        made: dict[int, int] = {}
        rate = length = 0
        rule: Rule | None = None
        for block in self._blocks():
            if block.rate != rate:
                yield self._flushed(resamplers, made)
                done, rate, length = self.decoded, block.rate, 0
            if rule is None:
                rule = self._rule = Each(len(block.samples)) if self._separate else Mix(len(block.samples))
            at = self.decoded
            length += block.samples.shape[1]
            self.decoded = done + round(length * SAMPLE_RATE / rate)
            sounds = []
            for channel, samples in rule.take(block.samples, at / SAMPLE_RATE):
                if channel not in resamplers:
                    resamplers[channel] = Resampler(rate)
                    made.setdefault(channel, at)
                out = resamplers[channel].feed(samples)
                sounds.append(Sound(channel, made[channel], out))
                made[channel] += len(out)
            yield sounds
        yield self._flushed(resamplers, made)
        self._end()

    def _flushed(self, resamplers: dict[int, Resampler], made: dict[int, int]) -> list[Sound]:
        sounds = []
        for channel, resampler in resamplers.items():
            out = resampler.flush()
            sounds.append(Sound(channel, made[channel], out))
            made[channel] += len(out)
        resamplers.clear()
        return sounds

    def _end(self) -> None:
        if self._rule is None:
            raise InputInvalid(
                "no sound in the file could be decoded; it is damaged, cut off, or no recording", param="file"
            )
        if self._bad > self._good:
            raise InputInvalid(
                "the samples in the file are no sound: most are not finite or far beyond [-1, 1]; write them as"
                " floats in [-1, 1], or as integers",
                param="file",
            )
        line = self._timeline
        unread = self._source.unread(self._read, line.damaged > 0)
        missing = line.spans(self.decoded / SAMPLE_RATE, unread)
        told = self._rule.warnings()
        if line.damaged:
            told.append(f"{line.damaged} damaged pieces of the file did not decode")
        if line.filled >= 1.0:
            told.append(f"the file's time stamps leave {line.filled:.1f} s without sound; they were taken as silence")
        if line.leaps:
            told.append(f"the file's time stamps leap {line.leaps} times; times in the transcript go on without them")
        if self._bad:
            told.append(f"{self._bad} samples were no numbers or far beyond [-1, 1]; they were taken as silence")
        self.report = Report(self.decoded, missing, line.damaged, tuple(told))

    def _blocks(self) -> Iterator[Block]:
        """Whole seconds of sound at the file's own rate, from its first sample on; shorter only before a change."""
        grid: Grid | None = None
        for frame, stamp in self._frames():
            gap = self._timeline.place(stamp, frame.samples / frame.sample_rate)
            form = (frame.sample_rate, frame.layout.name, frame.format.name)
            if grid is None or grid.form != form:
                if grid is not None:
                    yield from grid.take(last=frame.sample_rate != grid.rate)
                    self._changed += 1
                    if self._changed > _MOST_CHANGES:
                        raise InputInvalid(
                            "the file changes its sample rate or channels over and over; convert it to one",
                            param="file",
                        )
                grid = self._grid(frame, grid)
            if gap:
                yield from grid.silence(round(gap * grid.rate))
            grid.add(frame)
            if self._timeline.clock > self._max_seconds:
                self._too_long()
            if grid.ready:
                yield from grid.take(last=False)
        if grid is not None:
            yield from grid.take(last=True)

    def _grid(self, frame: av.AudioFrame, before: Grid | None) -> Grid:
        check(frame.sample_rate, frame.layout.nb_channels)
        self.channels = self.channels or frame.layout.nb_channels
        grid = Grid(frame, self._sane, self.channels)
        if before is not None and before.rate == grid.rate:
            grid.pieces, grid.count = before.pieces, before.count
        return grid

    def _frames(self) -> Iterator[tuple[av.AudioFrame, float | None]]:
        """Decoded frames with their time stamps in seconds, going on behind damage where FFmpeg can."""
        container, track, line = self._source.container, self._source.track, self._timeline
        base = float(track.time_base or 0)
        failed = 0
        packets = container.demux(track)
        while True:
            try:
                packet = next(packets)
                failed = 0
            except StopIteration:
                return
            except FFmpegError:
                line.damage()
                failed += 1
                if failed >= _DAMAGED_READS:
                    return
                packets = container.demux(track)  # the demuxer goes on behind the damage if it can
                continue
            if packet.pos is not None:
                self._read = max(self._read, packet.pos + packet.size)
            if packet.is_corrupt and self._source.flags_loss:
                line.damage(decodes=True)
            try:
                frames = packet.decode()
            except FFmpegError:
                line.damage()
                continue
            for frame in frames:
                stamp = frame.pts
                yield frame, None if stamp is None else stamp * base

    def _sane(self, samples: Samples) -> Samples:
        """Samples of a float coding in [-1, 1]; decoders overshoot, and damaged floats may be anything."""
        low, high = float(samples.min(initial=0)), float(samples.max(initial=0))
        if low >= -1.0 and high <= 1.0:
            self._good += samples.size
            return samples
        wrong = ~(np.abs(samples) <= MAX_FLOAT)
        count = int(wrong.sum())
        self._bad += count
        self._good += samples.size - count
        samples[wrong] = 0.0
        return np.clip(samples, -1.0, 1.0, out=samples)

    def _too_long(self) -> NoReturn:
        raise InputTooLarge(
            f"the file is longer than {self._max_seconds / 3600:g} hours; cut it into shorter ones", param="file"
        )
