"""How well documents are read: characters wrong, seconds a page, for each kind of page and reader.

Pages are made in the fonts every PDF reader has, at several sizes, in one column and two, with a table, turned, and
scanned (crooked, soft, noisy, JPEG). The text that was put on the page is what has to come back, in reading order.

  text layer   what the PDF carries
  ocr          read from its picture
  endpoint     with --url and --model: any OpenAI-compatible endpoint that sees pictures, asked to transcribe the page;
               the generalist beside the specialist, on the same pictures

Bars: at most 1 % of characters wrong on clean pages, 5 % on scans. Exit status 1 when one is missed.

    python -m load.ocr
    python -m load.ocr --url http://127.0.0.1:8000/v1 --model Qwen2.5-VL-3B-Instruct --pages 4
"""

from __future__ import annotations

import argparse
import asyncio
import base64
import json
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jiwer import cer
from rich.progress import track

from load.made_pages import Put, column, drawn, pdf, saved, scanned
from load.report import console, table
from vision_text.documents.chain import Documents, DocumentSettings, ReadOptions, Unread

CLEAN, NOISY = 0.01, 0.05
TEXT = (
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home and happy disposition, seemed to unite some "
    "of the best blessings of existence; and had lived nearly twenty-one years in the world with very little to "
    "distress or vex her. Invoice 4711: the total of 129.50 EUR is due on 14 March 2026 (net 30 days, 1.5% a month). "
    "She was the youngest of the two daughters of a most affectionate, indulgent father; and had, in consequence of "
    'her sister\'s marriage, been mistress of his house from a very early period. Order no. A-7719/b, ref. "Hartfield" '
    "& sons, 16 Highbury Lane; telephone +44 20 7946 0958, e-mail office@hartfield.example."
)
FONTS = {"Helvetica": 80, "Times-Roman": 90, "Courier": 68, "Times-Italic": 90, "Helvetica-Bold": 76}
"""Standard fonts, and characters to a line at 11 points."""
ROWS = [
    ["Item", "Count", "Price", "Total"],
    ["Blue pens", "12", "0.80", "9.60"],
    ["Paper, A4, white", "5", "4.20", "21.00"],
    ["Stapler", "1", "11.90", "11.90"],
    ["Sum", "18", "", "42.50"],
]


@dataclass
class Kind:
    """Pages of one kind: their files, what is on them, and what came of it."""

    name: str
    bar: float
    files: list[bytes] = field(default_factory=list)
    wanted: list[str] = field(default_factory=list)
    ocr: bool = True
    read: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def errors(self) -> float:
        return float(cer(self.wanted, self.read))


def made() -> Iterator[Kind]:
    pages, wanted = [], []
    for font, characters in FONTS.items():
        for size in (9, 11, 14):
            put, said = column(TEXT, font=font, size=size, x=60, top=780, characters=characters * 11 // size)
            pages.append(put)
            wanted.append(said)
    heading = Put("Helvetica-Bold", 18, 130, 790, "A heading over both columns")
    left, said_left = column(TEXT, font="Times-Roman", size=11, x=50, top=740, characters=45)
    right, said_right = column(TEXT[300:], font="Times-Roman", size=11, x=310, top=740, characters=45)
    columns, said_columns = [heading, *left, *right], f"{heading.text} {said_left} {said_right}"
    cells = [
        Put("Helvetica", 11, (60, 240, 320, 400)[at], 780 - 22 * row, cell)
        for row, line in enumerate(ROWS)
        for at, cell in enumerate(line)
        if cell
    ]
    said_cells = " ".join(cell for line in ROWS for cell in line if cell)
    yield Kind("text layer, fonts and sizes", 0.0, [pdf([page]) for page in pages], wanted, ocr=False)
    yield Kind("fonts and sizes", CLEAN, [pdf([page]) for page in pages], wanted)
    yield Kind("two columns", CLEAN, [pdf([columns])], [said_columns])
    yield Kind("table", CLEAN, [pdf([cells])], [said_cells])
    several = [(pages[1], wanted[1]), (columns, said_columns), (cells, said_cells)]
    turned = [(drawn(pdf([page])).rotate(-by, expand=True), said) for page, said in several for by in (90, 180, 270)]
    yield Kind("turned by 90, 180, 270", CLEAN, [saved(image) for image, _ in turned], [said for _, said in turned])
    scans = [
        (scanned(drawn(pdf([page])), seed), said)
        for seed, (page, said) in enumerate([*several, *zip(pages[1::3], wanted[1::3], strict=True)])
    ]
    yield Kind("scans", NOISY, [saved(image, "JPEG", quality=50) for image, _ in scans], [said for _, said in scans])


async def read(kind: Kind, documents: Documents, most: int) -> None:
    for file in track(kind.files[:most], kind.name, transient=True):
        began = time.monotonic()
        pages = [page async for page in documents.read(file, ReadOptions(ocr=kind.ocr))]
        kind.seconds += time.monotonic() - began
        kind.read.append(" ".join("" if isinstance(page, Unread) else " ".join(page.text.split()) for page in pages))
    kind.wanted = kind.wanted[:most]


def endpoint(kind: Kind, url: str, model: str, key: str | None, most: int) -> tuple[float, float]:
    """Characters wrong and seconds a page of an endpoint that sees pictures."""
    said, began = [], time.monotonic()
    for file in track(kind.files[:most], f"{kind.name}, {model}", transient=True):
        picture = saved(drawn(file)) if file.startswith(b"%PDF") else file
        content = [
            {
                "type": "text",
                "text": "Transcribe all text of this page in reading order, tables row by row. Text only.",
            },
            {"type": "image_url", "image_url": {"url": "data:image/png;base64," + base64.b64encode(picture).decode()}},
        ]
        body = {"model": model, "temperature": 0, "messages": [{"role": "user", "content": content}]}
        headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {key}"} if key else {})}
        request = urllib.request.Request(f"{url.rstrip('/')}/chat/completions", json.dumps(body).encode(), headers)
        with urllib.request.urlopen(request, timeout=600) as answer:
            said.append(" ".join(str(json.load(answer)["choices"][0]["message"]["content"]).split()))
    return float(cer(kind.wanted[:most], said)), (time.monotonic() - began) / len(said)


async def measure(arguments: argparse.Namespace) -> list[dict[str, Any]]:
    documents = await Documents.start(DocumentSettings())
    figures = []
    try:
        for kind in made():
            await read(kind, documents, arguments.pages)
            row = {
                "pages": kind.name,
                "count": len(kind.read),
                "reader": "ocr" if kind.ocr else "text layer",
                "errors": kind.errors,
                "seconds": kind.seconds / len(kind.read),
                "bar": kind.bar,
            }
            figures.append(row)
            if arguments.url and kind.ocr:
                errors, seconds = await asyncio.to_thread(
                    endpoint, kind, arguments.url, arguments.model, arguments.key, arguments.pages
                )
                figures.append({**row, "reader": arguments.model, "errors": errors, "seconds": seconds, "bar": None})
    finally:
        await documents.close()
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pages", type=int, default=1000, help="the most of each kind")
    parser.add_argument("--url", help="endpoint that sees pictures, like http://host:port/v1")
    parser.add_argument("--model", help="its model")
    parser.add_argument("--key", help="its API key")
    parser.add_argument("--json", type=Path, help="write the figures here")
    arguments = parser.parse_args()
    if bool(arguments.url) != bool(arguments.model):
        parser.error("--url and --model go together")
    figures = asyncio.run(measure(arguments))
    rows = [
        [
            row["pages"],
            row["reader"],
            str(row["count"]),
            f"{row['errors']:.2%}",
            f"{row['seconds']:.2f}",
            "" if row["bar"] is None else "held" if row["errors"] <= row["bar"] else f"missed {row['bar']:.0%}",
        ]
        for row in figures
    ]
    console().print(table("documents", ["pages", "reader", "count", "wrong", "s a page", ""], rows))
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=1))
    missed = [row for row in figures if row["bar"] is not None and row["errors"] > row["bar"]]
    sys.exit("a bar is missed" if missed else 0)


if __name__ == "__main__":
    main()
