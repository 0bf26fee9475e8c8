"""A video as OpenAI's clients read it; how it was made is under `speechlane`."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gateway.videos.store import Video

Json = dict[str, Any]


def video_view(video: Video, *, preview: bool = False) -> Json:
    """The whole of it but for its pictures; `preview`: with what it looks like so far."""
    asked, made, error = video.asked, video.made, video.error
    notes: Json = {"fps": asked.fps, "frames": asked.frames, "steps": asked.steps, "seed": asked.seed}
    if made is not None:
        notes |= {"seconds": round(made.seconds, 4), "approximation": made.approximation.as_dict()}
    if preview and video.preview is not None:
        notes["preview"] = base64.b64encode(video.preview).decode()
    return {
        "id": video.id,
        "object": "video",
        "model": video.model,
        "status": video.state,
        "progress": video.progress,
        "created_at": int(video.created_at),
        "completed_at": int(video.completed_at) if video.completed_at is not None else None,
        "expires_at": int(video.expires_at) if video.expires_at is not None else None,
        "prompt": asked.prompt,
        "seconds": f"{asked.frames / asked.fps:g}",
        "size": f"{asked.width}x{asked.height}",
        "error": {"code": error.code, "message": error.message} if error is not None else None,
        "remixed_from_video_id": None,
        "speechlane": notes,
    }
