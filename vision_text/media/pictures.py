"""From the bytes of a picture file to pixels: eight bits, RGB, upright, without transparency, whatever it was before.

The header is judged before anything is unpacked. A file with more pictures than one (an animation, pages) is refused:
which of them was meant is for its sender to say.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from vision_text.media.data_urls import too_large
from vision_text.media.limits import LIMITS, MediaLimits
from workers.errors import InputInvalid, InputTooLarge, ServingError

if TYPE_CHECKING:
    from PIL.Image import Image, Transpose

Pixels = NDArray[np.uint8]
"""(height, width, 3)."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")
_LARGEST_SIDE = 65_535
_MOST_SCANS = 100
"""Of a progressive JPEG, each of which goes over all of its pixels; cameras write ten or so."""
_SCAN = b"\xff\xda"
_DEEP = ("I;16", "I;16L", "I;16B", "I;16N")
_MORE_THAN_ONE = ("MPO",)
"""Photographs with a preview, or one for each eye, behind the first picture, which is what everybody shows."""


@dataclass(frozen=True, slots=True)
class PictureInfo:
    """What a picture's header says; `width` and `height` in pixels, as the picture is to be seen."""

    format: str
    width: int
    height: int


def look(data: bytes, limits: MediaLimits = LIMITS, name: str = "image") -> PictureInfo:
    """What it is, without unpacking it. Raises InputInvalid and InputTooLarge, which name the field `name`."""
    with _opened(data, limits, name) as found:
        turned = found.getexif().get(_ORIENTATION, 1) in _LYING
        width, height = (found.height, found.width) if turned else (found.width, found.height)
        return PictureInfo(found.format or "", width, height)


def open_picture(
    data: bytes, limits: MediaLimits = LIMITS, name: str = "image", *, most_pixels: int | None = None
) -> Pixels:
    """The pixels: turned as EXIF says, transparent parts on white, 16 bits scaled to 8, CMYK and grey as RGB.

    Where there are more than `most_pixels`, it is made smaller, a JPEG while it is unpacked. Blocks: call it in a
    thread. Raises InputInvalid (no picture, damaged, truncated, more than one) and InputTooLarge, which name the field
    `name`.
    """
    from PIL import Image

    with _opened(data, limits, name) as found:
        turn = _turn(found)
        size = _smaller(found.width, found.height, most_pixels)
        if size != found.size:
            found.draft(None, size)
        found.load()
        if found.width * found.height > limits.pixels:  # a frame of a GIF may be larger than the file said
            raise _too_many(found.width, found.height, limits, name)
        upright = _eight_bits(found, name)
        if "A" in upright.getbands() or "a" in upright.getbands() or "transparency" in upright.info:
            ground = Image.new("RGBA", upright.size, "white")
            upright = Image.alpha_composite(ground, upright.convert("RGBA"))
        # Large pictures are copied as seldom as can be: a copy keeps others from the interpreter.
        upright = upright if upright.mode == "RGB" else upright.convert("RGB")
        if upright.size != size:
            upright = upright.resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0)
        return np.array(upright if turn is None else upright.transpose(turn), dtype=np.uint8)


def within(pixels: Pixels, most_pixels: int) -> Pixels:
    """The picture, made smaller where it has more pixels than that; its form stays."""
    from PIL import Image

    height, width = pixels.shape[:2]
    size = _smaller(width, height, most_pixels)
    if size == (width, height):
        return pixels
    return np.array(Image.fromarray(pixels).resize(size, Image.Resampling.BICUBIC, reducing_gap=2.0), dtype=np.uint8)


_ORIENTATION = 0x0112
_LYING = (5, 6, 7, 8)
_BACK = {
    2: "FLIP_LEFT_RIGHT", 3: "ROTATE_180", 4: "FLIP_TOP_BOTTOM", 5: "TRANSPOSE", 6: "ROTATE_270", 7: "TRANSVERSE",
    8: "ROTATE_90",
}  # fmt: skip
"""What brings a picture upright, by EXIF's number for how its camera was held."""


def _turn(found: Image) -> Transpose | None:
    from PIL.Image import Transpose

    name = _BACK.get(found.getexif().get(_ORIENTATION, 1))
    return Transpose[name] if name is not None else None


def _smaller(width: int, height: int, most: int | None) -> tuple[int, int]:
    """The size with at most so many pixels and the same form."""
    if most is None or width * height <= most:
        return width, height
    share = (most / (width * height)) ** 0.5
    return max(1, int(width * share)), max(1, int(height * share))


@contextmanager
def _opened(data: bytes, limits: MediaLimits, name: str) -> Iterator[Image]:
    """The picture with its header read; whatever the library says of it inside becomes ours."""
    from PIL import Image, UnidentifiedImageError

    if len(data) > limits.file_bytes:
        raise too_large(limits.file_bytes, name)
    _check_webp(data, limits, name)
    if data.startswith(b"\xff\xd8") and data.count(_SCAN) > _MOST_SCANS:
        raise InputTooLarge(
            f"{name} is a JPEG of more than {_MOST_SCANS} scans; save it again as baseline.", param=name
        )
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as found:
            if found.width * found.height > limits.pixels or max(found.size) > _LARGEST_SIDE:
                raise _too_many(found.width, found.height, limits, name)
            if found.format not in _MORE_THAN_ONE and getattr(found, "is_animated", False):
                raise InputInvalid(
                    f"{name} is a {found.format} of several pictures; send the one that is meant, or an animation as a "
                    "video.",
                    param=name,
                )
            yield found
    except Image.DecompressionBombError:
        raise InputTooLarge(f"{name} has more than {limits.pixels:,} pixels; send a smaller one.", param=name) from None
    except UnidentifiedImageError:
        raise InputInvalid(
            f"{name} is no picture that can be read here; send {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.", param=name
        ) from None
    except ServingError:
        raise
    except Exception as error:  # what the decoders raise on damaged files is not the same for any two of them
        reason = str(error).partition("<")[0].strip()[:120]
        raise InputInvalid(f"{name} is a picture that is damaged or cut off: {reason}.", param=name) from None


def _check_webp(data: bytes, limits: MediaLimits, name: str) -> None:
    """Its library makes room for the whole canvas as soon as it opens a file."""
    if data[:4] != b"RIFF" or data[8:12] != b"WEBP" or len(data) < 30:
        return
    kind = data[12:16]
    if kind == b"VP8X":
        width, height = (int.from_bytes(data[at : at + 3], "little") + 1 for at in (24, 27))
    elif kind == b"VP8L":
        bits = int.from_bytes(data[21:25], "little")
        width, height = (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    else:
        width, height = (int.from_bytes(data[at : at + 2], "little") & 0x3FFF for at in (26, 28))
    if width * height > limits.pixels:
        raise _too_many(width, height, limits, name)


def _eight_bits(found: Image, name: str) -> Image:
    """Of more than eight bits the upper ones; the library's own conversion would cut off all that is bright."""
    from PIL import Image

    if found.mode in _DEEP:
        return Image.fromarray((np.asarray(found, dtype=np.uint16) >> 8).astype(np.uint8))
    if found.mode == "I":
        deep = np.clip(np.asarray(found, dtype=np.int64), 0, 65_535)
        return Image.fromarray((deep >> 8).astype(np.uint8))
    if found.mode == "F":
        raise InputInvalid(
            f"{name} is a picture of floating-point numbers, whose black and white nobody knows; save it with 8 or 16 "
            "bits.",
            param=name,
        )
    return found


def _too_many(width: int, height: int, limits: MediaLimits, name: str) -> InputTooLarge:
    return InputTooLarge(
        f"{name} is a picture of {width} x {height} pixels; at most {limits.pixels:,} in all are taken.", param=name
    )
