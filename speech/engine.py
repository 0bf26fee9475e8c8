"""The speech engine of one process: models on devices, admission of live streams, files, status, and the way down."""

from __future__ import annotations

import asyncio
import ctypes
import logging
import math
import os
import sys
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import partial

from speech import files
from speech.asr import DecodeOptions, Samples
from speech.carried import Basis, Carried, Carrying
from speech.cluster import Afar, own_signals
from speech.config import StreamConfig, checked
from speech.devices import at, chosen, latency_path, make
from speech.files import Segment
from speech.loading import USUAL, EngineSettings, Model, ModelInfo, load
from speech.speaking.config import SpeakConfig
from speech.speaking.house import House, SpeechStatus
from speech.speaking.pacing import FIRST_SOUND
from speech.speaking.speaker import Speaker
from speech.transcriber import Transcriber
from speech.tts import Voice, VoiceInfo
from speech.vad import SileroVad
from speech.voices.load import load_voices
from workers.capacity import Capacity
from workers.clock import monotonic
from workers.cluster.remote import RemoteDevice
from workers.device import BackendUse, Device
from workers.errors import InputInvalid
from workers.pool import Pool
from workers.task import Lane

log = logging.getLogger(__name__)

_M_MMAP_THRESHOLD = -3
_LARGE_BLOCK = 8 << 20
_SHAPES_KEPT = {"LRU_CACHE_CAPACITY": 16, "ONEDNN_PRIMITIVE_CACHE_CAPACITY": 256}
"""Of convolutions by torch; of everything by oneDNN below it, which token steps of all sizes share."""
_VOICES_KEEP = 4
"""Times as many with voices, whose dozens of convolutions would push each other out."""
__all__ = ["DeviceStatus", "Engine", "EngineSettings", "EngineStatus", "ModelInfo", "Segment"]


@dataclass(frozen=True, slots=True)
class DeviceStatus:
    """`utilisation` and `reserved` are seconds of step time per second; `queue` counts the tasks waiting per lane.

    `free_streams` of the first model that lives there would be admitted now, which `basis` says how to know.
    """

    name: str
    utilisation: float
    reserved: float
    streams: int
    free_streams: int
    basis: Basis
    queue: dict[Lane, int]
    backends: dict[str, BackendUse] = field(default_factory=dict)
    """By model."""
    resident_bytes: int = 0
    """Models, and what tasks hold of the device's memory by their backends' own account."""
    restarts: int = 0
    """Since the start: a step had hung, or the device was lost."""


@dataclass(frozen=True, slots=True)
class EngineStatus:
    """`ready`: every device here is up and takes work, and one on the cluster if there is one. `apart` are the devices
    that no live stream is admitted to. `carried`: how many streams of each model fit on each device.
    """

    ready: bool
    devices: tuple[DeviceStatus, ...]
    speech: SpeechStatus
    apart: tuple[DeviceStatus, ...] = ()
    carried: tuple[Carried, ...] = ()


class Engine:
    """Made by `start` on a running event loop, ended by `close`."""

    def __init__(
        self, settings: EngineSettings, devices: list[Device], ears: Device, mouths: Sequence[Device] = ()
    ) -> None:
        self._settings, self._devices, self._all = settings, devices, (ears, *devices, *mouths)
        self._models: dict[str, Model] = {}
        self._vad = Pool("silero", [ears])
        everybody = settings.admission == "everybody"
        self._capacity = Capacity([*devices, *mouths], settings.utilisation, everybody=everybody)
        self._house = House(devices, self._capacity, first_sound=math.inf if everybody else FIRST_SOUND)
        self._carrying = Carrying(self._capacity, settings.admission, settings.profiles)
        self._afar = Afar(settings, self._capacity) if settings.cluster else None

    @classmethod
    async def start(cls, settings: EngineSettings) -> Engine:
        """Load and warm everything; seconds, off the loop. Raises ModelError, WeightsError, ValueError."""
        engine = await asyncio.to_thread(cls._start, settings)
        if settings.cluster:
            own_signals()
        return engine

    @classmethod
    def _start(cls, settings: EngineSettings) -> Engine:
        _return_large_blocks()
        _forget_shapes(_VOICES_KEEP if settings.voices else 1)
        here, devices, groups = make(replace(settings, device="cpu") if settings.cluster else settings)
        settings = settings if settings.cluster else here
        ears = Device("vad", "cpu", step_budget=0.020)
        ears.add(SileroVad())
        wanted = [] if settings.cluster else [chosen(model, devices) for model in settings.models]
        loaded = [load(model, n == 0, settings, where) for n, (model, where) in enumerate(wanted)]
        if settings.voices:
            log.info("loading voices: %s", ", ".join(settings.voices))
        voices: list[Voice] = []
        homes: dict[str, list[Device]] = {}
        for name, where in (chosen(voice, devices) for voice in dict.fromkeys(settings.voices)):
            found = load_voices(
                (name,), allow_download=settings.download, piper_python=settings.piper_python, tuned=settings.tuned
            )
            voices += found
            homes |= {one.info.model: [Device(one.info.model)] if one.apart else where for one in found}
        mouths = [device for home in homes.values() for device in home if device not in devices]
        engine = cls(settings, devices, ears, [*mouths, *groups])
        engine._house.settle(voices, homes)
        log.info("warming %s", ", ".join(device.name for device in engine._all))
        try:
            for device in engine._all:
                device.start()
            engine._house.rehearse()
            engine._models = {model.info.name: model for model in loaded}
            if engine._afar is not None:
                engine._afar.open()
                engine._models = engine._afar.models
            engine.settle()
        except BaseException:
            for device in engine._all:
                device.close()
            raise
        return engine

    def settle(self) -> None:
        """Admit by what was measured of the models here, as far as it was and still holds. Once they are all there."""
        for name, model in self._models.items():
            for device in self._devices:
                if device.serves(name):
                    self._carrying.add("asr", name, device, self._settings.asr_engine, partial(model.share, *USUAL))
        for name, (devices, share) in self._house.shares().items():
            for device in devices:
                self._carrying.add("tts", name, device, "torch", share)

    def resolve(self, name: str | None) -> str:
        """The loaded model a wire name stands for; None and OpenAI's names mean the default.

        Raises InputInvalid (param "model") for one that is not loaded: no request can make it load.
        """
        if name is None and self._models:
            return next(iter(self._models))
        for model in self._models.values():
            if name == model.info.name or name in model.info.aliases:
                return model.info.name
        loaded = ", ".join(self._models) or "none"
        raise InputInvalid(f"the model {str(name)[:100]!r} is not loaded here; there is: {loaded}", param="model")

    def models(self) -> list[ModelInfo]:
        """The loaded models, the default first."""
        return [model.info for model in self._models.values()]

    @property
    def devices(self) -> list[Device]:
        """Those that models live on; other models may be added to them. Groups of devices are not among them."""
        return list(self._devices)

    @property
    def far(self) -> Sequence[RemoteDevice]:
        """Those on the cluster, on which the models of speech live then."""
        return self._afar.devices if self._afar is not None else ()

    def at(self, where: Sequence[str], model: str) -> list[Device]:
        """The devices, or groups of devices, on which an operator has placed a model; without a place those of
        `devices`. Raises ValueError."""
        return at(where, self._all[1:], model) if where else self.devices

    @property
    def kind(self) -> str:
        """As in the settings."""
        return self._settings.kind

    def precision(self, model: str | None) -> str:
        """Of a loaded model's encoder and decoder, as "bfloat16/int8". Raises InputInvalid."""
        return self._models[self.resolve(model)].precision

    def asr(self, model: str | None, precision: str | None = None) -> Pool:
        """The replicas of a loaded model, in its own precision or another. Raises InputInvalid.

        Blocks for seconds when it is the first time that this other one is asked for.
        """
        found = self._models[self.resolve(model)]
        if precision is None or precision == found.precision:
            return found.pool
        if found.others is None:
            raise InputInvalid(f"{found.info.name} runs in nothing but {found.precision} here", param="model")
        return found.others.pool(precision)

    @property
    def vad(self) -> Pool:
        """Voice activity."""
        return self._vad

    def open_stream(self, config: StreamConfig, make: Callable[..., Transcriber] = Transcriber) -> Transcriber:
        """Admit a live stream: its share of a device is reserved until it ends. From the event loop.

        `make` makes it, of what a `Transcriber` takes. Raises InputInvalid, Overloaded, Draining, BackendDead.
        """
        model = self._models[self.resolve(config.model)]
        share = model.share(checked(config).partial_interval, config.partials, config.options.language)
        lease = self._capacity.admit(model.pool, share, weight=share / model.share(*USUAL))
        try:
            return make(
                config,
                asr=model.pool,
                vad=self._vad,
                lease=lease,
                multilingual=len(model.info.languages) > 1,
            )
        except BaseException:
            lease.release()
            raise

    def voices(self) -> list[VoiceInfo]:
        """The loaded voices, the default first."""
        return self._house.voices()

    def resolve_voice(self, voice: str | None, model: str | None = None) -> VoiceInfo:
        """The loaded voice that wire names stand for. Raises InputInvalid (param "voice" or "model")."""
        return self._house.resolve(voice, model)

    def voice(self, name: str | None) -> Voice:
        """The same, itself: it tells phonemes. Raises InputInvalid."""
        return self._house.voice(name)

    def open_speech(self, config: SpeakConfig) -> Speaker:
        """Admit a stream of speech; it holds its share of a device until its sound is made. From the event loop.

        Raises InputInvalid, Overloaded, Draining, BackendDead.
        """
        return self._house.open(config)

    def transcribe(self, samples: Samples, options: DecodeOptions, model: str) -> AsyncGenerator[Segment, None]:
        """Segments of a whole recording (mono float32, 16 kHz), in order. Raises InputInvalid, Overloaded, Draining."""
        chosen = self._models[self.resolve(model)]
        return files.transcribe(
            samples,
            options,
            model=chosen.info.name,
            asr=chosen.pool,
            vad=self._vad,
            multilingual=len(chosen.info.languages) > 1,
            clock=monotonic,
        )

    def status(self) -> EngineStatus:
        """How full the devices are."""
        devices: list[DeviceStatus] = []
        apart: list[DeviceStatus] = []
        live: Sequence[Device | RemoteDevice] = self._devices if self._afar is None else self.far
        everywhere: list[Device | RemoteDevice] = [*self._all, *self.far]
        for device in everywhere:
            stats, own = device.stats(), device in live
            first = next((model for model in self._models.values() if device.serves(model.info.name)), None)
            share, model = (first.share(*USUAL), first.info.name) if first is not None else (math.inf, "")
            status = DeviceStatus(
                name=device.name,
                utilisation=stats.utilisation,
                reserved=self._capacity.reserved(device) if own else 0.0,
                streams=self._capacity.streams(device) if own else 0,
                free_streams=self._capacity.free_streams(device, share, model) if own else 0,
                basis=self._carrying.basis(device, model),
                queue=stats.queue,
                backends=stats.backends,
                resident_bytes=stats.resident_bytes,
                restarts=stats.restarts,
            )
            (devices if own else apart).append(status)
        ready = all(device.ready for device in self._all) and (self._afar is None or self._afar.ready)
        return EngineStatus(ready, tuple(devices), self._house.status(), tuple(apart), self._carrying.status())

    async def drain(self, timeout: float) -> None:
        """Admit nobody any more; voices speak to the end and devices finish what they hold, for `timeout` seconds."""
        self._capacity.drain()
        until = monotonic() + timeout
        await self._house.drain(timeout)
        for device in self._devices:
            await asyncio.to_thread(device.drain, max(0.0, until - monotonic()))
        if self._afar is not None:
            await asyncio.to_thread(self._afar.drain, max(0.0, until - monotonic()))

    async def close(self) -> None:
        """End what still runs, keep what was learned about step times, free the models."""
        if self._afar is not None:
            await asyncio.to_thread(self._afar.close)
        for device in self._all:
            await asyncio.to_thread(device.close)
        for device in self._devices:
            try:
                device.loop.latency.save(latency_path(self._settings, device.name))
            except OSError as error:
                log.warning("step times of %s could not be kept: %s", device.name, error)


def _return_large_blocks() -> None:
    """Have glibc give the buffers of utterances (18 MB and more each) back to the system when they are freed.

    Left to itself it moves its threshold up to their size and keeps them in a heap that fragments and grows.
    """
    if sys.platform == "linux":
        mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
        if mallopt is not None:  # other C libraries have none
            mallopt(_M_MMAP_THRESHOLD, _LARGE_BLOCK)


def _forget_shapes(times: int) -> None:
    """Bound what torch and oneDNN keep for every shape that they have computed, a MiB and more each.

    Every utterance has a length of its own, so that with the thousand shapes each of both keeps, a process grows by
    hundreds of MiB for shapes that hardly ever come again. They look at these variables once, at their first use.
    """
    for name, shapes in _SHAPES_KEPT.items():
        os.environ.setdefault(name, str(times * shapes))
