"""A job as the wire shows it, and whose it is."""

from __future__ import annotations

import json
from typing import Any

from batch_jobs.job import FORMATS, Job
from batch_jobs.wire import dump
from gateway.auth import Identity

JOBS = "/v1/batch/jobs"


def job_body(job: Job) -> dict[str, Any]:
    """All fields of the job, how far it is, and where more of it is found."""
    at = f"{JOBS}/{job.id}"
    urls = {
        "self": at,
        "events": f"{at}/events",
        "audio": f"{at}/audio",
        "results": {kind: f"{at}/results/{kind}" for kind in FORMATS},
    }
    body: dict[str, Any] = json.loads(dump(job))
    return body | {"progress": round(job.progress, 4), "urls": urls}


def may_see(identity: Identity, job: Job) -> bool:
    """A key sees its own jobs; who uses a service without keys is who runs it, and sees all."""
    return not identity.owner or job.owner == identity.owner
