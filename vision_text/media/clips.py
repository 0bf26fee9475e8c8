"""From the bytes of a clip to the few frames of it that are wanted.

First every packet is looked at and none decoded: that gives the true times, the key frames and the length, whatever the
header claims. From these the frames are chosen that a budget has room for, and what it takes to come to them is judged.
Only then is anything decoded, from the key frame before each of them on, and each frame is made as small as it is to
be as soon as it is there.
"""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from vision_text.media.data_urls import too_large
from vision_text.media.limits import LIMITS, MediaLimits
from workers.errors import InputInvalid, InputTooLarge

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.frame import VideoFrame
    from av.video.stream import VideoStream

Frames = NDArray[np.uint8]
"""(frames, height, width, 3)."""

SUPPORTED = "MP4, MOV, WebM, Matroska, AVI, MPEG or GIF"
LEAST_SIDE, LARGEST_SIDE = 1, 16_384


class Sampling(Protocol):
    """How much of a clip is wanted; None: as much as there is."""

    @property
    def frames(self) -> int | None:
        """At most so many."""

    @property
    def fps(self) -> float | None:
        """At most so many a second."""

    @property
    def max_pixels(self) -> int | None:
        """Of one of them, at most."""


@dataclass(frozen=True, slots=True)
class ClipInfo:
    """What is in a clip, by its packets. `seconds` includes the time that the last frame stays."""

    container: str
    codec: str
    width: int
    height: int
    frames: int
    seconds: float
    fps: float


@dataclass(frozen=True, slots=True)
class ClipPlan:
    """Which frames are taken: by number, in order, with their `times` in seconds from the first. `fps` is what is left
    of them a second; `width` and `height` what each is scaled to; `decoded` how many have to be decoded for that."""

    info: ClipInfo
    indices: tuple[int, ...]
    times: tuple[float, ...]
    fps: float
    width: int
    height: int
    decoded: int


class ClipSource:
    """A clip in memory. Blocks: use it in a thread. What is wrong with it raises InputInvalid and InputTooLarge, which
    name the field `name`."""

    def __init__(self, data: bytes, limits: MediaLimits = LIMITS, name: str = "video") -> None:
        if len(data) > limits.file_bytes:
            raise too_large(limits.file_bytes, name)
        self._data, self._limits, self._name = data, limits, name
        self._demuxer = _demuxer(data, name)
        self._stamps: list[int] = []  # by number of the frame, as they are shown
        self._keys: list[int] = []  # stamps of key frames
        self._order: list[int] = []  # how many packets come before each key frame
        self._places: dict[int, int] = {}  # of a stamp, among the packets
        self.info = self._look()

    def plan(self, budget: Sampling) -> ClipPlan:
        """The frames that the budget has room for, spread evenly from the first to the last."""
        info = self.info
        count = info.frames
        if budget.fps is not None:
            count = min(count, max(1, round(info.seconds * budget.fps)))
        if budget.frames is not None:
            count = min(count, max(1, budget.frames))
        if count == 1:
            indices = [info.frames // 2]
        else:
            indices = [round(n * (info.frames - 1) / (count - 1)) for n in range(count)]
        return self._planned(indices, budget.max_pixels)

    def plan_at(self, times: Sequence[float], max_pixels: int | None = None) -> ClipPlan:
        """The frames that are seen at these seconds, each once."""
        first, indices = self._stamps[0], set()
        for time in times:
            shown = bisect_right(self._stamps, first + int(time / float(self._base) + 0.5)) - 1
            indices.add(min(max(0, shown), self.info.frames - 1))
        return self._planned(sorted(indices), max_pixels)

    def _planned(self, indices: list[int], max_pixels: int | None) -> ClipPlan:
        info, count = self.info, len(indices)
        width, height = _scaled(info.width, info.height, max_pixels)
        decoded = self._to_decode(indices)
        if decoded * info.width * info.height > self._limits.decoded_pixels:
            raise InputTooLarge(
                f"{self._name} has key frames too far apart: to have {count} frames of it {decoded} would have to be "
                "decoded; send it with a key frame every few seconds, smaller, or shorter.",
                param=self._name,
            )
        first, base = self._stamps[0], self._base
        times = tuple(float((self._stamps[n] - first) * base) for n in indices)
        fps = count / info.seconds if info.seconds > 0 else 1.0
        return ClipPlan(info, tuple(indices), times, fps, width, height, decoded)

    def frames(self, plan: ClipPlan, stopped: Callable[[], bool] = lambda: False) -> Frames:
        """The planned frames. `stopped` is asked between them whether nobody waits any more (RuntimeError then)."""
        import av

        found: list[NDArray[np.uint8]] = []
        try:
            with self._opened() as (container, stream):
                for frame in self._wanted(container, stream, plan, stopped):
                    made = frame.reformat(width=plan.width, height=plan.height, format="rgb24").to_ndarray()
                    # What the file says of turning is told to play it, in degrees against the clock.
                    found.append(np.rot90(made, round(frame.rotation / 90)).astype(np.uint8, copy=False))
        except (av.FFmpegError, ValueError, OSError) as error:
            raise self._damaged(error) from None
        if not found:
            raise InputInvalid(f"{self._name} has no frame that can be decoded.", param=self._name)
        found += [found[-1]] * (len(plan.indices) - len(found))  # an end that is damaged
        return np.ascontiguousarray(np.stack(found))

    def _wanted(
        self, container: InputContainer, stream: VideoStream, plan: ClipPlan, stopped: Callable[[], bool]
    ) -> Iterator[VideoFrame]:
        """A frame for each place of the plan. One that is missing is stood for by the next that is there."""
        decoded: Iterator[VideoFrame] = iter(())
        frame: VideoFrame | None = None
        at = pixels = 0
        started = False
        for index in plan.indices:
            wanted = self._stamps[index]
            key = self._keys[max(0, bisect_right(self._keys, wanted) - 1)]
            if not started or key > at:
                container.seek(key, stream=stream, backward=True)
                decoded, frame, started = container.decode(stream), None, True
            while frame is None or at < wanted:
                if stopped():
                    raise RuntimeError("nobody waits for the frames of this clip any more")
                following = next(decoded, None)
                if following is None:
                    break
                frame = following
                at = frame.pts if frame.pts is not None else frame.dts if frame.dts is not None else wanted
                pixels += frame.width * frame.height
                if frame.width * frame.height > self._limits.pixels or pixels > 2 * self._limits.decoded_pixels:
                    raise InputTooLarge(f"{self._name} has frames that are too large.", param=self._name)
            if frame is None:
                return
            yield frame

    def _to_decode(self, indices: list[int]) -> int:
        total, last = 0, -1
        for index in indices:
            stamp = self._stamps[index]
            start = self._order[max(0, bisect_right(self._keys, stamp) - 1)]
            end = self._places[stamp]
            total += max(0, end - max(start, last + 1) + 1)
            last = max(last, end)
        return total

    def _opened(self) -> _Opened:
        return _Opened(self._data, self._demuxer, self._name, self._limits)

    def _look(self) -> ClipInfo:
        import av

        name, limits = self._name, self._limits
        stamps: list[int] = []
        keys: list[tuple[int, int]] = []
        try:
            with self._opened() as (container, stream):
                context = stream.codec_context
                width, height, codec = context.width, context.height, context.name
                self._base = stream.time_base or 1
                rate = float(stream.average_rate or stream.base_rate or 0)
                for packet in container.demux(stream):
                    stamp = packet.pts if packet.pts is not None else packet.dts
                    if stamp is None or not packet.size:
                        continue
                    if packet.is_keyframe or not keys:
                        keys.append((stamp, len(stamps)))
                    stamps.append(stamp)
                    if len(stamps) > limits.clip_packets:
                        raise InputTooLarge(
                            f"{name} has more than {limits.clip_packets} frames; send a shorter one.", param=name
                        )
        except (av.FFmpegError, ValueError, OSError) as error:
            if not stamps and not isinstance(error, av.EOFError):
                raise self._damaged(error) from None
        if not stamps:
            raise InputInvalid(f"{name} has no frames.", param=name)
        if not (LEAST_SIDE <= width <= LARGEST_SIDE and LEAST_SIDE <= height <= LARGEST_SIDE):
            raise InputInvalid(f"{name} does not say how large its frames are.", param=name)
        if width * height > limits.pixels:
            raise InputTooLarge(
                f"{name} has frames of {width} x {height} pixels; at most {limits.pixels:,} in all are taken.",
                param=name,
            )
        self._places = {stamp: place for place, stamp in enumerate(stamps)}
        self._stamps = sorted(self._places)
        keys.sort()
        self._keys, self._order = [stamp for stamp, _ in keys], [place for _, place in keys]
        return self._counted(codec, width, height, rate)

    def _counted(self, codec: str, width: int, height: int, rate: float) -> ClipInfo:
        count = len(self._stamps)
        span = float((self._stamps[-1] - self._stamps[0]) * self._base)
        seconds = span * count / (count - 1) if span > 0 else count / rate if rate > 0 else 0.0
        if seconds > self._limits.clip_seconds:
            raise InputTooLarge(
                f"{self._name} is {seconds:.0f} s long; at most {self._limits.clip_seconds:g} s are taken.",
                param=self._name,
            )
        fps = count / seconds if seconds > 0 else 0.0
        return ClipInfo(self._demuxer, codec, width, height, count, seconds, fps)

    def _damaged(self, error: Exception) -> InputInvalid:
        reason = getattr(error, "strerror", None) or type(error).__name__
        return InputInvalid(f"{self._name} is a clip that is damaged or cut off: {reason}.", param=self._name)


class _Opened:
    """The container and the stream of pictures in it; cover art is none."""

    def __init__(self, data: bytes, demuxer: str, name: str, limits: MediaLimits) -> None:
        self._data, self._demuxer, self._name, self._limits = data, demuxer, name, limits
        self._container: Any = None

    def __enter__(self) -> tuple[InputContainer, VideoStream]:
        import av
        from av.stream import Disposition

        # The demuxer is named, because FFmpeg's own guessing would also try playlists, which open further files.
        self._container = av.open(io.BytesIO(self._data), "r", format=self._demuxer, metadata_errors="replace")
        for stream in self._container.streams.video:
            if not stream.disposition & Disposition.attached_pic and stream.codec_context is not None:
                stream.thread_type = "NONE"
                stream.codec_context.thread_count = 1
                stream.codec_context.options = {"max_pixels": str(self._limits.pixels)}
                return self._container, stream
        self._container.close()
        raise InputInvalid(f"{self._name} has no pictures in it, or none that can be decoded here.", param=self._name)

    def __exit__(self, *_: object) -> None:
        self._container.close()


def _demuxer(data: bytes, name: str) -> str:
    """FFmpeg's name of the demuxer, by the first bytes."""
    if data[4:8] in (b"ftyp", b"moov", b"mdat", b"wide", b"free", b"skip"):
        return "mov"
    if data.startswith(b"\x1a\x45\xdf\xa3"):
        return "matroska"
    if data[:4] == b"RIFF" and data[8:12] == b"AVI ":
        return "avi"
    if data.startswith((b"GIF87a", b"GIF89a")):
        return "gif"
    if data.startswith(b"OggS"):
        return "ogg"
    if data[:1] == b"\x47" and data[188:189] == b"\x47":
        return "mpegts"
    if data.startswith(b"\x00\x00\x01\xba"):
        return "mpeg"
    raise InputInvalid(f"{name} is no clip that can be read here; send {SUPPORTED}.", param=name)


def _scaled(width: int, height: int, most: int | None) -> tuple[int, int]:
    if most is None or width * height <= most:
        return width, height
    share = (most / (width * height)) ** 0.5
    return max(1, int(width * share)), max(1, int(height * share))
