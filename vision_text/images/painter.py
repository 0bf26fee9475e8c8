"""A model that makes pictures out of words."""

from __future__ import annotations

from vision_text.denoise.drawer import Drawer


class Painter(Drawer):
    """`await Painter.start("shapes-image", devices)`, then `make(Asked(...))` as often as wanted."""

    task = "image"
    classes = ("FluxPipeline",)
    items = 8
