"""A picture that somebody handed in: looked at before it is unpacked, so that a small file cannot fill the memory."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

from workers.errors import InputInvalid, InputTooLarge

if TYPE_CHECKING:
    from PIL.Image import Image

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF")


@dataclass(frozen=True, slots=True)
class Picture:
    """The bytes of a PNG, JPEG, WebP, GIF (its first frame), BMP or TIFF file."""

    data: bytes


def unpack(picture: Picture, most_pixels: int, name: str) -> Image:
    """In RGB, transparent parts on white. Blocks. Raises InputInvalid, InputTooLarge, both naming the item `name`."""
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", Image.DecompressionBombWarning)
            found = Image.open(io.BytesIO(picture.data), formats=FORMATS)
        if found.width * found.height > most_pixels:
            raise InputTooLarge(
                f"{name} is a picture of {found.width} x {found.height} pixels; at most {most_pixels:,} are taken",
                param=name,
            )
        turned = ImageOps.exif_transpose(found)
        if "A" in turned.getbands() or "transparency" in turned.info:
            ground = Image.new("RGBA", turned.size, "white")
            turned = Image.alpha_composite(ground, turned.convert("RGBA"))
        return turned.convert("RGB")
    except Image.DecompressionBombError as error:
        raise InputTooLarge(f"{name} is too large a picture: {error}", param=name) from None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError, EOFError) as error:
        raise InputInvalid(
            f"{name} is no picture that can be read ({', '.join(FORMATS)}): {error}", param=name
        ) from None
