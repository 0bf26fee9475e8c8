"""Telling others that a job has ended: a signed POST to the address it was submitted with, once for each end.

That it was told is kept in the queue's store beside the jobs, so a service that restarts in between goes on where it
was, and of several services one does it. A receiver that answers with an error is tried again, each time later. When
a service dies between the receiver's answer and the note of it, the call comes twice with the same
Speechlane-Delivery.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import json
import logging
import random
import time
import traceback
from typing import TYPE_CHECKING

import aiohttp

from batch_jobs.job import Job
from gateway.batch.hub import Gone
from gateway.batch.views import job_body
from gateway.batch.webhook_hosts import AddressRefused, CheckedResolver, Target
from workers.errors import InputInvalid, ServingError

if TYPE_CHECKING:
    from gateway.batch.lane import Lane

log = logging.getLogger("speechlane.batch")

DELAYS = (1.0, 5.0, 25.0, 125.0, 600.0)
"""Seconds before the second and each further attempt, give or take a fifth."""
TIMEOUT = 10.0
CLAIM_SECONDS = 12
"""So long after an attempt should have been made others make it. Longer than an attempt takes."""
AT_ONCE = 8
MAX_WAITING = 1000
MAX_KNOWN = 50_000


class Webhooks:
    """Delivers for one service."""

    def __init__(self, lane: Lane, secret: str) -> None:
        self._lane, self._secret = lane, secret.encode()
        self._notices = lane.jobs.queue.notices()
        self._free = asyncio.Semaphore(AT_ONCE)
        self._waiting: dict[str, asyncio.Task[None]] = {}
        self._over: set[str] = set()
        """Deliveries that need no more asking; forgotten when there are too many of them."""

    async def run(self) -> None:
        """Until cancelled."""
        with self._lane.hub.surveying() as watcher:
            try:
                async with asyncio.TaskGroup() as group:
                    while True:
                        for job in (await watcher.news()).values():
                            if not isinstance(job, Gone):
                                self._consider(job, group)
            finally:
                self._waiting.clear()

    def _consider(self, job: Job, group: asyncio.TaskGroup) -> None:
        name = _name(job)
        if not job.options.webhook or not job.state.ended or name in self._waiting or name in self._over:
            return
        if len(self._waiting) < MAX_WAITING:  # what does not fit now is told again later
            task = self._waiting[name] = group.create_task(self._deliver(job))
            task.add_done_callback(lambda _: self._waiting.pop(name, None))

    async def _deliver(self, job: Job) -> None:
        name, outcome = _name(job), ""
        try:
            # Another service may have it. When that one dies, its claim ends.
            while not await self._claim(name, CLAIM_SECONDS):
                if name in self._over:
                    return
                await asyncio.sleep(CLAIM_SECONDS)
            for delay in (0.0, *DELAYS):
                if delay:
                    log.info("webhook of job %s: %s; trying again", job.id, outcome)
                    wait = delay * random.uniform(0.8, 1.2)
                    await self._claim(name, int(wait) + CLAIM_SECONDS)
                    await asyncio.sleep(wait)
                async with self._free:
                    if not await self._claim(name, CLAIM_SECONDS):
                        return
                    outcome, final = await self._attempt(job)
                if final:
                    break
            await self._lane.call(self._notices.settle, name, outcome, int(self._lane.keep) + 86_400)
        except ServingError as error:
            log.warning("webhook of job %s waits: %s", job.id, error.message)  # it is told again later
            return
        except Exception as error:
            # One that nobody foresaw takes no other with it. Its text may hold the URL.
            places = "".join(traceback.format_tb(error.__traceback__))
            log.error("webhook of job %s failed: %s\n%s", job.id, type(error).__name__, places)
            return
        self._lane.metrics.webhook("delivered" if outcome == "delivered" else "failed")
        if outcome != "delivered":
            log.warning("webhook of job %s was not delivered: %s", job.id, outcome)

    async def _attempt(self, job: Job) -> tuple[str, bool]:
        """What came of it: "delivered" or why not, and whether that is the last word."""
        try:
            # The list may have become narrower since the job was submitted.
            target = self._lane.hosts.check(job.options.webhook or "")
        except InputInvalid as error:
            return error.message, True
        event = {"type": f"job.{job.state}", "delivery": _name(job), "job": job_body(job)}
        body = json.dumps(event, ensure_ascii=False).encode()
        try:
            status = await self._post(target, body, _name(job))
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            return _said(error), False
        if 200 <= status < 300:
            return "delivered", True
        # 410: the receiver wants no more of it.
        return f"the receiver answered {status}", status == 410

    async def _post(self, target: Target, body: bytes, delivery: str) -> int:
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "speechlane",
            "Speechlane-Signature": sign(self._secret, body, int(time.time())),
            "Speechlane-Delivery": delivery,
        }
        connector = aiohttp.TCPConnector(
            resolver=CheckedResolver(target.private), use_dns_cache=False, force_close=True, limit=1
        )
        timeout = aiohttp.ClientTimeout(total=TIMEOUT)
        async with (
            aiohttp.ClientSession(
                connector=connector, timeout=timeout, trust_env=False, cookie_jar=aiohttp.DummyCookieJar()
            ) as session,
            session.post(target.url, data=body, headers=headers, allow_redirects=False) as answer,
        ):
            return answer.status

    async def _claim(self, name: str, seconds: int) -> bool:
        """Whether this service is the one that delivers it, now and for so long."""
        if await self._lane.call(self._notices.claim, name, seconds):
            return True
        if await self._lane.call(self._notices.outcome, name) is not None:
            if len(self._over) >= MAX_KNOWN:
                self._over.clear()
            self._over.add(name)
        return False


def sign(secret: bytes, body: bytes, now: int) -> str:
    """The header Speechlane-Signature: t=NOW,v1=HMAC-SHA256 of "NOW.body" in hex."""
    return f"t={now},v1={hmac.new(secret, str(now).encode() + b'.' + body, hashlib.sha256).hexdigest()}"


def _said(error: Exception) -> str:
    """What went wrong with a call. The text of aiohttp's own errors may hold the URL, and that a secret."""
    cause = getattr(error, "os_error", error)  # of a connection; one of its kinds has none
    if isinstance(cause, AddressRefused):
        return f"{type(error).__name__}: {cause}"[:200]
    reason = cause.strerror if isinstance(cause, OSError) and not isinstance(cause, aiohttp.ClientError) else None
    return f"{type(error).__name__}: {reason}"[:200] if reason else type(error).__name__


def _name(job: Job) -> str:
    """One end of one job: a job that is tried again ends again."""
    return f"{job.id}-{int((job.ended or 0.0) * 1000)}"
