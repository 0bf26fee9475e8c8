"""The directory for what can be made again: joined weights, records of verified files, profiles."""

from __future__ import annotations

import os
from pathlib import Path


def cache_dir() -> Path:
    """`SPEECHLANE_CACHE`, else `speechlane` under `XDG_CACHE_HOME`, else `~/.cache/speechlane`. Not created here."""
    if own := os.environ.get("SPEECHLANE_CACHE"):
        return Path(own).expanduser().absolute()
    if (xdg := os.environ.get("XDG_CACHE_HOME")) and Path(xdg).is_absolute():
        return Path(xdg) / "speechlane"
    return Path.home() / ".cache" / "speechlane"
