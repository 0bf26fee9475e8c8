"""POST /v1/batch/jobs: a recording becomes a job, sent in a form or uploaded before."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError

from batch_jobs.job import Job
from gateway.auth import IDENTITY
from gateway.batch.errors import JobNotFound, UploadIncomplete, WrongType
from gateway.batch.feed import Feed
from gateway.batch.job_request import NO_NAME, JobRequest, clean_name, json_fields
from gateway.batch.lane import Lane
from gateway.batch.upload_store import Writer
from gateway.batch.uploads import parse_metadata
from gateway.batch.views import job_body
from gateway.speak.fields import json_number
from gateway.state import SERVICE, Service
from gateway.telemetry.place import PLACE
from gateway.uploads import Parts, patience, read_parts
from workers.errors import Draining, InputInvalid, InputTooLarge, Overloaded
from workers.labels import label

BODY_BYTES = 1024 * 1024
"""Of JSON; every field at its longest fits in it, each character escaped."""


async def submit(request: web.Request) -> web.Response:
    """201 with the new job. An upload of which a job was made already is answered with that job, and 200."""
    service = request.app[SERVICE]
    try:
        with service.receiving(), service.batch.receiving(request[IDENTITY].owner):
            service.batch.check()
            if request.content_type == "application/json":
                job, created = await _from_upload(request, service)
            elif request.content_type == "multipart/form-data":
                job, created = await _from_form(request, service), True
            else:
                raise WrongType("Send a form (multipart/form-data) with a file, or JSON that names an upload.")
    except (Overloaded, Draining) as error:
        service.metrics.refused("job", error.code)
        raise
    label(job=job.id)
    if (place := PLACE.get()) is not None and service.metrics.traces is not None:
        service.metrics.traces.job_begins(job.id, place.span)
    service.batch.hub.remember([job])
    body = job_body(job)
    return web.json_response(body, status=201 if created else 200, headers={"Location": body["urls"]["self"]})


async def _from_form(request: web.Request, service: Service) -> Job:
    """The file goes to the spool while it comes in, and becomes a job when all fields are known."""
    lane, engine = service.batch, service.engine

    def check(parts: Parts) -> None:
        # What is wrong already need not wait for the file.
        JobRequest.parse(parts.fields, engine, lane.hosts)

    feed = Feed()
    jobs = lane.jobs
    storing = lane.store(lambda: jobs.keep(feed))
    feed.read_by(storing)
    try:
        parts = await read_parts(request, feed.send, max_file_bytes=service.settings.batch_max_file_bytes, check=check)
        asked = JobRequest.parse(parts.fields, engine, lane.hosts)
        if asked.upload is not None:
            raise InputInvalid("Send either a file or the name of an upload.", param="upload")
    except BaseException:
        feed.abandon()
        await asyncio.wait([storing])
        raise
    feed.end()
    source = await storing
    name = asked.name or clean_name(parts.filename) or NO_NAME
    return await lane.call(jobs.create, source, name, asked.options, request[IDENTITY].owner)


async def _from_upload(request: web.Request, service: Service) -> tuple[Job, bool]:
    lane = service.batch
    asked = JobRequest.parse(json_fields(await _json(request)), service.engine, lane.hosts)
    if asked.upload is None:
        raise InputInvalid("Name the upload that holds the recording.", param="upload")
    writer = await lane.disk(lane.uploads.open, asked.upload.rpartition("/")[2], request[IDENTITY].owner)
    try:
        if writer.upload.job is not None:
            return await _made_before(lane, writer.upload.job), False
        if writer.offset < writer.upload.length:
            raise UploadIncomplete(
                f"The upload has {writer.offset} of {writer.upload.length} bytes; send the rest first.", param="upload"
            )
        if not writer.offset:
            raise InputInvalid("The file is empty: send a recording.", param="upload")
        return await _make(lane, writer, asked, request[IDENTITY].owner)
    finally:
        await asyncio.shield(lane.disk(writer.close))


async def _json(request: web.Request) -> Any:
    """The body, which is small: it holds one of the places for files only for as long as it comes."""
    async with patience() as progress:
        body = bytearray()
        try:
            while piece := await request.content.readany():
                progress.made(len(piece))
                body += piece
                if len(body) > BODY_BYTES:
                    raise InputTooLarge(f"The body is longer than {BODY_BYTES} bytes.")
        except (HttpProcessingError, web.RequestPayloadError) as error:
            raise InputInvalid(f"The body is malformed: {error}") from error
    try:
        return json.loads(body.decode(), parse_float=json_number)
    except (ValueError, RecursionError) as error:  # among them numbers of thousands of digits
        raise InputInvalid(f"The body is no JSON: {error}") from error


async def _make(lane: Lane, writer: Writer, asked: JobRequest, owner: str) -> tuple[Job, bool]:
    """The job, and whether it is new: one that was made before the upload could say so is the same job."""
    jobs, id = lane.jobs, writer.upload.job_id
    job: Job | None = await lane.call(jobs.queue.job, id)
    created = job is None
    if job is None:
        # The upload may not be closed under the thread that reads it.
        storing = lane.store(lambda: jobs.keep(writer.pieces()))
        try:
            source = await asyncio.shield(storing)
        except asyncio.CancelledError:
            await asyncio.wait([storing])
            raise
        name = asked.name or clean_name(parse_metadata(writer.upload.metadata).get("filename", "")) or NO_NAME
        job = await lane.call(jobs.create, source, name, asked.options, owner, id)
    await lane.disk(writer.became, id)
    return job, created


async def _made_before(lane: Lane, id: str) -> Job:
    job: Job | None = await lane.call(lane.jobs.queue.job, id)
    if job is None:
        raise JobNotFound("The job that was made of this upload was deleted; upload the file again.", param="upload")
    return job
