"""The devices of an engine: made for the places that were asked for, and found for a model by the places it names."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil
import torch

from speech.loading import EngineSettings
from speech.places import Place, placed, places
from workers.device import Device
from workers.latency import LatencyModel


def make(settings: EngineSettings) -> tuple[EngineSettings, list[Device], list[Device]]:
    """(the settings as they are for several devices, devices, groups of devices). Raises ValueError."""
    found = places(settings.device, torch.cuda.device_count)
    on_cpu = sum(place.torch_device == "cpu" for place in found)
    if on_cpu > 1 and settings.threads is None:  # else each would take all the cores
        settings = replace(settings, threads=max(1, (os.cpu_count() or 1) // on_cpu))
    made = {place: _device(settings, place, max(1, on_cpu)) for place in found}
    return (
        settings,
        [device for place, device in made.items() if not place.group],
        [device for place, device in made.items() if place.group],
    )


def chosen(model: str, devices: Sequence[Device]) -> tuple[str, list[Device]]:
    """A model as it is asked for ("base@cuda:1"): its name, and those of `devices` that it is to live on."""
    name, where = placed(model)
    return name, at(where, devices, name) if where else list(devices)


def at(where: Sequence[str], devices: Sequence[Device], model: str) -> list[Device]:
    """The devices of these names. Raises ValueError with those that there are."""
    there = {device.name: device for device in devices}
    missing = next((name for name in where if name not in there), None)
    if missing is not None:
        raise ValueError(f'{model} is to run on "{missing}", which is none of the devices for it: {", ".join(there)}')
    return [there[name] for name in dict.fromkeys(where)]


def latency_path(settings: EngineSettings, device: str) -> Path:
    """Where a device's step times are kept."""
    return settings.profiles / f"steps-{device.replace(':', '')}.json"


def _device(settings: EngineSettings, place: Place, on_cpu: int) -> Device:
    latency = LatencyModel.load(latency_path(settings, place.name))
    return Device(place.name, place.torch_device, latency=latency, memory=_memory(place, on_cpu))


def _memory(place: Place, on_cpu: int) -> float:
    """Bytes that models and streams may take together; a tenth is left to the libraries' own buffers. On a group each
    member holds the whole of a model."""
    if place.torch_device.startswith("cuda"):
        return 0.9 * min(torch.cuda.mem_get_info(member)[0] for member in place.members)
    return 0.6 * float(psutil.virtual_memory().total) / on_cpu
