"""A model that makes clips out of words."""

from __future__ import annotations

from typing import ClassVar

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.drawer import Drawer
from vision_text.videos.backend import FilmBackend


class Filmer(Drawer):
    """`await Filmer.start("shapes-video", devices)`, then `make(Asked(...))` as often as wanted.

    A step is one clip's: what a clip costs fills a device, and nobody live waits for two. Started with the option
    `parallel`, a model has a group of processes beside it, which requests use or not (`options.parallel`).
    """

    task = "video"
    classes = ("CogVideoXPipeline",)
    items = 1
    backend: ClassVar[type[DenoiseBackend]] = FilmBackend
