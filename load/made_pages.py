"""Pages made for measuring: PDFs in the fonts every PDF reader has, and scans of them with what scanners do."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pypdfium2 as pdfium
from PIL import Image, ImageFilter

WIDTH, HEIGHT = 595, 842
"""Points of a page: A4."""


@dataclass(frozen=True, slots=True)
class Put:
    """A text at a place: points from the lower left corner, as PDF counts. `font`: one of the standard 14."""

    font: str
    size: float
    x: float
    y: float
    text: str


def column(text: str, *, font: str, size: float, x: float, top: float, characters: int) -> tuple[list[Put], str]:
    """A text set in lines of at most so many characters, and what is to be read in it."""
    lines = textwrap.wrap(text, characters)
    return [Put(font, size, x, top - n * size * 1.3, line) for n, line in enumerate(lines)], " ".join(lines)


def pdf(pages: Sequence[Sequence[Put]]) -> bytes:
    """A PDF of these pages, its text as a text layer."""
    objects: list[bytes] = []

    def add(body: bytes) -> int:
        objects.append(body)
        return len(objects)

    catalog, tree = add(b""), add(b"")
    fonts = sorted({put.font for page in pages for put in page})
    numbers = {
        font: add(f"<< /Type /Font /Subtype /Type1 /BaseFont /{font} /Encoding /WinAnsiEncoding >>".encode())
        for font in fonts
    }
    resources = "<< /Font << " + " ".join(f"/{font} {number} 0 R" for font, number in numbers.items()) + " >> >>"
    kids = []
    for page in pages:
        shown = "\n".join(f"/{p.font} {p.size} Tf 1 0 0 1 {p.x} {p.y} Tm ({_escaped(p.text)}) Tj" for p in page)
        stream = f"BT\n{shown}\nET".encode("cp1252")
        content = add(b"<< /Length %d >>\nstream\n%s\nendstream" % (len(stream), stream))
        box = f"/MediaBox [0 0 {WIDTH} {HEIGHT}]"
        kids.append(
            add(f"<< /Type /Page /Parent {tree} 0 R {box} /Resources {resources} /Contents {content} 0 R >>".encode())
        )
    objects[catalog - 1] = f"<< /Type /Catalog /Pages {tree} 0 R >>".encode()
    listed = " ".join(f"{kid} 0 R" for kid in kids)
    objects[tree - 1] = f"<< /Type /Pages /Kids [{listed}] /Count {len(kids)} >>".encode()
    out, offsets = b"%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    table = f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n" + "".join(f"{at:010d} 00000 n \n" for at in offsets)
    end = f"trailer << /Size {len(objects) + 1} /Root {catalog} 0 R >>\nstartxref\n{len(out)}\n%%EOF"
    return out + table.encode() + end.encode()


def drawn(document: bytes, number: int = 1, *, dpi: int = 150) -> Image.Image:
    """A page as a picture."""
    page = pdfium.PdfDocument(document)[number - 1].render(scale=dpi / 72, rev_byteorder=True)
    picture: Image.Image = page.to_pil()
    return picture.convert("RGB")


def scanned(picture: Image.Image, seed: int = 0) -> Image.Image:
    """As a cheap scanner has it: a little crooked, soft, grey paper, noise and specks."""
    chance = np.random.default_rng(seed)
    turn, smooth = float(chance.uniform(-1.5, 1.5)), Image.Resampling.BICUBIC
    crooked = picture.rotate(turn, expand=True, fillcolor="white", resample=smooth)
    soft = np.asarray(crooked.filter(ImageFilter.GaussianBlur(0.8)), np.float64) * 0.85 + 20
    soft += chance.normal(0, 18, soft.shape)
    soft[chance.random(soft.shape[:2]) < 0.003] = 0
    return Image.fromarray(soft.clip(0, 255).astype(np.uint8))


def saved(picture: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    """The picture as a file."""
    out = io.BytesIO()
    picture.save(out, kind, **options)
    return out.getvalue()


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")
