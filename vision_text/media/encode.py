"""What made pictures and clips leave as: PNG, JPEG or WebP, and MP4 (H.264 where the installed FFmpeg has it)."""

from __future__ import annotations

import io
from fractions import Fraction
from typing import TYPE_CHECKING, Literal, cast, get_args

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from av.video.stream import VideoStream

PictureFormat = Literal["png", "jpeg", "webp"]
PICTURE_FORMATS: tuple[PictureFormat, ...] = get_args(PictureFormat)
CLIP_TYPE = "video/mp4"
_ENCODERS = ("libx264", "libopenh264", "mpeg4")
_CRF = "17"
"""Of H.264: what one cannot tell from the original."""
_LEAST_SHOWN = 64
"""Pixels of the shorter side; players show nothing of clips much smaller than that, or refuse them."""


def picture_file(pixels: NDArray[np.uint8], format: PictureFormat = "png", quality: int = 95) -> bytes:
    """A file of a picture (height, width, 3). `quality` 0 to 100 of JPEG and WebP; WebP at 100 is without loss."""
    from PIL import Image

    buffer = io.BytesIO()
    picture = Image.fromarray(pixels)
    if format == "png":
        picture.save(buffer, "PNG", compress_level=4)
    elif format == "jpeg":
        picture.save(buffer, "JPEG", quality=max(1, quality), subsampling=0 if quality >= 90 else 2)
    else:
        picture.save(buffer, "WEBP", quality=quality, lossless=quality == 100, method=3)
    return buffer.getvalue()


def clip_file(frames: NDArray[np.uint8], fps: float) -> bytes:
    """An MP4 of frames (frames, height, width, 3).

    Very small frames are enlarged by a whole number, each pixel a square, and an odd side gets its last line twice:
    what players take has even sides.
    """
    import av

    times = max(1, -(-_LEAST_SHOWN // min(frames.shape[1:3])))
    height, width = (side * times + side * times % 2 for side in frames.shape[1:3])
    buffer = io.BytesIO()
    with av.open(buffer, "w", format="mp4") as container:
        encoder = next(name for name in _ENCODERS if name in av.codecs_available)
        stream = cast("VideoStream", container.add_stream(encoder, rate=Fraction(fps).limit_denominator(1001)))
        stream.width, stream.height, stream.pix_fmt = width, height, "yuv420p"
        stream.codec_context.thread_count = 1
        if encoder == "libx264":
            stream.options = {"crf": _CRF, "preset": "medium"}
        elif encoder == "mpeg4":
            stream.options = {"qscale": "2"}
        for picture in frames:
            large = picture.repeat(times, axis=0).repeat(times, axis=1)
            whole = np.pad(large, ((0, height - large.shape[0]), (0, width - large.shape[1]), (0, 0)), mode="edge")
            frame = av.VideoFrame.from_ndarray(np.ascontiguousarray(whole), format="rgb24")
            container.mux(stream.encode(frame))
        container.mux(stream.encode(None))
    return buffer.getvalue()
