"""The process that opens documents: PDF through pdfium, pictures through Pillow. Started by `opened.py`, one each.

Files come from anyone and parsers have faults, so each is parsed in a process of its own, with bounded memory, which
can be killed when it takes too long. Messages on the socket are a line of JSON and the bytes it announces; no pickles.

    <- {"bytes": n, "password": …} + file      -> {"kind": "pdf"|"picture", "pages": n}
    <- {"page": n, "dpi": d, "ocr": bool}      -> {"width", "height", "unit", "words": [[text, l, t, r, b], …] | null,
                                                   "picture": [width, height] | null} + its RGB bytes
    -> {"error": message, "code": …}           instead of either
"""

from __future__ import annotations

import ctypes
import io
import json
import resource
import socket
import sys
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pypdfium2 as pdfium
import pypdfium2.raw as raw
from PIL import Image, ImageOps, ImageSequence

MEMORY = 3 << 30
PIXELS = 40_000_000
"""Of a picture that is decoded."""
LONGEST = 3000
"""Pixels of the long side of what is handed out; the reader makes it smaller still."""
CHARACTERS = 100_000
"""Of a page's text layer."""
_LEAST = 16
"""Characters of a text layer that is believed."""
_UNREADABLE = 0.05
_FINE = 64
"""Device units for each point when boxes are mapped onto the page as shown."""


class Refused(Exception):
    """`code` names the typed error that the other side makes of it."""

    def __init__(self, message: str, code: str = "invalid") -> None:
        super().__init__(message)
        self.code = code


class Pdf:
    kind = "pdf"

    def __init__(self, data: bytes, password: str | None) -> None:
        try:
            self._document = pdfium.PdfDocument(data, password=password)
            self.pages = len(self._document)
        except pdfium.PdfiumError as error:
            if "password" in str(error).lower():
                given = "the given password does not open it" if password else "give its password in `password`"
                raise Refused(f"The PDF is encrypted: {given}.", "password") from error
            raise Refused("The PDF cannot be opened: it is damaged or cut short.") from error
        if self.pages == 0:
            raise Refused("The PDF has no pages.")

    def page(self, number: int, dpi: int, ocr: bool) -> tuple[dict[str, Any], bytes]:
        try:
            page = self._document[number - 1]
        except pdfium.PdfiumError as error:
            raise Refused(f"Page {number} of the PDF is damaged.") from error
        width, height = page.get_size()
        if not (0 < width < 1e6 and 0 < height < 1e6):
            raise Refused(f"Page {number} of the PDF is {width:g} by {height:g} points large.", "large")
        words = None if ocr else self._words(page, width, height)
        answer: dict[str, Any] = {"width": width, "height": height, "unit": "point", "words": words, "picture": None}
        if words is not None:
            return answer, b""
        scale = min(dpi / 72, LONGEST / max(width, height))
        picture = page.render(scale=scale, rev_byteorder=True).to_numpy()[:, :, :3]
        answer["picture"] = picture.shape[1], picture.shape[0]
        return answer, np.ascontiguousarray(picture).tobytes()

    def _words(self, page: pdfium.PdfPage, width: float, height: float) -> list[list[Any]] | None:
        """The page's text layer, or None when it has none that can be believed."""
        text = page.get_textpage()
        count = text.count_chars()
        if count > CHARACTERS:
            raise Refused(f"A page has {count:,} characters; at most {CHARACTERS:,} are read.", "large")
        every = text.get_text_range(0, count) if count else ""
        printable = [letter for letter in every if not letter.isspace()]
        if len(printable) < _LEAST:
            return None
        if sum(_unreadable(letter) for letter in printable) > _UNREADABLE * len(printable):
            return None  # a font without a map to Unicode
        size = round(width * _FINE), round(height * _FINE)
        return [[word, *box] for word, box in _words_of(_characters(text, count, page, size))]


def _characters(
    text: pdfium.PdfTextPage, count: int, page: pdfium.PdfPage, size: tuple[int, int]
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    """Each character with its box on the page as it is shown, in points from its top left corner."""
    at_x, at_y = ctypes.c_int(), ctypes.c_int()

    def shown(x: float, y: float) -> tuple[float, float]:
        raw.FPDF_PageToDevice(page, 0, 0, *size, 0, x, y, at_x, at_y)
        return at_x.value / _FINE, at_y.value / _FINE

    index = 0
    while index < count:
        unit, span = raw.FPDFText_GetUnicode(text, index), 1
        if 0xD800 <= unit < 0xDC00 and index + 1 < count:  # two units of UTF-16
            unit, span = 0x10000 + ((unit - 0xD800) << 10) + (raw.FPDFText_GetUnicode(text, index + 1) - 0xDC00), 2
        left, bottom, right, top = text.get_charbox(index, loose=True)
        one, other = shown(left, top), shown(right, bottom)
        box = min(one[0], other[0]), min(one[1], other[1]), max(one[0], other[0]), max(one[1], other[1])
        if 0 < unit < 0x110000 and not 0xD800 <= unit < 0xE000:
            yield ("-" if unit == 2 else chr(unit)), box  # 2: pdfium's mark of a hyphen at a line's end
        index += span


def _words_of(
    characters: Iterator[tuple[str, tuple[float, float, float, float]]],
) -> Iterator[tuple[str, tuple[float, float, float, float]]]:
    word, boxes = "", list[tuple[float, float, float, float]]()
    for letter, box in characters:
        blank = letter.isspace() or not letter.isprintable()
        # Some writers leave out the space and move on instead.
        jumped = bool(boxes) and (box[1] > boxes[-1][3] or box[0] - boxes[-1][2] > 2 * (boxes[-1][3] - boxes[-1][1]))
        if word and (blank or jumped):
            yield word, _hull(boxes)
            word, boxes = "", []
        if not blank:
            word += letter
            boxes.append(box)
    if word:
        yield word, _hull(boxes)


def _hull(boxes: list[tuple[float, float, float, float]]) -> tuple[float, float, float, float]:
    lefts, tops, rights, bottoms = zip(*boxes, strict=True)
    return min(lefts), min(tops), max(rights), max(bottoms)


def _unreadable(letter: str) -> bool:
    return letter == "\ufffd" or not letter.isprintable() or 0xE000 <= ord(letter) < 0xF900


class Picture:
    kind = "picture"

    def __init__(self, data: bytes) -> None:
        warnings.simplefilter("error", Image.DecompressionBombWarning)
        Image.MAX_IMAGE_PIXELS = PIXELS
        try:
            self._picture = Image.open(io.BytesIO(data))
            self.pages = getattr(self._picture, "n_frames", 1) if self._picture.format == "TIFF" else 1
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise Refused(f"The picture has more than {PIXELS:,} pixels; send a smaller one.", "large") from error
        except Exception as error:  # decoders raise what they like
            raise Refused("The file is neither a PDF nor a picture that can be read: PNG, JPEG, WebP, TIFF.") from error

    def page(self, number: int, dpi: int, ocr: bool) -> tuple[dict[str, Any], bytes]:
        try:
            frame = ImageSequence.Iterator(self._picture)[number - 1]
            frame.load()
        except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
            raise Refused(f"The picture has more than {PIXELS:,} pixels; send a smaller one.", "large") from error
        except Exception as error:
            raise Refused("The picture is damaged or cut short.") from error
        shown = _flat(ImageOps.exif_transpose(frame))
        width, height = shown.size
        if max(shown.size) > LONGEST:
            shown.thumbnail((LONGEST, LONGEST), Image.Resampling.LANCZOS)
        answer = {"width": width, "height": height, "unit": "pixel", "words": None, "picture": shown.size}
        return answer, shown.tobytes()


def _flat(picture: Image.Image) -> Image.Image:
    """As RGB, on white paper."""
    if picture.mode.startswith("I"):  # 16 bits and more
        deep = np.asarray(picture, np.float64)
        most = 65535 if deep.max() > 255 else 255
        return Image.fromarray((deep.clip(0, most) * (255 / most)).astype(np.uint8)).convert("RGB")
    if picture.mode in ("RGBA", "LA", "PA") or "transparency" in picture.info:
        clear = picture.convert("RGBA")
        paper = Image.new("RGBA", clear.size, "white")
        return Image.alpha_composite(paper, clear).convert("RGB")
    return picture.convert("RGB")


def main(descriptor: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with socket.socket(fileno=descriptor) as connection, connection.makefile("rwb") as stream:
        document: Pdf | Picture | None = None
        for line in stream:
            asked = json.loads(line)
            try:
                if document is None:
                    data = stream.read(asked["bytes"])
                    document = Pdf(data, asked["password"]) if b"%PDF-" in data[:1024] else Picture(data)
                    answer, body = {"kind": document.kind, "pages": document.pages}, b""
                else:
                    answer, body = document.page(asked["page"], asked["dpi"], asked["ocr"])
            except Refused as error:
                answer, body = {"error": str(error), "code": error.code}, b""
            except MemoryError:
                answer, body = {"error": "The page takes too much memory to open.", "code": "large"}, b""
            stream.write(json.dumps({**answer, "body": len(body)}).encode() + b"\n" + body)
            stream.flush()


if __name__ == "__main__":
    main(int(sys.argv[1]))
