"""Pictures and clips of a request, from their URLs to pixels; in threads, a few at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from gateway.vision.remote import PictureHosts
from vision_text.media import ClipPlan, ClipSource, MediaLimits, PictureInfo, data_url, look, open_picture
from vision_text.media.clips import Frames
from vision_text.media.data_urls import SCHEME
from vision_text.media.pictures import Pixels
from workers.errors import InputInvalid

Made = TypeVar("Made")
AT_ONCE = 2
"""Files unpacked at the same time in a service: each takes a core and the room for its pixels."""


@dataclass(frozen=True, slots=True)
class Opener:
    """Opens what a URL leads to."""

    limits: MediaLimits
    hosts: PictureHosts
    free: asyncio.Semaphore

    async def data(self, url: str, name: str) -> bytes:
        """The file. Raises InputInvalid and InputTooLarge, which name the field `name`."""
        if url[: len(SCHEME)].lower() == SCHEME:
            return await asyncio.to_thread(data_url, url, self.limits.file_bytes, name)
        if url.lower().startswith(("http://", "https://")):
            return await self.hosts.fetch(url, self.limits.file_bytes, name)
        raise InputInvalid(f"{name} is no data URL; write data:image/png;base64,DATA.", param=name)

    async def look(self, data: bytes, name: str) -> PictureInfo:
        """What the header of a picture says."""
        return await asyncio.to_thread(look, data, self.limits, name)

    async def picture(self, data: bytes, name: str, most_pixels: int | None = None) -> Pixels:
        """Its pixels, made smaller where there are more of them than that."""

        return await self._in_thread(lambda stopped: open_picture(data, self.limits, name, most_pixels=most_pixels))

    async def clip(self, data: bytes, name: str) -> ClipSource:
        """A clip whose packets have been looked at, and nothing decoded."""
        return await self._in_thread(lambda stopped: ClipSource(data, self.limits, name))

    async def frames(
        self, source: ClipSource, times: Sequence[float], max_pixels: int | None
    ) -> tuple[ClipPlan, Frames]:
        """The frames at these seconds, and which they are."""

        def work(stopped: threading.Event) -> tuple[ClipPlan, Frames]:
            plan = source.plan_at(times, max_pixels)
            return plan, source.frames(plan, stopped.is_set)

        return await self._in_thread(work)

    async def _in_thread(self, work: Callable[[threading.Event], Made]) -> Made:
        """The place stays taken until the thread has ended, also when nobody waits for it any more."""
        await self.free.acquire()
        stopped = threading.Event()
        thread = asyncio.get_running_loop().run_in_executor(None, work, stopped)
        thread.add_done_callback(self._ended)
        try:
            return await asyncio.shield(thread)
        except asyncio.CancelledError:
            stopped.set()
            raise

    def _ended(self, thread: asyncio.Future[Made]) -> None:
        self.free.release()
        if not thread.cancelled():
            thread.exception()  # seen, for nobody may be waiting
