"""Documents read by the real models: the text that is on the page, and where it is."""

from __future__ import annotations

import asyncio
import io
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from jiwer import cer
from PIL import Image

from load.made_pages import HEIGHT, Put, column, drawn, pdf, saved, scanned
from vision_text.documents.chain import Documents, DocumentSettings, ReadOptions, Unread
from vision_text.documents.ocr import cut
from vision_text.documents.page import Box, Kind, Page, Source
from workers.errors import InputInvalid, InputTooLarge, Overloaded

TEXT = (
    "Emma Woodhouse, handsome, clever, and rich, with a comfortable home, seemed to unite some of the best blessings "
    "of existence. Invoice 4711: 129.50 EUR (1.5% off) is due on 14 March 2026."
)
PUT, WANTED = column(TEXT, font="Times-Roman", size=12, x=60, top=780, characters=60)
DPI = 110
DATA = pdf([PUT])
SCAN = drawn(DATA, dpi=DPI).crop((60, 0, 810, 740))
"""The detector makes anything smaller larger."""


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


@pytest.fixture(scope="module")
def documents(loop: asyncio.AbstractEventLoop) -> Iterator[Documents]:
    started = loop.run_until_complete(Documents.start(DocumentSettings(documents=2, pages=50)))
    yield started
    loop.run_until_complete(started.close())


async def collect(pages: AsyncIterator[Page | Unread]) -> list[Page | Unread]:
    return [page async for page in pages]


def read(
    loop: asyncio.AbstractEventLoop, documents: Documents, data: bytes, options: ReadOptions | None = None
) -> list[Page | Unread]:
    return loop.run_until_complete(collect(documents.read(data, options)))


def only(pages: list[Page | Unread]) -> Page:
    (page,) = pages
    assert isinstance(page, Page)
    return page


def flat(page: Page) -> str:
    return " ".join(page.text.split())


@pytest.mark.parametrize("degrees", [0, 90, 180, 270])
def test_a_scan_is_read_whichever_way_it_lies(
    loop: asyncio.AbstractEventLoop, documents: Documents, degrees: int
) -> None:
    page = only(read(loop, documents, saved(SCAN.rotate(-degrees, expand=True))))
    assert flat(page) == WANTED
    assert (page.source, page.turned) == (Source.OCR, (360 - degrees) % 360)
    words = {
        word.text: word.box for region in page.regions for row in region.rows for line in row for word in line.words
    }
    picture = np.asarray(SCAN.rotate(-degrees, expand=True).convert("L"))
    for text in ("Woodhouse,", "2026."):
        box = words[text]
        found = picture[int(box.top) : int(box.bottom) + 1, int(box.left) : int(box.right) + 1]
        long, short = max(found.shape), min(found.shape)
        assert found.min() < 100 and short < 45 and long < 60 + 25 * len(text)
    begins = 60 * DPI / 72 - 60, (HEIGHT - 780) * DPI / 72
    assert placed(words["Emma"], degrees) == pytest.approx(begins, abs=10)


def placed(box: Box, degrees: int) -> tuple[float, float]:
    """The corner at which a word begins, on the picture before it was turned."""
    width, height = SCAN.size
    return {
        0: (box.left, box.bottom),
        90: (box.top, height - box.left),
        180: (width - box.right, height - box.top),
        270: (width - box.bottom, box.right),
    }[degrees]


def test_a_crooked_noisy_scan_is_read(loop: asyncio.AbstractEventLoop, documents: Documents) -> None:
    page = only(read(loop, documents, saved(scanned(SCAN, 3), "JPEG", quality=50)))
    assert cer(WANTED, flat(page)) <= 0.05 and abs(page.skew) > 0.3


def test_columns_and_a_table_are_read_in_order(loop: asyncio.AbstractEventLoop, documents: Documents) -> None:
    left, said_left = column(TEXT, font="Helvetica", size=10, x=50, top=740, characters=42)
    right, said_right = column(TEXT[::-1], font="Helvetica", size=10, x=310, top=735, characters=42)
    heading = Put("Helvetica-Bold", 16, 120, 790, "A heading over both of the columns")
    rows = [["Item", "Count", "Price"], ["Blue pens", "12", "9.60"], ["Paper, A4", "5", "21.00"]]
    table = [
        Put("Courier", 11, 60 + 140 * c, 560 - 22 * r, cell) for r, row in enumerate(rows) for c, cell in enumerate(row)
    ]
    data = pdf([[heading, *left, *table], [heading, *left, *right]])
    layer = read(loop, documents, data)
    seen = read(loop, documents, data, ReadOptions(ocr=True, pages=(1, 1), dpi=100))
    assert isinstance(layer[1], Page) and flat(layer[1]) == f"{heading.text} {said_left} {said_right}"
    for page in (layer[0], seen[0]):
        assert isinstance(page, Page)
        assert page.regions[0].text == heading.text
        assert page.regions[-1].kind is Kind.TABLE
        assert page.regions[-1].text == "\n".join("\t".join(row) for row in rows)


def test_what_a_line_is_read_as_does_not_depend_on_its_batch_mates(documents: Documents) -> None:
    (detector,) = [home.backend for home in documents.find._pool.replicas[0].loop.homes.values()]  # type: ignore[attr-defined]
    (recogniser,) = [home.backend for home in documents.read_lines._pool.replicas[0].loop.homes.values()]  # type: ignore[attr-defined]
    pixels = np.asarray(SCAN)
    (quads,) = detector.run([pixels])
    lines = [cut(pixels, quad) for quad in quads]
    widths = [recogniser.bucket(line) for line in lines]
    line = lines[widths.index(max(set(widths), key=widths.count))]
    mates = [other for other in lines if recogniser.bucket(other) == recogniser.bucket(line)]
    (alone,) = recogniser.run([line])
    assert [word[0] for word in recogniser.run([*mates, line])[-1].words] == [word[0] for word in alone.words]


def test_pages_come_in_order_and_a_bad_one_does_not_stop_the_others(
    loop: asyncio.AbstractEventLoop, documents: Documents
) -> None:
    crowd = [Put("Helvetica", 1, 10, 10 + n % 800, "ten of them " * 10) for n in range(900)]
    numbered = [[Put("Helvetica", 12, 60, 700, f"This is the text of page {n}.")] for n in range(1, 6)]
    numbered[2] = crowd
    pages = read(loop, documents, pdf(numbered))
    assert [page.number for page in pages] == [1, 2, 3, 4, 5]
    assert isinstance(pages[2], Unread) and "100,000" in pages[2].error
    assert [flat(page) for page in pages if isinstance(page, Page)] == [
        f"This is the text of page {n}." for n in (1, 2, 4, 5)
    ]


def test_pages_can_be_chosen_and_too_many_are_refused(loop: asyncio.AbstractEventLoop, documents: Documents) -> None:
    many = pdf([[Put("Helvetica", 12, 60, 700, f"This is the text of page {n}.")] for n in range(1, 53)])
    chosen = read(loop, documents, many, ReadOptions(pages=(51, 0)))
    assert [page.number for page in chosen] == [51, 52]
    with pytest.raises(InputTooLarge, match=r"at most 50.*such as 1-50"):
        read(loop, documents, many)
    with pytest.raises(InputInvalid, match="has 52 pages"):
        read(loop, documents, many, ReadOptions(pages=(53, 0)))


@pytest.mark.parametrize("size", [(1, 1), (2, 900), (900, 2), (200, 200)])
def test_a_picture_without_text_has_none(
    loop: asyncio.AbstractEventLoop, documents: Documents, size: tuple[int, int]
) -> None:
    page = only(read(loop, documents, saved(Image.new("RGB", size, "white"))))
    assert (page.text, page.regions) == ("", ())


def test_no_more_documents_at_once_than_there_is_room_for(
    loop: asyncio.AbstractEventLoop, documents: Documents
) -> None:
    async def three() -> None:
        held = [documents.read(DATA), documents.read(DATA)]
        for one in held:
            await anext(one)
        with pytest.raises(Overloaded):
            await anext(documents.read(DATA))
        await held[0].aclose()
        assert isinstance(await anext(documents.read(DATA)), Page)
        await held[1].aclose()

    loop.run_until_complete(three())


@pytest.mark.long
def test_only_the_queue_of_a_stage_that_is_slow_grows(loop: asyncio.AbstractEventLoop, documents: Documents) -> None:
    """Each stage has a device of its own: what holds one up leaves the other idle, not waiting behind it."""

    out = io.BytesIO()
    SCAN.save(out, "TIFF", save_all=True, append_images=[SCAN, SCAN])
    three = out.getvalue()

    async def watched(slow: str, slowness: float) -> dict[str, int]:
        stage = documents.find if slow == "find lines" else documents.read_lines
        device = stage._pool.replicas[0]
        (backend,) = [home.backend for home in device.loop.homes.values()]  # type: ignore[attr-defined]
        run = backend.run

        def slowed(payloads: Sequence[Any]) -> list[Any]:
            time.sleep(slowness)
            return run(payloads)

        backend.run = slowed
        most = {stats.name: 0 for stats in documents.stats()}
        try:
            reading = asyncio.ensure_future(collect(documents.read(three)))
            while not reading.done():
                for stats in documents.stats():
                    most[stats.name] = max(most[stats.name], stats.waiting + stats.running)
                await asyncio.sleep(0.02)
            assert [flat(page) for page in await reading if isinstance(page, Page)] == [WANTED] * 3
        finally:
            backend.run = run
        return most

    finding = loop.run_until_complete(watched("find lines", 1.5))
    lines = len(PUT)
    assert finding["find lines"] >= 2 and finding["read lines"] <= lines
    reading = loop.run_until_complete(watched("read lines", 0.5))
    assert reading["read lines"] > lines and reading["find lines"] <= 3
