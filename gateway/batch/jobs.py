"""What becomes of jobs: look, list, cancel, try again, delete, fetch the results."""

from __future__ import annotations

from urllib.parse import quote

from aiohttp import web

from batch_jobs.job import FORMATS, Job, State
from gateway.auth import IDENTITY
from gateway.batch.errors import JobConflict, JobNotFound
from gateway.batch.views import job_body, may_see
from gateway.fields import Fields, choice, nothing_else, number, one
from gateway.state import SERVICE
from workers.errors import InputInvalid

PAGE, MAX_PAGE = 50, 200
TYPES = {
    "txt": "text/plain",
    "srt": "application/x-subrip",
    "vtt": "text/vtt",
    "tsv": "text/tab-separated-values",
    "json": "application/json",
}


async def find(request: web.Request) -> Job:
    """The job that the path names; raises `JobNotFound`, also when it is somebody else's."""
    lane = request.app[SERVICE].batch
    job: Job | None = await lane.call(lane.jobs.queue.job, request.match_info["job"])
    if job is None or not may_see(request[IDENTITY], job):
        raise JobNotFound("There is no such job; GET /v1/batch/jobs lists yours.")
    return job


async def show(request: web.Request) -> web.Response:
    """The job as it is now."""
    return web.json_response(job_body(await find(request)))


async def listing(request: web.Request) -> web.Response:
    """One's own jobs, newest first; `before` is the last id of the page before."""
    fields: Fields = {name: request.query.getall(name) for name in request.query}
    state = choice(fields, "state", (*State, ""), "")
    limit = number(fields, "limit", 1, MAX_PAGE, PAGE)
    before = one(fields, "before") or None
    nothing_else(fields)
    lane = request.app[SERVICE].batch
    found = await lane.call(
        lane.jobs.list,
        state=State(state) if state else None,
        owner=request[IDENTITY].owner or None,
        limit=int(limit) + 1,
        before=before,
    )
    page = found[: int(limit)]
    lane.hub.remember(page)
    return web.json_response(
        {"object": "list", "data": [job_body(job) for job in page], "has_more": len(found) > len(page)}
    )


async def cancel(request: web.Request) -> web.Response:
    """Stop it; a job that has ended stays as it is (409)."""
    job, lane = await find(request), request.app[SERVICE].batch
    if not await lane.call(lane.jobs.cancel, job.id):
        raise JobConflict("The job has ended already.")
    return await _now(request)


async def retry(request: web.Request) -> web.Response:
    """Try again what could not be transcribed, or the whole job when it failed or was cancelled."""
    job, lane = await find(request), request.app[SERVICE].batch
    request.app[SERVICE].refuse_when_draining()
    if not await lane.call(lane.jobs.retry, job.id):
        raise JobConflict("The job is running, or nothing of it failed.")
    return await _now(request)


async def delete(request: web.Request) -> web.Response:
    """The job and its results go, cancelled first when it runs; its file when no job has it and room is made."""
    job, lane = await find(request), request.app[SERVICE].batch
    if not job.state.ended:
        await lane.call(lane.jobs.cancel, job.id)
    await lane.call(lane.jobs.delete, job.id)
    lane.hub.changed(job.id)
    return web.Response(status=204)


async def result(request: web.Request) -> web.Response:
    """The transcript in one format; 409 while there is none."""
    kind = request.match_info["format"]
    if kind not in FORMATS:
        raise InputInvalid(f"There is no format {kind[:60]!r}; it can be {', '.join(FORMATS)}.", param="format")
    job, lane = await find(request), request.app[SERVICE].batch
    body = await lane.call(lane.jobs.render, job.id, kind)
    stem = job.name.rpartition(".")[0] or job.name
    headers = {"Content-Disposition": attachment(f"{stem}.{kind}"), "Cache-Control": "no-store"}
    return web.Response(body=body, content_type=TYPES[kind], charset="utf-8", headers=headers)


def attachment(name: str) -> str:
    """Content-Disposition that has a browser save the file, never show it as a page of this service."""
    plain = "".join(letter if (letter.isascii() and letter.isalnum()) or letter in "._- " else "_" for letter in name)
    return f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(name, safe='')}"


async def _now(request: web.Request) -> web.Response:
    job = await find(request)
    request.app[SERVICE].batch.hub.changed(job.id)
    return web.json_response(job_body(job))
