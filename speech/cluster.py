"""The models of speech on the devices of a Ray cluster, as an engine uses them.

What a device over there is made of is decided over there: its precision, its threads, and what a stream takes of it are
measured where it runs, and come along as facts with its welcome.
"""

from __future__ import annotations

import importlib.metadata
import logging
import signal
import threading
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from speech.loading import USUAL, EngineSettings, Model, ModelInfo, Share, load
from speech.models import cache_dir
from speech.parcels import SpeechPacking
from workers.capacity import Capacity
from workers.clock import monotonic
from workers.cluster.fleet import Fleet
from workers.cluster.furnished import Furnished, Plan
from workers.cluster.remote import RemoteDevice
from workers.device import Device
from workers.pool import Pool

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Facts:
    """What a gateway has to know of a model on a device: its name for clients, what a stream takes of the device."""

    info: ModelInfo
    precision: str
    share: Share


@dataclass(frozen=True, slots=True)
class Makes:
    """Makes a device with the models of `settings`, in the process where it is to live; `threads` of a CPU are its."""

    settings: EngineSettings
    threads: int

    def __call__(self, name: str) -> Furnished:
        # Ray shows a process the GPU that is its own, and no other.
        torch_device = "cpu" if self.settings.device.startswith("cpu") else "cuda:0"
        settings = replace(self.settings, profiles=cache_dir() / "profiles", device=torch_device)
        if settings.threads is None and torch_device == "cpu":
            settings = replace(settings, threads=self.threads)
        device = Device(name, torch_device)
        models = [load(model, n == 0, settings, [device]) for n, model in enumerate(settings.models)]
        facts = {model.info.name: Facts(model.info, model.precision, model.share) for model in models}
        return Furnished(device, SpeechPacking(), facts)


def plan(settings: EngineSettings) -> Plan:
    """The devices for these settings. Gateways with the same settings and version find the same ones by their name."""
    need = resources(settings)
    makes = Makes(replace(settings, voices=(), profiles=cache_dir()), max(1, int(need.get("CPU", 1))))
    alike = (
        settings.models, settings.device, settings.threads, settings.asr_engine, sorted(settings.precisions.items()),
        settings.utilisation, sorted(need.items()), importlib.metadata.version("speechlane"),
    )  # fmt: skip
    return Plan(f"{settings.kind}-{zlib.crc32(repr(alike).encode()):08x}", makes, need, settings.utilisation)


def resources(settings: EngineSettings) -> Mapping[str, float]:
    """What a device takes of the cluster, from "GPU=1" or "CPU=2,speech=1". Raises ValueError."""
    if not settings.cluster_resources:
        return {"CPU": float(settings.threads or 1)} if settings.device.startswith("cpu") else {"GPU": 1.0}
    need: dict[str, float] = {}
    for part in settings.cluster_resources.split(","):
        name, _, amount = part.strip().partition("=")
        try:
            need[name.strip()] = float(amount)
        except ValueError:
            raise ValueError(f"cluster_resources: {part.strip()!r} is not like GPU=1 or CPU=2") from None
    return need


def own_signals() -> None:
    """Take signals back from Ray, whose handlers write pages into the log. On the main thread, where there are any."""
    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.getsignal(number))
            signal.siginterrupt(number, False)


class Afar:
    """The models, for as long as there is an engine. `capacity` admits their live streams."""

    def __init__(self, settings: EngineSettings, capacity: Capacity) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._facts: dict[str, dict[str, Facts]] = {}
        """By model, by device."""
        self._shares: dict[tuple[str, float, bool, str | None], float] = {}
        self._models: dict[str, Model] = {}
        self._fleet = Fleet(plan(settings), SpeechPacking(), address=settings.cluster, joined=self._joined)

    def open(self) -> None:
        """Blocks until the first device is there. Raises `NoCluster`, a ValueError."""
        self._fleet.open()
        try:
            self._fleet.wait()
        except BaseException:
            self._fleet.close()
            raise

    @property
    def devices(self) -> Sequence[RemoteDevice]:
        """Those that were there at some time."""
        return self._fleet.devices

    @property
    def ready(self) -> bool:
        """Whether there is one that takes work."""
        return any(device.ready for device in self._fleet.devices)

    @property
    def models(self) -> dict[str, Model]:
        """By name, the default first."""
        return dict(self._models)

    def drain(self, timeout: float) -> None:
        """Wait up to `timeout` seconds for this gateway's tasks. Blocks."""
        until = monotonic() + timeout
        for device in self._fleet.devices:
            device.drain(max(0.0, until - monotonic()))

    def close(self) -> None:
        """Blocks."""
        self._fleet.close()

    def _joined(self, device: RemoteDevice) -> None:
        with self._lock:
            self._capacity.join(device)
            for name, facts in device.facts.items():
                self._facts.setdefault(name, {})[device.name] = facts
                self._shares.clear()
                if name in self._models:
                    self._models[name].pool.join(device)
                else:
                    share = partial(self._share, name)
                    self._models[name] = Model(facts.info, Pool(name, [device]), share, facts.precision)
            if self._models:
                device.expect(self._share(next(iter(self._models)), *USUAL))

    def _share(self, name: str, interval: float, partials: bool, language: str | None) -> float:
        """What a stream takes of the slowest device: it may be moved there."""
        asked = (name, interval, partials, language)
        if asked not in self._shares:
            if len(self._shares) > 1000:
                self._shares.clear()
            everywhere = list(self._facts[name].values())
            self._shares[asked] = max(facts.share(interval, partials, language) for facts in everywhere)
        return self._shares[asked]
