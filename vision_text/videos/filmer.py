"""A model that makes clips out of words."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar, Self

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.drawer import Drawer
from vision_text.videos.backend import FilmBackend
from workers.device import Device


class Filmer(Drawer):
    """`await Filmer.start("shapes-video", devices)`, then `make(Asked(...))` as often as wanted.

    A step is one clip's: what a clip costs fills a device, and nobody live waits for two. Started with the option
    `parallel`, or on a device that is a group ("cuda:0+cuda:1"), a model has a group of processes beside it, which
    requests use or not (`options.parallel`).
    """

    task = "video"
    classes = ("CogVideoXPipeline",)
    items = 1
    backend: ClassVar[type[DenoiseBackend]] = FilmBackend

    @classmethod
    def _start(cls, name: str, devices: list[Device], options: Mapping[str, object], allow_download: bool) -> Self:
        """On a group, clips are spread over it unless the options say something else: its numbers are the same."""
        if any("+" in device.torch_device for device in devices):
            options = {"parallel": "guidance", **options}
        return super()._start(name, devices, options, allow_download)
