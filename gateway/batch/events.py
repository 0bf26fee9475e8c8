"""Progress as server-sent events: one job until its end, or all of one's own."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web

from batch_jobs.job import Job
from gateway.auth import IDENTITY
from gateway.batch.hub import Gone, Watcher
from gateway.batch.jobs import find
from gateway.batch.views import job_body, may_see
from gateway.state import SERVICE

HEARTBEAT = 15.0
"""Seconds after which something is sent, so that whatever is between does not take the connection for dead."""
HEADERS = {
    "Content-Type": "text/event-stream",
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "X-Accel-Buffering": "no",
}


async def job_events(request: web.Request) -> web.StreamResponse:
    """Event "job" with its state now and at every change, at most five a second; ends when the job has ended."""
    lane = request.app[SERVICE].batch
    with lane.hub.watching(request[IDENTITY].owner, request.match_info["job"]) as watcher:
        job = await find(request)
        response = await _begin(request)
        await _send(response, "job", job_body(job))
        while not job.state.ended:
            news = await _news(request, watcher, response)
            if news is None:
                break
            for id, now in news.items():
                if isinstance(now, Gone):
                    await _send(response, "deleted", {"id": id})
                    await response.write_eof()
                    return response
                job = now
                await _send(response, "job", job_body(job))
    await response.write_eof()
    return response


async def all_events(request: web.Request) -> web.StreamResponse:
    """Event "job" for every change of a job of one's own, "deleted" for one that is gone, until the client goes."""
    lane = request.app[SERVICE].batch
    lane.check()
    identity = request[IDENTITY]
    with lane.hub.watching(identity.owner) as watcher:
        response = await _begin(request)
        while (news := await _news(request, watcher, response)) is not None:
            for id, job in news.items():
                if isinstance(job, Gone):
                    if not identity.owner or job.owner == identity.owner:
                        await _send(response, "deleted", {"id": id})
                elif may_see(identity, job):
                    await _send(response, "job", job_body(job))
    await response.write_eof()
    return response


async def _news(request: web.Request, watcher: Watcher, response: web.StreamResponse) -> dict[str, Job | Gone] | None:
    """What changed, or None when the service goes down. Raises `ConnectionError` when the client is gone."""
    draining = request.app[SERVICE].draining
    down = asyncio.ensure_future(draining.wait())
    try:
        while True:
            some = asyncio.ensure_future(watcher.news())
            try:
                await asyncio.wait({some, down}, timeout=HEARTBEAT, return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not some.done():
                    some.cancel()
            if some.done() and not some.cancelled():
                return some.result()
            if down.done():
                return None
            await response.write(b": still here\n\n")
    finally:
        down.cancel()


async def _begin(request: web.Request) -> web.StreamResponse:
    response = web.StreamResponse(headers=HEADERS)
    await response.prepare(request)
    await response.write(b"retry: 2000\n\n")
    return response


async def _send(response: web.StreamResponse, event: str, body: dict[str, Any]) -> None:
    await response.write(f"event: {event}\ndata: {json.dumps(body, ensure_ascii=False)}\n\n".encode())
