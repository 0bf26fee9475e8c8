"""Which model it is and what it runs on, told from files: the same when it is tuned and before it is served."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from vision_text.models import resolve
from workers.gate.helping import digest, running_on

_PACKAGES = ("torch", "diffusers", "transformers", "numpy", "speechlane")
_CONFIGURED = {
    "scheduler": ("scheduler/scheduler_config.json",),
    "shape": ("transformer/config.json", "vae/config.json", "config.json"),
    "processor": ("processor_config.json", "preprocessor_config.json", "chat_template.jinja", "chat_template.json"),
}


def identity_of(name: str, device: str, *, steps: int = 0, size: str = "own", frames: int = 0) -> dict[str, str]:
    """`steps`, `size` and `frames` are those of the trial where they are not the model's own. Raises ModelUnusable."""
    found = resolve(name)
    told = {"weights": found.revision, "steps": str(steps or "own"), "resolution": size, "frames": str(frames or "own")}
    for what, places in _CONFIGURED.items():
        if text := _texts(found.directory, places):
            told[what] = digest(text)
    return {**told, **running_on(device, _PACKAGES)}


def same_model(identity: Mapping[str, str], name: str, device: str) -> dict[str, str]:
    """The identity as it is now of a model that was tuned with these steps, size and frames."""
    numbers = {key: identity.get(key, "own") for key in ("steps", "frames")}
    steps, frames = (int(value) if value.isdecimal() else 0 for value in numbers.values())
    return identity_of(name, device, steps=steps, size=identity.get("resolution", "own"), frames=frames)


def _texts(directory: Path, places: tuple[str, ...]) -> str:
    return "\n".join((directory / place).read_text("utf-8") for place in places if (directory / place).is_file())
