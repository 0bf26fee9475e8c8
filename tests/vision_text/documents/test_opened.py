"""Opening what anybody may send: text layers as they stand on the page, pictures as they are seen, and refusals."""

from __future__ import annotations

import io
import struct
import zlib

import numpy as np
import pypdfium2 as pdfium
import pytest
from PIL import Image

from load.made_pages import Put, drawn, pdf, saved
from vision_text.documents import opened
from vision_text.documents.child import CHARACTERS, LONGEST
from vision_text.documents.opened import OpenedDocument, Sheet
from workers.errors import InputInvalid, InputTooLarge

PAGE = [Put("Helvetica", 12, 100, 700, "Fifty-one (51) words & more"), Put("Courier", 10, 100, 650, "second line here")]


def sheet(data: bytes, number: int = 1, **options: bool) -> Sheet:
    with OpenedDocument(data) as document:
        return document.sheet(number, **options)


def test_a_text_layer_comes_with_its_places_on_the_page() -> None:
    found = sheet(pdf([PAGE]))
    assert found.picture is None and found.words is not None
    assert [word.text for word in found.words] == ["Fifty-one", "(51)", "words", "&", "more", "second", "line", "here"]
    first = found.words[0].box
    # The baseline is 842 - 700 points below the top.
    assert first.left == pytest.approx(100, abs=1.5) and first.top < 142 < first.bottom + 0.5
    assert (found.width, found.height, found.unit) == (595, 842, "point")


@pytest.mark.parametrize("turns", [1, 2, 3])
def test_places_are_those_of_the_page_as_it_is_shown(turns: int) -> None:
    document = pdfium.PdfDocument(pdf([PAGE]))
    document[0].set_rotation(90 * turns)
    out = io.BytesIO()
    document.save(out)
    found = sheet(out.getvalue())
    picture = np.asarray(drawn(out.getvalue(), dpi=72))
    assert found.words is not None
    assert (round(found.width), round(found.height)) == (picture.shape[1], picture.shape[0])
    for word in found.words:  # ink where the word is said to be
        box = word.box
        inside = picture[int(box.top) : int(box.bottom) + 1, int(box.left) : int(box.right) + 1]
        assert inside.min() < 128


def test_a_page_without_text_and_one_that_is_to_be_read_come_as_pictures() -> None:
    data = pdf([PAGE, [Put("Helvetica", 12, 100, 700, "page 2")]])
    with OpenedDocument(data) as document:
        assert document.pages == 2
        asked = document.sheet(1, dpi=72, ocr=True)
        assert asked.picture is not None and asked.picture.shape == (842, 595, 3)
        assert np.array_equal(asked.picture, np.asarray(drawn(data, dpi=72)))
        short = document.sheet(2)  # six characters are as likely a page number on a scan
        assert short.words is None and short.picture is not None


def test_pictures_of_all_kinds_are_seen_as_people_see_them() -> None:
    grey = Image.fromarray(np.tile(np.arange(64, dtype=np.uint8) * 4, (40, 1)))
    turned = Image.new("RGB", (40, 20), "red")
    exif = turned.getexif()
    exif[0x0112] = 6
    clear = Image.new("RGBA", (8, 8), (0, 0, 0, 0))
    deep = Image.fromarray((np.arange(64, dtype=np.uint16) * 1000).reshape(8, 8))
    cases = {
        "grey": (saved(grey), (40, 64), (0, 0, 0)),
        "turned by exif": (saved(turned, "JPEG", exif=exif), (40, 20), None),
        "clear is white paper": (saved(clear), (8, 8), (255, 255, 255)),
        "16 bits": (saved(deep), (8, 8), (0, 0, 0)),
        "cmyk": (saved(Image.new("CMYK", (8, 8), (0, 0, 0, 0)), "JPEG"), (8, 8), (255, 255, 255)),
        "palette": (saved(Image.new("P", (8, 8)), "GIF"), (8, 8), None),
        "one pixel": (saved(Image.new("RGB", (1, 1), "blue")), (1, 1), (0, 0, 255)),
        "large": (saved(Image.new("L", (5000, 100), 255)), (round(100 * LONGEST / 5000), LONGEST), (255, 255, 255)),
    }
    for name, (data, shape, corner) in cases.items():
        found = sheet(data)
        assert found.picture is not None and found.picture.shape == (*shape, 3), name
        assert corner is None or tuple(int(value) for value in found.picture[0, 0]) == corner, name


def test_pages_of_a_tiff() -> None:
    frames = [Image.new("RGB", (8, 8), colour) for colour in ("red", "blue")]
    out = io.BytesIO()
    frames[0].save(out, "TIFF", save_all=True, append_images=frames[1:])
    with OpenedDocument(out.getvalue()) as document:
        assert document.pages == 2
        second = document.sheet(2).picture
        assert second is not None and tuple(second[0, 0]) == (0, 0, 255)


def claiming(width: int, height: int) -> bytes:
    """A PNG of a few bytes that says it is so large."""

    def chunk(kind: bytes, body: bytes) -> bytes:
        return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))

    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return (
        b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(bytes(100))) + chunk(b"IEND", b"")
    )


WHOLE = pdf([PAGE])
JPEG = saved(Image.effect_noise((400, 400), 50), "JPEG")


@pytest.mark.parametrize(
    ("data", "error", "says"),
    [
        (b"", InputInvalid, "neither a PDF nor a picture"),
        (b"RIFF....WAVE", InputInvalid, "neither a PDF nor a picture"),
        (b"%PDF-1.7\n", InputInvalid, "damaged or cut short"),
        (WHOLE[: len(WHOLE) // 3], InputInvalid, "damaged or cut short"),
        (claiming(20_000, 20_000), InputTooLarge, "40,000,000 pixels"),
        (claiming(2_000_000_000, 2_000_000_000), InputTooLarge, "40,000,000 pixels"),
    ],
)
def test_what_is_no_document_is_refused(data: bytes, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        OpenedDocument(data)


@pytest.mark.parametrize("share", [0.3, 0.9])
def test_a_picture_that_was_cut_short_is_refused_when_it_is_looked_at(share: float) -> None:
    with pytest.raises(InputInvalid, match="damaged or cut short"):
        sheet(JPEG[: int(len(JPEG) * share)])


def test_a_page_with_too_much_text_is_refused_and_the_next_one_read() -> None:
    line = "ten of them " * 10
    crowded = [Put("Helvetica", 1, 10, 10 + n % 800, line) for n in range(CHARACTERS // len(line) + 2)]
    with OpenedDocument(pdf([crowded, PAGE])) as document:
        with pytest.raises(InputTooLarge, match="100,000 are read"):
            document.sheet(1)
        assert document.sheet(2).words is not None


def test_a_parser_that_takes_too_long_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    document = OpenedDocument(WHOLE)
    monkeypatch.setattr(opened, "PAGE", 0.0001)
    with pytest.raises(InputTooLarge, match="takes longer"):
        document.sheet(1, ocr=True)
    assert document._process.returncode is not None
    with pytest.raises(InputInvalid):
        document.sheet(1)


def test_a_parser_that_dies_is_a_fault_of_the_file() -> None:
    document = OpenedDocument(WHOLE)
    document._process.kill()
    document._process.wait()
    with pytest.raises(InputInvalid, match="died of it"):
        document.sheet(1)
    document.close()
