"""/v1/batch/jobs: long recordings."""

from __future__ import annotations

from typing import Annotated, Any, Literal, get_type_hints

from pydantic import Field
from typing_extensions import TypedDict

from batch_jobs import job as jobs
from batch_jobs.job import FORMATS, Channels, Priority, State, SubtitleRules
from gateway.batch import job_request as asked
from gateway.batch.audio import TYPES as MEDIA
from gateway.batch.jobs import MAX_PAGE, PAGE, TYPES
from gateway.batch.routes import JOB_ID
from gateway.batch.views import JOBS
from gateway.batch.webhook_hosts import URL_CHARACTERS
from gateway.openapi.here import Here
from gateway.openapi.operation import JSON, Operation, Room, answer, body, header, in_header, in_path, in_query, size
from gateway.openapi.shapes import Json, answered, nullable
from gateway.uploads import MAX_PARTS

TAG = "Jobs"
JOB = f"{JOBS}/{{job}}"
AT = f"{JOBS}/JOB"


class JobUrls(TypedDict):
    """Where more of it is found."""

    self: str
    events: str
    audio: str
    results: dict[Literal["txt", "srt", "vtt", "tsv", "json"], str]


Share = Annotated[float, Field(ge=0, le=1)]
Job = TypedDict("Job", {**get_type_hints(jobs.Job), "progress": Share, "urls": JobUrls})  # type: ignore[misc]
Job.__doc__ = jobs.Job.__doc__


class Jobs(TypedDict):
    """A page of one's own jobs, newest first."""

    object: Literal["list"]
    data: list[Job]
    has_more: bool


def room(here: Here) -> Room:
    """The routes."""
    one = in_path("job", "Its id.", pattern=f"^{JOB_ID}$")
    now = answered(Job)
    links = _links()
    made = answer("The new job.", now, headers={"Location": header("Its address.")}) | links
    return Room(
        tag=TAG,
        about="Long recordings and whole folders: handed in, transcribed in pieces, inspected and repaired, fetched. "
        "A key sees its own jobs.",
        operations=[
            Operation(
                method="POST", path=JOBS, id="createJob", tag=TAG, summary="Hand in a recording",
                description="In a form, send the fields before `file`: what is wrong with them is then said before the "
                "file has been sent. In JSON, `upload` names a resumable upload that is complete. Files up to "
                f"{size(here.settings.batch_max_file_bytes)} and {here.settings.batch_max_seconds:g} s; a form has at "
                f"most {MAX_PARTS} parts.",
                body=_body(here),
                answers={201: made,
                         200: answer("The job that was made of this upload before.", now, headers=made["headers"])},
                fails=(400, 404, 408, 409, 410, 413, 415, 423, 429, 500, 503, 507),
                curl="-F language=en -F file=@talk.mp3",
            ),
            Operation(
                method="GET", path=JOBS, id="listJobs", tag=TAG, summary="List your jobs, newest first",
                parameters=[
                    in_query("state", "Only those in this state.", enum=[*State]),
                    in_query("limit", "So many of them.", type="integer", minimum=1, maximum=MAX_PAGE, default=PAGE),
                    in_query("before", "The last id of the page before.", pattern=f"^({JOB_ID})?$"),
                ],
                answers={200: answer("A page.", answered(Jobs))}, fails=(400, 429, 500, 503),
                at=f"'{JOBS}?limit=10'",
            ),
            Operation(
                method="GET", path=JOB, id="getJob", tag=TAG, summary="Look at a job", parameters=[one],
                answers={200: answer("As it is now.", now)}, fails=(404, 429, 500, 503), at=AT,
            ),
            Operation(
                method="DELETE", path=JOB, id="deleteJob", tag=TAG, summary="Delete a job and its results",
                description="One that runs is cancelled first.", parameters=[one],
                answers={204: answer("It is gone.")}, fails=(404, 429, 500, 503), at=AT, curl="-X DELETE",
            ),
            Operation(
                method="POST", path=f"{JOB}/cancel", id="cancelJob", tag=TAG, summary="Stop a job", parameters=[one],
                answers={200: answer("As it is now.", now)}, fails=(404, 409, 429, 500, 503),
                at=f"{AT}/cancel", curl="-X POST",
            ),
            Operation(
                method="POST", path=f"{JOB}/retry", id="retryJob", tag=TAG, summary="Try again what failed",
                description="What could not be transcribed, or the whole job when it failed or was cancelled.",
                parameters=[one], answers={200: answer("As it is now.", now)}, fails=(404, 409, 429, 500, 503),
                at=f"{AT}/retry", curl="-X POST",
            ),
            Operation(
                method="GET", path=f"{JOB}/results/{{format}}", id="getJobResult", tag=TAG,
                summary="Fetch the transcript",
                parameters=[one, in_path("format", "Its form.", enum=[*FORMATS])],
                answers={200: _transcript()}, fails=(400, 404, 409, 429, 500, 503), at=f"{AT}/results/srt",
                curl="-o talk.srt",
            ),
            Operation(
                method="GET", path=f"{JOB}/audio", id="getJobAudio", tag=TAG, summary="Fetch the recording",
                description="The file as it was handed in, whole or by range.",
                parameters=[
                    one, in_header("Range", "Which bytes, as in `bytes=0-999`; what is no range is ignored."),
                    in_header("If-Range", "The range only if the file has this ETag, which it always keeps."),
                    in_header("If-None-Match", "304 if the file has this ETag."),
                ],
                answers=_audio(), fails=(404, 409, 429, 500, 503), at=f"{AT}/audio", curl="-o recording",
            ),
            Operation(
                method="GET", path=f"{JOB}/events", id="watchJob", tag=TAG, summary="Watch a job",
                description="Server-sent events: `job` with the whole of it, now and at every change, at most five "
                "times a second; `deleted`. The stream ends with the job.",
                parameters=[one], answers={200: _events()}, fails=(404, 429, 500, 503), at=f"{AT}/events", curl="-N",
            ),
            Operation(
                method="GET", path="/v1/batch/events", id="watchJobs", tag=TAG, summary="Watch all your jobs",
                description="The same for all of them, from the next change on, until you hang up.",
                answers={200: _events()}, fails=(429, 500, 503), curl="-N",
            ),
        ],
    )  # fmt: skip


def _body(here: Here) -> Json:
    fields = _fields(here)
    form = {"file": {"type": "string", "format": "binary", "description": "The recording."}, **fields}
    named = {"upload": {"type": "string", "description": "The id of the upload, or its address."}, **fields}
    closed: Json = {"type": "object", "additionalProperties": False}
    given = {name: schema if name == "upload" else nullable(schema) for name, schema in named.items()}
    found = body(closed | {"properties": form, "required": ["file"]}, "multipart/form-data")
    found["content"][JSON] = {"schema": closed | {"properties": given, "required": ["upload"]}}
    return found


def _fields(here: Here) -> Json:
    """Those of a form, and of JSON in the types that each has there."""
    text: Json = {"type": "string"}
    names = text | here.model_names()
    rules = SubtitleRules()
    found: dict[str, Json] = {
        "name": text | {"description": "How the job is called; else the file's name."},
        "model": names | {"description": "A model that is loaded, or an alias; else the default one."},
        "language": text | here.languages() | {"description": "As ISO-639-1 code, with a region if you like, or as "
            "English name; else found by vote over the speech."},
        "prompt": text | {"maxLength": asked.PROMPT_CHARACTERS, "description": "What was said before the recording."},
        "keywords": {"type": "array", "items": text | {"maxLength": asked.KEYWORD_CHARACTERS},
            "description": f"Words to expect, up to {asked.MAX_KEYWORDS}."},
        "channels": text | {"enum": [*Channels], "default": Channels.MIX,
            "description": "`each`: a transcript for every channel, merged by time."},
        "priority": text | {"enum": [*Priority], "default": Priority.NORMAL},
        "repair": {"type": "boolean", "default": True, "description": "Transcribe again what looks wrong."},
        "repair_model": names | {"description": "Another model for the last attempt of a repair."},
    }  # fmt: skip
    if here.settings.webhook_hosts:
        hosts = "Called at the end; its host has to be in the setting `webhook_hosts`."
        found["webhook"] = text | {"format": "uri", "maxLength": URL_CHARACTERS, "description": hosts}
    for name, (least, most) in asked.SUBTITLES.items():
        value = getattr(rules, name)
        kind = "integer" if isinstance(value, int) else "number"
        found[f"subtitle_{name}"] = {"type": kind, "minimum": least, "maximum": most, "default": value}
    return found


def _links() -> Json:
    """What can be done with a job that was made."""
    job = {"job": "$response.body#/id"}
    following = ("getJob", "deleteJob", "cancelJob", "retryJob", "watchJob", "getJobAudio")
    return {"links": {name: {"operationId": name, "parameters": job} for name in following}}


def _transcript() -> Json:
    found = answer("The transcript.", headers={"Content-Disposition": header("The file's name.")})
    found["content"] = {kind: {"schema": {"type": "string"}} for kind in dict.fromkeys(TYPES.values())}
    found["content"][JSON] = {"schema": {"type": "object", "required": ["schema", "version", "segments"]}}
    return found


def _audio() -> dict[int, Json]:
    sound: Json = {"schema": {"type": "string", "format": "binary"}}
    content = dict.fromkeys(("application/octet-stream", *sorted(set(MEDIA.values()))), sound)
    tag = {"ETag": header("The file's digest.")}
    spans = {"Content-Range": header("Which bytes of how many.")}
    return {
        200: answer("All of it.", headers=tag) | {"content": content},
        206: answer("The range that was asked for.", headers=tag | spans) | {"content": content},
        304: answer("It has this ETag.", headers=tag),
        416: answer("None of these bytes is there.", headers=spans),
    }


def _events() -> dict[str, Any]:
    return answer("The events.", {}, "text/event-stream")
