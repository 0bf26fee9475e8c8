"""Clips: which frames are taken, by what their packets say, and what is refused before anything is decoded."""

from __future__ import annotations

import io
import struct
from dataclasses import dataclass
from typing import cast

import av
import numpy as np
import pytest
from av.video.stream import VideoStream
from numpy.typing import NDArray
from PIL import Image

from vision_text.media import ClipSource, MediaLimits, clip_file
from workers.errors import InputInvalid, InputTooLarge


@dataclass
class Budget:
    frames: int | None = None
    fps: float | None = None
    max_pixels: int | None = None


def ramp(count: int, side: int = 64) -> NDArray[np.uint8]:
    """Frames that become brighter by the same step."""
    levels = np.linspace(20, 230, count).astype(np.uint8)
    return np.broadcast_to(levels[:, None, None, None], (count, side, side, 3)).copy()


def level(frames: NDArray[np.uint8]) -> NDArray[np.float64]:
    return frames.mean(axis=(1, 2, 3))


def written(
    frames: NDArray[np.uint8], rate: int, kind: str, codec: str, times: list[int] | None = None, **options: str
) -> bytes:
    """A file of another kind, with time stamps of one's own in 1/`rate` s."""
    buffer = io.BytesIO()
    with av.open(buffer, "w", format=kind) as container:
        stream = cast(VideoStream, container.add_stream(codec, rate=rate))
        stream.width, stream.height = frames.shape[2], frames.shape[1]
        stream.pix_fmt = "rgb8" if codec == "gif" else "yuv420p"
        stream.options = options
        for n, picture in enumerate(frames):
            frame = av.VideoFrame.from_ndarray(picture, format="rgb24")
            frame.pts = times[n] if times else n
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()


def test_what_is_made_is_what_is_read() -> None:
    pictures = np.random.default_rng(0).integers(0, 255, (9, 16, 24, 3), np.uint8)
    source = ClipSource(clip_file(pictures, 8))
    info = source.info
    assert (info.frames, info.seconds, info.fps, info.width, info.height) == (9, 1.125, 8, 96, 64)
    found = source.frames(source.plan(Budget()))
    small = found.reshape(9, 16, 4, 24, 4, 3).mean(axis=(2, 4))
    assert np.abs(small - pictures).mean() < 30  # the colour of a clip is kept for four pixels together


def test_the_budget_chooses_before_anything_is_decoded() -> None:
    source = ClipSource(clip_file(ramp(40), 10))
    for budget, count, fps in (
        (Budget(frames=5), 5, 1.25),
        (Budget(fps=2), 8, 2),
        (Budget(frames=5, fps=2), 5, 1.25),
        (Budget(fps=100), 40, 10),
        (Budget(frames=1), 1, 0.25),
        (Budget(fps=0.01), 1, 0.25),
    ):
        plan = source.plan(budget)
        assert (len(plan.indices), plan.fps) == (count, fps)
        found = source.frames(plan)
        assert found.shape == (count, 64, 64, 3)
        np.testing.assert_allclose(level(found), level(ramp(40)[list(plan.indices)]), atol=3)
        np.testing.assert_allclose(plan.times, np.array(plan.indices) / 10, atol=1e-6)
    plan = source.plan(Budget(frames=3, max_pixels=100))
    assert (plan.width, plan.height, plan.indices) == (10, 10, (0, 20, 39))
    assert source.frames(plan).shape == (3, 10, 10, 3)


def test_times_are_those_of_the_frames_and_not_of_a_rate() -> None:
    """Screens are recorded with a frame when something changes."""
    times = [0, 1, 2, 50, 51, 52, 53, 99]
    source = ClipSource(written(ramp(8), 10, "matroska", "libx264", times))
    plan = source.plan(Budget())
    np.testing.assert_allclose(plan.times, np.array(times) / 10)
    np.testing.assert_allclose(level(source.frames(plan)), level(ramp(8)), atol=3)


@pytest.mark.parametrize(
    ("kind", "codec"),
    [("mov", "libx264"), ("webm", "libvpx"), ("avi", "mpeg4"), ("mpegts", "mpeg2video"), ("gif", "gif")],
)
def test_containers(kind: str, codec: str) -> None:
    rate = 25
    source = ClipSource(written(ramp(30), rate, kind, codec, g="10"))
    assert source.info.frames == 30
    assert abs(source.info.seconds - 30 / rate) < 0.1
    found = source.frames(source.plan(Budget(frames=6)))
    assert np.diff(level(found)).min() > 15
    np.testing.assert_allclose(level(found)[[0, -1]], [20, 230], atol=30 if kind == "gif" else 8)


def test_an_animated_gif_is_a_clip() -> None:
    pictures = [Image.new("RGB", (8, 8), (20 * n, 0, 0)) for n in range(10)]
    buffer = io.BytesIO()
    pictures[0].save(buffer, "GIF", save_all=True, append_images=pictures[1:], duration=100)
    source = ClipSource(buffer.getvalue())
    assert (source.info.frames, round(source.info.seconds, 2)) == (10, 1.0)
    assert source.frames(source.plan(Budget(frames=2)))[:, 0, 0, 0].tolist() == [0, 180]


def turned(data: bytes, degrees: int) -> bytes:
    """The same MP4, with a display matrix as phones write it."""
    one = 1 << 16
    a, b = {90: (0, one), 180: (-one, 0), 270: (0, -one)}[degrees]
    matrix = struct.pack(">9i", a, b, 0, -b, a, 0, 0, 0, 1 << 30)
    start = data.index(b"tkhd") + 4 + 40
    return data[:start] + matrix + data[start + 36 :]


@pytest.mark.parametrize("degrees", [90, 180, 270])
def test_a_clip_is_turned_as_its_camera_was_held(degrees: int) -> None:
    upright = np.zeros((4, 64, 128, 3), np.uint8)
    upright[:, :32, :64] = 255
    lying = np.rot90(upright, degrees // 90, axes=(1, 2))  # against the clock, which the matrix takes back
    source = ClipSource(turned(clip_file(np.ascontiguousarray(lying), 8), degrees))
    found = source.frames(source.plan(Budget(frames=2)))
    assert found.shape == (2, 64, 128, 3)
    assert np.abs(found.astype(int) - upright[:2]).mean() < 8


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no clip at all, but a text",
        b"#EXTM3U\n#EXT-X-TARGETDURATION:10\n#EXTINF:10,\nhttp://127.0.0.1:1/secret.ts\n",
        b"ffconcat version 1.0\nfile 'pyproject.toml'\n",
        b"\x00\x00\x00\x18ftypisom\x00\x00\x02\x00isomiso2",
        b"\x1a\x45\xdf\xa3" + bytes(100),
        b"RIFF\x00\x00\x00\x00AVI " + bytes(100),
        b"GIF89a\x01\x00\x01\x00\x00\x00\x00;",
    ],
    ids=lambda data: repr(data[:12]),
)
def test_what_is_no_clip(data: bytes) -> None:
    with pytest.raises(InputInvalid) as refused:
        source = ClipSource(data, name="messages[0].content[0]")
        source.frames(source.plan(Budget()))
    assert refused.value.param == "messages[0].content[0]"


def test_zero_frames_and_sound_alone() -> None:
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        stream = container.add_stream("libx264", rate=8)
        stream.width = stream.height = 64
        stream.pix_fmt = "yuv420p"
        container.start_encoding()
    with pytest.raises(InputInvalid, match="no frames"):
        ClipSource(buffer.getvalue())
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="matroska") as container:
        sound = container.add_stream("pcm_s16le", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(np.zeros((1, 1600), np.int16), layout="mono")
        frame.sample_rate = 16_000
        container.mux(sound.encode(frame))
    with pytest.raises(InputInvalid, match="no pictures"):
        ClipSource(buffer.getvalue())


def test_three_hours_are_refused_by_their_packets() -> None:
    pictures = ramp(4, 16)
    long = written(pictures, 1, "mp4", "mpeg4", [0, 3600, 7200, 10_800])
    with pytest.raises(InputTooLarge, match="14400 s long; at most 600 s"):
        ClipSource(long)
    assert ClipSource(long, MediaLimits(clip_seconds=20_000)).info.frames == 4
    lying = long.replace(b"mvhd", b"free")  # nothing in it says so any more, but the packets do
    with pytest.raises((InputTooLarge, InputInvalid)):
        ClipSource(lying)
    with pytest.raises(InputTooLarge, match="more than 30 frames"):
        ClipSource(clip_file(ramp(40), 10), MediaLimits(clip_packets=30))


def test_large_frames_and_far_key_frames_are_refused_before_they_are_decoded() -> None:
    data = clip_file(ramp(40), 10)
    with pytest.raises(InputTooLarge, match="64 x 64"):
        ClipSource(data, MediaLimits(pixels=4095))
    source = ClipSource(data, MediaLimits(decoded_pixels=64 * 64 * 30))
    with pytest.raises(InputTooLarge, match="key frames too far apart"):
        source.plan(Budget(frames=3))
    near = ClipSource(written(ramp(40), 10, "mp4", "libx264", g="5", bf="0"), MediaLimits(decoded_pixels=64 * 64 * 30))
    plan = near.plan(Budget(frames=3))
    assert plan.decoded <= 15
    np.testing.assert_allclose(level(near.frames(plan)), level(ramp(40)[list(plan.indices)]), atol=3)


def test_what_is_cut_off_or_damaged_is_refused_or_stood_for() -> None:
    data = written(ramp(30), 10, "matroska", "libx264", g="5")
    source = ClipSource(data[: len(data) * 2 // 3])
    assert source.info.frames < 30
    assert source.frames(source.plan(Budget(frames=4))).shape == (4, 64, 64, 3)
    random = np.random.default_rng(3)
    for whole in (data, clip_file(ramp(10), 8)):
        for _ in range(30):
            hurt = bytearray(whole)
            for at in random.integers(0, len(hurt), 10):
                hurt[at] = random.integers(0, 256)
            try:
                source = ClipSource(bytes(hurt))
                assert source.frames(source.plan(Budget(frames=4))).ndim == 4
            except (InputInvalid, InputTooLarge) as error:
                assert error.param == "video"


def test_nobody_waits_any_more() -> None:
    source = ClipSource(clip_file(ramp(10), 8))
    with pytest.raises(RuntimeError):
        source.frames(source.plan(Budget()), stopped=lambda: True)
