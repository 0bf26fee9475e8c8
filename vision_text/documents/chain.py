"""Documents to text: opening → the text layer, or finding lines → reading them → layout. A stage each, pages overlap.

Every stage has devices of its own: a page on a CPU keeps the detector busy for most of a second, and a step loop cannot
be interrupted, so nothing that is live may share one. The threads of the stages run at low priority instead and get
what the live models leave.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TypeVar

from vision_text.documents.layout import lines_of, regions_of
from vision_text.documents.ocr import Detector, Pixels, Quad, Read, Recogniser, cut
from vision_text.documents.opened import OpenedDocument, Sheet
from vision_text.documents.page import Page, Source
from vision_text.documents.reading import laid_out, lies_on_its_side, stands_on_its_head, turn
from vision_text.documents.stage import Stage, StageStats
from workers.clock import monotonic
from workers.device import Device
from workers.errors import InputInvalid, InputTooLarge, Overloaded
from workers.pool import Pool
from workers.task import Lane

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DocumentSettings:
    """Limits of the chain. `replicas`: devices of each OCR stage. `documents`: open at once; past it, `Overloaded`."""

    replicas: int = 1
    threads: int = 1
    documents: int = 8
    pages: int = 2000
    file_bytes: int = 256 << 20
    page_seconds: float = 120.0
    """By when a page should be read: the deadline of its tasks."""


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """`pages`: first and last, from 1, the last may be 0 for the end. `ocr`: read the picture though there is text."""

    pages: tuple[int, int] = (1, 0)
    dpi: int = 150
    ocr: bool = False
    password: str | None = None

    def __post_init__(self) -> None:
        first, last = self.pages
        if first < 1 or (last and last < first):
            raise InputInvalid("pages is FIRST-LAST, counted from 1", param="pages")
        if not 50 <= self.dpi <= 400:
            raise InputInvalid("dpi is from 50 to 400", param="dpi")


@dataclass(frozen=True, slots=True)
class Unread:
    """A page that failed, and why; the others of its document go on."""

    number: int
    error: str


class Documents:
    """Made by `start`, ended by `close`."""

    def __init__(self, settings: DocumentSettings, finding: Sequence[Device], reading: Sequence[Device]) -> None:
        self._settings = settings
        self._devices = (*finding, *reading)
        self.find = Stage("find lines", Pool(Detector.spec.model, finding), 2 * len(finding))
        self.read_lines = Stage("read lines", Pool(Recogniser.spec.model, reading), 64 * len(reading))
        self._opening = ThreadPoolExecutor(settings.documents, "documents")
        self._shaping = ThreadPoolExecutor(1, "layout")
        self._open = 0

    @classmethod
    async def start(cls, settings: DocumentSettings) -> Documents:
        """Load the models, which are in a wheel."""
        finding = [Device(f"ocr-find:{index}") for index in range(settings.replicas)]
        reading = [Device(f"ocr-read:{index}") for index in range(settings.replicas)]
        for device in finding:
            device.add(Detector(settings.threads))
        for device in reading:
            device.add(Recogniser(settings.threads))
        await asyncio.gather(*(asyncio.to_thread(device.start) for device in (*finding, *reading)))
        return cls(settings, finding, reading)

    def stats(self) -> tuple[StageStats, ...]:
        return self.find.stats(), self.read_lines.stats()

    async def close(self) -> None:
        for device in self._devices:
            await asyncio.to_thread(device.close)
        self._opening.shutdown(wait=False, cancel_futures=True)
        self._shaping.shutdown(wait=False, cancel_futures=True)

    async def read(
        self, data: bytes, options: ReadOptions | None = None, *, lane: Lane = Lane.BULK
    ) -> AsyncGenerator[Page | Unread, None]:
        """The pages of a PDF or picture, in order, each as soon as it and those before it are read.

        Raises `InputInvalid`, `InputTooLarge` and `Overloaded` before the first page.
        """
        options = options or ReadOptions()
        if len(data) > self._settings.file_bytes:
            raise InputTooLarge(f"The file is larger than {self._settings.file_bytes >> 20} MiB.", param="file")
        if self._open >= self._settings.documents:
            raise Overloaded(f"{self._open} documents are being read.", retry_after=5.0)
        self._open += 1
        loop = asyncio.get_running_loop()
        try:
            document = await loop.run_in_executor(
                self._opening, lambda: OpenedDocument(data, password=options.password)
            )
            try:
                async for page in self._pages(document, options, lane):
                    yield page
            finally:
                await asyncio.shield(loop.run_in_executor(self._opening, document.close))
        finally:
            self._open -= 1

    async def _pages(
        self, document: OpenedDocument, options: ReadOptions, lane: Lane
    ) -> AsyncGenerator[Page | Unread, None]:
        first, last = options.pages[0], options.pages[1] or document.pages
        last = min(last, document.pages)
        if first > document.pages:
            raise InputInvalid(f"The document has {document.pages} pages.", param="pages")
        if last - first + 1 > self._settings.pages:
            raise InputTooLarge(
                f"The document has {last - first + 1:,} pages; at most {self._settings.pages:,} are read at once: name "
                f"some with `pages`, such as {first}-{first + self._settings.pages - 1}.",
                param="pages",
            )
        # As many pages ahead as keep both stages busy: each holds its picture, tens of megabytes.
        ahead = 2 * self._settings.replicas + 1
        waiting: list[asyncio.Task[Page | Unread]] = []
        try:
            for number in range(first, last + 1):
                sheet = await self._sheet(document, number, options)
                waiting.append(asyncio.create_task(self._page(sheet, lane)))
                if len(waiting) >= ahead:
                    yield await waiting.pop(0)
            while waiting:
                yield await waiting.pop(0)
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def _sheet(self, document: OpenedDocument, number: int, options: ReadOptions) -> Sheet | Unread:
        try:
            return await asyncio.get_running_loop().run_in_executor(
                self._opening, lambda: document.sheet(number, dpi=options.dpi, ocr=options.ocr)
            )
        except (InputInvalid, InputTooLarge) as error:
            return Unread(number, error.message)

    async def _page(self, sheet: Sheet | Unread, lane: Lane) -> Page | Unread:
        if isinstance(sheet, Unread):
            return sheet
        try:
            if sheet.words is not None:
                words = sheet.words
                regions = await self._shape(lambda: regions_of(lines_of(words)))
                return Page(sheet.number, sheet.width, sheet.height, sheet.unit, Source.LAYER, tuple(regions))
            assert sheet.picture is not None
            return await self._read(sheet, sheet.picture, lane)
        except (InputInvalid, InputTooLarge) as error:
            return Unread(sheet.number, error.message)

    async def _read(self, sheet: Sheet, picture: Pixels, lane: Lane) -> Page:
        deadline = monotonic() + self._settings.page_seconds
        turned = 0
        quads: Quad = await self.find.run(picture, lane=lane, deadline=deadline)
        if lies_on_its_side(quads):
            turned, picture = 90, await self._shape(lambda: turn(picture, 90))
            quads = await self.find.run(picture, lane=lane, deadline=deadline)
        reads = await self._lines(picture, quads, lane, deadline)
        if stands_on_its_head(reads):
            turned, picture = turned + 180, await self._shape(lambda: turn(picture, 180))
            quads = await self.find.run(picture, lane=lane, deadline=deadline)
            reads = await self._lines(picture, quads, lane, deadline)
        shape, size = (picture.shape[0], picture.shape[1]), (sheet.width, sheet.height)
        regions, skew = await self._shape(lambda: laid_out(quads, reads, shape, size, turned))
        return Page(
            sheet.number, sheet.width, sheet.height, sheet.unit, Source.OCR, tuple(regions), turned, round(skew, 2)
        )

    async def _lines(self, picture: Pixels, quads: Quad, lane: Lane, deadline: float) -> list[Read]:
        lines = await self._shape(lambda: [cut(picture, quad) for quad in quads])
        async with asyncio.TaskGroup() as group:
            reading = [group.create_task(self.read_lines.run(line, lane=lane, deadline=deadline)) for line in lines]
        return [task.result() for task in reading]

    async def _shape(self, work: Callable[[], T]) -> T:
        """Geometry and pixels, off the event loop."""
        return await asyncio.get_running_loop().run_in_executor(self._shaping, work)
