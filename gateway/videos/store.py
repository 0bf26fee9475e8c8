"""Videos of a service: those that wait, the one in the making, those that are done, all of them in this process.

What is promised: a video that is done can be fetched until `expires_at`, as long as the service runs and its owner has
not made more of them than are kept; then the oldest goes. Nothing of them survives the process.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import shutil
import tempfile
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from gateway.batch.places import share
from gateway.vision.names import on_the_wire
from vision_text.denoise.request import Asked, Made, Preview
from vision_text.media.encode import clip_file, picture_file
from workers.errors import Cancelled, InputInvalid, Overloaded, ServingError
from workers.task import Lane

if TYPE_CHECKING:
    from gateway.metrics import Metrics
    from gateway.settings import Settings
    from vision_text.videos.filmer import Filmer

log = logging.getLogger("speechlane.videos")

State = Literal["queued", "in_progress", "completed", "failed"]
STATES: tuple[State, ...] = ("queued", "in_progress", "completed", "failed")
BUSY_RETRY = 30.0
SWEEP_SECONDS = 15.0


class VideoNotFound(InputInvalid):
    """There is no such video, or it is another's, or it has gone."""

    code = "not_found"
    status = 404


class VideoNotReady(InputInvalid):
    """It is not done."""

    code = "not_ready"
    status = 409


@dataclass(eq=False)
class Video:
    """One video. `version` rises with every change, so that those who watch can tell; times in seconds since 1970."""

    owner: str
    model: str
    asked: Asked
    id: str = field(default_factory=lambda: f"video_{secrets.token_hex(12)}")
    created_at: float = field(default_factory=time.time)
    state: State = "queued"
    progress: int = 0
    completed_at: float | None = None
    expires_at: float | None = None
    made: Made | None = None
    """Without its frames, which are in the file."""
    error: ServingError | None = None
    preview: bytes | None = None
    """A PNG of the middle frame as it looks so far."""
    version: int = 0
    gone: bool = False
    task: asyncio.Task[None] | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def ended(self) -> bool:
        return self.state in ("completed", "failed")

    def change(self) -> None:
        """Tell those who watch."""
        self.version += 1
        self.changed.set()
        self.changed = asyncio.Event()


class Videos:
    """Makes one after the other, in the order they came, and keeps what is made in a folder of its own."""

    def __init__(self, settings: Settings, metrics: Metrics) -> None:
        self._most, self._keep = settings.max_videos, settings.video_keep_seconds
        self._each = share(settings.max_videos, settings.key_count())
        self._metrics = metrics
        self._videos: dict[str, Video] = {}
        self._turn = asyncio.Lock()
        self._folder: Path | None = None
        self._sweeper: asyncio.Task[None] | None = None

    def create(self, owner: str, model: str, asked: Asked, filmer: Filmer, lane: Lane) -> Video:
        """Begin one. Raises `Overloaded` when as many as there may be are not yet done."""
        waiting = [video for video in self._videos.values() if not video.ended]
        if len(waiting) >= self._most:
            raise Overloaded(f"{len(waiting)} videos wait already.", retry_after=BUSY_RETRY)
        if sum(video.owner == owner for video in waiting) >= self._each:
            raise Overloaded(f"{self._each} videos of this key wait already.", retry_after=BUSY_RETRY)
        if self._sweeper is None:
            self._sweeper = asyncio.create_task(self._sweep())
        video = Video(owner, model, asked)
        self._videos[video.id] = video
        video.task = asyncio.create_task(self._make(video, filmer, lane))
        self._count()
        return video

    def find(self, owner: str, id: str) -> Video:
        """Raises `VideoNotFound`."""
        video = self._videos.get(id)
        if video is None or video.owner != owner:
            raise VideoNotFound(f"There is no video {id[:100]!r}; it may have expired, or the service has restarted.")
        return video

    def listed(self, owner: str) -> list[Video]:
        """All of an owner's, newest first."""
        return [video for video in reversed(self._videos.values()) if video.owner == owner]

    def file(self, video: Video) -> Path:
        """Where the MP4 lies. Raises `VideoNotReady`."""
        if video.state != "completed" or self._folder is None:
            why = video.error.message if video.error is not None else "ask again when its status is completed"
            raise VideoNotReady(f"The video {video.id} is {video.state.replace('_', ' ')}: {why}.")
        return self._folder / f"{video.id}.mp4"

    async def delete(self, video: Video) -> None:
        """Stop it, if it is not done, and forget it."""
        self._videos.pop(video.id, None)
        video.gone = True
        video.change()
        if video.task is not None and not video.task.done():
            video.task.cancel()
            await asyncio.wait([video.task])
        if self._folder is not None:
            await asyncio.to_thread((self._folder / f"{video.id}.mp4").unlink, missing_ok=True)
        self._count()

    async def watch(self, video: Video) -> AsyncGenerator[Video, None]:
        """The video now and whenever it has changed, until it has ended or is gone. What changes faster than it is read
        is told once."""
        while True:
            version, changed = video.version, video.changed
            yield video
            if video.ended or video.gone:
                return
            if video.version == version:
                await changed.wait()

    async def close(self) -> None:
        """Stop everything and forget it."""
        if self._sweeper is not None:
            self._sweeper.cancel()
        for video in list(self._videos.values()):
            await self.delete(video)
        if self._folder is not None:
            await asyncio.to_thread(shutil.rmtree, self._folder, ignore_errors=True)

    async def _make(self, video: Video, filmer: Filmer, lane: Lane) -> None:
        metrics, began = self._metrics.vision, time.monotonic()
        try:
            async with self._turn:
                self._change(video, "in_progress")
                made = await self._made(video, filmer, lane)
            await self._store(video, made)
            metrics.made("video", made, time.monotonic() - began)
        except asyncio.CancelledError:
            metrics.not_made("video", "cancelled")
            raise
        except Exception as error:
            if not isinstance(error, ServingError):
                log.exception("the video %s could not be made", video.id)
                error = ServingError("The service failed on this video; its log says why.")
            metrics.not_made("video", "failed")
            video.error = on_the_wire(error)
            self._end(video, "failed")

    async def _made(self, video: Video, filmer: Filmer, lane: Lane) -> Made:
        made: Made | None = None
        async with aclosing(filmer.make(video.asked, lane=lane)) as making:
            async for part in making:
                if isinstance(part, Made):
                    made = part
                else:
                    await self._look(video, part)
        if made is None:
            raise Cancelled("the video was given up before it was done")
        return made

    async def _look(self, video: Video, part: Preview) -> None:
        video.progress = min(99, 100 * part.step // max(1, part.steps))
        middle = part.frames[len(part.frames) // 2]
        video.preview = await asyncio.to_thread(picture_file, middle)
        video.change()

    async def _store(self, video: Video, made: Made) -> None:
        data = await asyncio.to_thread(clip_file, made.frames, video.asked.fps)
        if self._folder is None:
            self._folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="speechlane-videos-"))
        await asyncio.to_thread((self._folder / f"{video.id}.mp4").write_bytes, data)
        video.made = replace(made, frames=made.frames[:1].copy())
        video.progress = 100
        self._end(video, "completed")
        kept = [other for other in self._videos.values() if other.owner == video.owner and other.ended]
        for old in kept[: max(0, len(kept) - self._each)]:
            await self.delete(old)

    def _end(self, video: Video, state: State) -> None:
        now = time.time()
        video.completed_at, video.expires_at = now, now + self._keep
        self._change(video, state)

    def _change(self, video: Video, state: State) -> None:
        video.state = state
        video.change()
        self._count()

    def _count(self) -> None:
        for state in STATES:
            self._metrics.vision.videos(state, sum(video.state == state for video in self._videos.values()))

    async def sweep(self) -> None:
        """Forget what has expired."""
        now = time.time()
        for video in list(self._videos.values()):
            if video.expires_at is not None and video.expires_at <= now:
                with suppress(OSError):
                    await self.delete(video)

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(SWEEP_SECONDS)
            await self.sweep()
