"""What is taken of a picture or a clip; all of it is looked at before anything is unpacked."""

from __future__ import annotations

from dataclasses import dataclass

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MediaLimits:
    """`file_bytes` of one file as it comes. `pixels` of one picture, or of one frame of a clip. `clip_seconds` from the
    first to the last frame of a clip, `clip_packets` the frames in it, whatever its header says."""

    file_bytes: int = 64 * MIB
    pixels: int = 40_000_000
    clip_seconds: float = 600.0
    clip_packets: int = 200_000
    decoded_pixels: int = 4_000_000_000
    """Of all frames that have to be decoded to come to those that are wanted: a frame can only be had from the key
    frame before it on, and a file may have a single one."""


LIMITS = MediaLimits()
"""Those of who sets no others."""
