"""Pictures and clips that somebody handed in, opened so that a small file can neither fill the memory nor run for
hours, and the files that made pictures and clips leave as."""

from __future__ import annotations

from vision_text.media.clips import ClipInfo, ClipPlan, ClipSource
from vision_text.media.data_urls import data_url
from vision_text.media.encode import clip_file, picture_file
from vision_text.media.limits import LIMITS, MediaLimits
from vision_text.media.pictures import PictureInfo, look, open_picture, within

__all__ = [
    "LIMITS",
    "ClipInfo",
    "ClipPlan",
    "ClipSource",
    "MediaLimits",
    "PictureInfo",
    "clip_file",
    "data_url",
    "look",
    "open_picture",
    "picture_file",
    "within",
]
