"""Clips made of texts, in the background."""

from __future__ import annotations

from typing import Any, Literal, NotRequired

from typing_extensions import TypedDict

from gateway.openapi.here import Here
from gateway.openapi.operation import Operation, Room, answer, body, described, header, in_header, in_path, in_query
from gateway.openapi.rooms.images import DRAWING, drawing_fields
from gateway.openapi.shapes import Json, answered
from gateway.videos import handler
from gateway.videos.request import VideoRequest
from gateway.videos.routes import VIDEO_ID, VIDEOS
from vision_text.media.encode import CLIP_TYPE

TAG = "Videos"
AT = f"{VIDEOS}/VIDEO"
PATH = f"{VIDEOS}/{{video}}"
EXAMPLE: Json = {"prompt": "a red ball moving left", "seed": 1}
FIELDS = DRAWING | {
    "seed": "The same one, the same clip.",
    "model": "A model that makes clips, or one of OpenAI's names; else the default one.",
    "size": "`WIDTHxHEIGHT`, or `auto`.",
    "seconds": "How long; a number or, as OpenAI's clients send it, a text.",
    "frames": "How many, in place of `seconds`.",
    "fps": "Frames a second.",
    "previews": "How often an event tells what it looks like so far, and how far it is.",
    "lane": "`interactive` goes before whatever can wait.",
    "user": "Taken, without effect.",
}


class VideoProblem(TypedDict):
    """Why it failed."""

    code: str
    message: str


class VideoNotes(TypedDict):
    """What is made, and how it was made: see images."""

    fps: float
    frames: int
    steps: int
    seed: int
    seconds: NotRequired[float]
    approximation: NotRequired[dict[str, Any]]
    preview: NotRequired[str]


class VideoState(TypedDict):
    """A video, wherever it is on its way."""

    id: str
    object: Literal["video"]
    model: str
    status: Literal["queued", "in_progress", "completed", "failed"]
    progress: int
    created_at: int
    completed_at: int | None
    expires_at: int | None
    prompt: str
    seconds: str
    size: str
    error: VideoProblem | None
    remixed_from_video_id: None
    speechlane: VideoNotes


class VideoList(TypedDict):
    """A page of one's own videos."""

    object: Literal["list"]
    data: list[VideoState]
    first_id: str | None
    last_id: str | None
    has_more: bool


class VideoDeleted(TypedDict):
    """It is gone."""

    id: str
    object: Literal["video.deleted"]
    deleted: Literal[True]


def room(here: Here) -> Room:
    """The routes."""
    one = in_path("video", "Its id.", pattern=f"^{VIDEO_ID}$")
    now = answered(VideoState)
    binary: Json = {"schema": {"type": "string", "format": "binary"}}
    mp4 = {CLIP_TYPE: binary, "image/png": binary}
    settings = here.settings
    return Room(
        tag=TAG,
        about="Clips made of texts, in OpenAI's form: handed in, made in the background, fetched. A key sees its own. "
        f"What is done is kept for {settings.video_keep_seconds:g} s, at most {settings.max_videos} of them (the "
        "oldest go first), and not beyond the service's end.",
        operations=[
            Operation(
                method="POST", path=VIDEOS, id="createVideo", tag=TAG, summary="Begin a video", body=_body(here),
                answers={200: answer("The new video.", now, headers={"Location": header("Its address.")})},
                fails=(400, 404, 408, 413, 429, 500, 501, 503), curl="-F prompt='a red ball moving left'",
            ),
            Operation(
                method="GET", path=VIDEOS, id="listVideos", tag=TAG, summary="List your videos",
                parameters=[
                    in_query("limit", "So many of them.", type="integer", minimum=1, maximum=handler.MOST_LISTED,
                        default=handler.LISTED),
                    in_query("after", "The last id of the page before."),
                    in_query("order", "By age.", enum=[*handler.ORDERS], default="desc"),
                ],
                answers={200: answer("A page.", answered(VideoList))}, fails=(400, 500),
            ),
            Operation(
                method="GET", path=PATH, id="getVideo", tag=TAG, summary="Look at a video", parameters=[one],
                answers={200: answer("As it is now.", now)}, fails=(404, 500), at=AT,
            ),
            Operation(
                method="DELETE", path=PATH, id="deleteVideo", tag=TAG, summary="Stop and delete a video",
                parameters=[one], answers={200: answer("It is gone.", answered(VideoDeleted))}, fails=(404, 500), at=AT,
                curl="-X DELETE",
            ),
            Operation(
                method="GET", path=f"{PATH}/content", id="getVideoContent", tag=TAG, summary="Fetch a video",
                description="An MP4, whole or by range; `thumbnail`: its first frame as PNG.",
                parameters=[
                    one, in_query("variant", "Which form.", enum=[*handler.VARIANTS], default="video"),
                    in_header("Range", "Which bytes, as in `bytes=0-999`."),
                ],
                answers={
                    200: answer("All of it.") | {"content": mp4},
                    206: answer("The range that was asked for.") | {"content": mp4},
                    416: answer("None of these bytes is there.") | {"content": mp4},
                },
                fails=(400, 404, 409, 500), at=f"{AT}/content", curl="-o clip.mp4",
            ),
            Operation(
                method="GET", path=f"{PATH}/events", id="watchVideo", tag=TAG, summary="Watch a video",
                description="Server-sent events: `video` with the whole of it, now and at every change, with "
                "`speechlane.preview` (a PNG in base64) where previews were asked for; `deleted`. The stream ends with "
                "the video.",
                parameters=[one], answers={200: answer("The events.", {}, "text/event-stream")}, fails=(404, 500),
                at=f"{AT}/events", curl="-N",
            ),
        ],
    )  # fmt: skip


def _body(here: Here) -> Json:
    number: Json = {"type": "number", "exclusiveMinimum": 0}
    text: Json = {"type": "string", "pattern": r"^\d{1,3}(\.\d{1,3})?$"}
    changes = drawing_fields() | {"model": here.video_names(), "seconds": {"anyOf": [number, text, {"type": "null"}]}}
    wanted = described(VideoRequest, FIELDS, changes, nullable=True, rules={"not": {"required": ["seconds", "frames"]}})
    found = body(wanted, example=EXAMPLE)
    fields = {name: {"type": "string", "description": FIELDS[name]} for name in FIELDS}
    found["content"]["multipart/form-data"] = {
        "schema": {"type": "object", "properties": fields, "required": ["prompt"], "additionalProperties": False},
        "example": EXAMPLE,
    }
    return found
