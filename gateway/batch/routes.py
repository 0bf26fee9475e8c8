"""Every route of the batch lane."""

from __future__ import annotations

from aiohttp import web

from gateway.batch import uploads
from gateway.batch.audio import audio
from gateway.batch.events import all_events, job_events
from gateway.batch.jobs import cancel, delete, listing, result, retry, show
from gateway.batch.submit import submit
from gateway.batch.views import JOBS

JOB_ID = "[A-Za-z0-9._:-]{1,128}"
JOB = f"{JOBS}/{{job:{JOB_ID}}}"


def add_routes(app: web.Application) -> None:
    """Add them to the application."""
    router = app.router
    router.add_post(JOBS, submit)
    router.add_get(JOBS, listing)
    router.add_get("/v1/batch/events", all_events, allow_head=False)
    router.add_get(JOB, show)
    router.add_delete(JOB, delete)
    router.add_get(JOB + "/events", job_events, allow_head=False)
    router.add_get(JOB + "/results/{format}", result)
    router.add_get(JOB + "/audio", audio)
    router.add_post(JOB + "/cancel", cancel)
    router.add_post(JOB + "/retry", retry)
    uploads.add_routes(router)
    app.on_response_prepare.append(uploads.sign_version)
