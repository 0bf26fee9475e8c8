"""The batch lane inside the service: opened beside the models, run on their bulk lane.

Nothing of it may hold up live speech: the queue and the files are reached from threads of its own, a queue that cannot
be opened leaves the rest of the service as it is, and is tried again.
"""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Literal, ParamSpec, TypeVar

from redis.exceptions import RedisError

from batch_jobs.settings import BatchSettings
from gateway.batch.errors import BatchUnavailable
from gateway.batch.hub import Hub
from gateway.batch.places import Places, share
from gateway.batch.tally import Tally
from gateway.batch.upload_store import UploadStore
from gateway.batch.webhook_hosts import WebhookHosts
from gateway.batch.webhooks import Webhooks
from gateway.metrics import Metrics
from gateway.settings import Settings
from workers.errors import Overloaded, ServingError

if TYPE_CHECKING:
    from batch_jobs.jobs import Jobs
    from speech.engine import Engine

log = logging.getLogger("speechlane.batch")

P = ParamSpec("P")
T = TypeVar("T")
State = Literal["off", "opening", "ready", "unavailable"]

CALL_THREADS, DISK_THREADS = 8, 8
MAX_WAITING = 256
"""Calls that wait for the queue at most; more are refused, for then it is the queue that is slow."""
REOPEN_SECONDS = 10.0
RESTART_SECONDS = 5.0
SWEEP_SECONDS = 600.0
CLOSE_SECONDS = 8.0
UPLOAD_KEEP_SECONDS = 86_400.0
EMPTY_KEEP_SECONDS = 900.0
MAX_UPLOADS = 256
BUSY_RETRY = 10.0


class Lane:
    """The jobs of one service. `jobs` and `uploads` are for `call` and `disk`: both block."""

    def __init__(self, settings: Settings, metrics: Metrics, draining: asyncio.Event) -> None:
        self.metrics = metrics
        self._settings, self._draining = settings, draining
        self.state: State = "opening" if settings.batch else "off"
        self.detail = ""
        """What is wrong with the queue at the moment, for who runs the service."""
        self.keep = settings.batch_keep_seconds
        """Seconds for which jobs that have ended are kept."""
        self.hosts = WebhookHosts(settings.webhook_hosts)
        self._keys = settings.key_count()
        self.hub = Hub(self, self._keys)
        self._jobs: Jobs | None = None
        self._uploads: UploadStore | None = None
        self._calls = ThreadPoolExecutor(CALL_THREADS, "batch-call")
        self._disk = ThreadPoolExecutor(DISK_THREADS, "batch-disk")
        self._stores = ThreadPoolExecutor(settings.batch_uploads, "batch-store")
        places = settings.batch_uploads
        self._receiving = Places(places, share(places, self._keys), "files are being received", BUSY_RETRY)
        self._waiting = 0

    @property
    def jobs(self) -> Jobs:
        """Raises `BatchUnavailable` while there is no queue."""
        self.check()
        assert self._jobs is not None
        return self._jobs

    @property
    def uploads(self) -> UploadStore:
        """Raises `BatchUnavailable` while there is no queue."""
        self.check()
        assert self._uploads is not None
        return self._uploads

    def check(self) -> None:
        """Raises `BatchUnavailable` while there is no queue."""
        match self.state:
            case "off":
                raise BatchUnavailable("Jobs are switched off here; start the service with --batch.")
            case "opening":
                raise BatchUnavailable("The queue of jobs is being opened; try again in a few seconds.")
            case "unavailable":
                raise BatchUnavailable("The queue of jobs cannot be opened; /readyz and the service's log say why.")

    async def call(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run something that asks the queue, in a thread; raises `BatchUnavailable` when the queue does not answer."""
        if self._waiting >= MAX_WAITING:
            raise Overloaded("The queue of jobs answers slowly; try again later.", retry_after=BUSY_RETRY)
        self._waiting += 1
        try:
            answer = await self._run(self._calls, partial(work, *args, **more))
        except RedisError as error:
            self.detail = _safe(error)
            log.warning("the queue of jobs does not answer: %s", self.detail)
            raise BatchUnavailable("The queue of jobs does not answer; try again in a few seconds.") from error
        finally:
            self._waiting -= 1
        self.detail = ""
        return answer

    async def disk(self, work: Callable[P, T], *args: P.args, **more: P.kwargs) -> T:
        """Run something that reads or writes a piece of a file, in a thread."""
        return await self._run(self._disk, partial(work, *args, **more))

    def store(self, work: Callable[[], T]) -> asyncio.Future[T]:
        """Begin something that takes as long as a whole file; only inside `receiving`, so that there is a thread."""
        return asyncio.get_running_loop().run_in_executor(self._stores, work)

    def receiving(self, owner: str) -> AbstractContextManager[None]:
        """Hold one of the places for files that come in; raises `Overloaded` when there is none."""
        return self._receiving.hold(owner)

    async def _run(self, threads: ThreadPoolExecutor, work: Callable[[], T]) -> T:
        return await asyncio.get_running_loop().run_in_executor(threads, work)

    async def run(self, engine: Callable[[], Awaitable[Engine | None]]) -> None:
        """Its whole life, until cancelled; `engine` is waited for, None means that there will be none."""
        if self.state == "off":
            return
        try:
            await self._open()
            async with asyncio.TaskGroup() as group:
                group.create_task(self._keep("news of jobs", self.hub.run))
                group.create_task(self._keep("count of jobs", Tally(self.hub, self.metrics, time.time()).run))
                group.create_task(self._keep("sweep", self._sweep))
                group.create_task(self._keep("worker", partial(self._work, engine)))
                if self._settings.webhook_secret is not None and self._settings.webhook_hosts:
                    webhooks = Webhooks(self, self._settings.webhook_secret.get_secret_value())
                    group.create_task(self._keep("webhooks", webhooks.run))
        finally:
            await self._close()

    async def _open(self) -> None:
        said = None
        while self._jobs is None:
            opening = asyncio.get_running_loop().run_in_executor(self._calls, self._open_now)
            try:
                self._jobs = await asyncio.shield(opening)
            except asyncio.CancelledError:
                with suppress(Exception):
                    async with asyncio.timeout(CLOSE_SECONDS):
                        self._jobs = await opening
                raise
            except Exception as error:
                self.state, self.detail = "unavailable", _safe(error)
                if self.detail != said:
                    known = isinstance(error, ServingError | RedisError | OSError | ValueError)
                    log.error("the queue of jobs cannot be opened: %s", self.detail, exc_info=not known)
                    said = self.detail
                await asyncio.sleep(REOPEN_SECONDS)
        self.state, self.detail = "ready", ""
        log.info("the queue of jobs is open")

    def _open_now(self) -> Jobs:
        self._uploads = UploadStore(
            self._uploads_directory(),
            max_uploads=MAX_UPLOADS,
            max_bytes=self._settings.batch_spool_bytes,
            keep=UPLOAD_KEEP_SECONDS,
            keep_empty=EMPTY_KEEP_SECONDS,
            keys=self._keys,
        )
        # What it imports takes seconds, in which the loop has to answer /healthz.
        module: Any = importlib.import_module("batch_jobs.jobs")
        jobs: Jobs = module.Jobs.open(batch_settings(self._settings))
        return jobs

    def _uploads_directory(self) -> Any:
        return batch_settings(self._settings).directory / "uploads"

    async def _keep(self, name: str, work: Callable[[], Awaitable[None]]) -> None:
        """Run `work` to its end, and again when it fails: one part that fails takes no other with it."""
        while True:
            try:
                await work()
                return
            except Exception as error:
                foreseen = isinstance(error, ServingError | RedisError)
                log.error("%s: failed and is started again: %s", name, _safe(error), exc_info=not foreseen)
            await asyncio.sleep(RESTART_SECONDS)

    async def _work(self, engine: Callable[[], Awaitable[Engine | None]]) -> None:
        """Run a worker on the engine's bulk lane until the service goes down."""
        loaded = await engine()
        if loaded is None or not self._settings.batch_concurrency or self._draining.is_set():
            return
        module: Any = importlib.import_module("batch_jobs.worker")
        await module.Worker(self.jobs, loaded, self._settings.batch_concurrency).run(self._draining)

    async def _sweep(self) -> None:
        """Delete what is older than it may be."""
        while True:
            gone = await self.call(self.jobs.purge, self.keep)
            if gone:
                log.info("%d old jobs were deleted", gone)
            await self.disk(self.uploads.sweep)
            await asyncio.sleep(SWEEP_SECONDS)

    async def _close(self) -> None:
        jobs, self._jobs = self._jobs, None
        self.state = "opening"
        if jobs is not None:
            with suppress(TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    await self._run(self._calls, jobs.close)
        for threads in (self._calls, self._disk, self._stores):
            threads.shutdown(wait=False, cancel_futures=True)


def batch_settings(settings: Settings) -> BatchSettings:
    """The lane's own settings."""
    known = BatchSettings() if settings.batch_dir is None else BatchSettings(directory=settings.batch_dir)
    return BatchSettings(
        directory=known.directory.absolute(),
        redis_url=settings.redis_url.get_secret_value() if settings.redis_url is not None else None,
        spool_url=settings.spool_url,
        max_file_bytes=settings.batch_max_file_bytes,
        max_seconds=settings.batch_max_seconds,
        spool_bytes=settings.batch_spool_bytes,
        keep=settings.batch_keep_seconds,
    )


def _safe(error: BaseException) -> str:
    """What went wrong, in a line. Errors of the queue name its address without the password."""
    return f"{type(error).__name__}: {error}".replace("\n", " ")[:500]
