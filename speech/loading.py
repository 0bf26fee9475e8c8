"""What an engine is to load, and a model that is: its replicas, what a stream takes of them, its precisions."""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import torch

from speech.carried import Admission
from speech.models import cache_dir, resolve
from speech.places import kind
from speech.replicas import Replicas
from speech.tuned import TunedOf, nothing
from speech.whisper import profile, weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import Precision, Profile
from speech.whisper.reference import ReferenceBackend
from workers.device import Device
from workers.pool import Pool

log = logging.getLogger(__name__)

OPENAI_NAMES = (
    "whisper-1",
    "gpt-4o-transcribe",
    "gpt-4o-mini-transcribe",
    "gpt-4o-mini-transcribe-2025-12-15",
    "gpt-transcribe",
    "gpt-realtime-whisper",
    "gpt-live-transcribe",
)
"""Names of OpenAI's models, which stand for the default here so that clients work unchanged."""

Share = Callable[[float, bool, str | None], float]
"""What a stream takes, by seconds between partials, whether there are any, and its language (None: any)."""

USUAL = (1.0, True, None)
"""Of the stream that a device's places are counted in: partials each second, the model's own language."""

_REFERENCE_SHARE = 0.5
"""What a live stream takes with the reference engine: a padded window for every partial."""


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """`models`: names, paths or hub names, the first is the default. `device`: "cpu", "cuda:1", "cuda" (all GPUs), or
    several with commas; speech/places.py has it all. `voices`: the same for speech; without any (or "") nothing is
    spoken. `piper_python` runs Piper's voices.

    `threads` None measures; `asr_engine` "torch" or "reference". `utilisation` is the share of a device's time that
    admitted live streams may reserve; `admission` whether what speechlane capacity has measured says how much a stream
    takes. `precisions`: by model, in place of the fastest ("bfloat16/int8", encoder and decoder); one that this device
    cannot have is passed over. `cluster`: address of the Ray cluster whose devices transcribe, each of which takes
    `cluster_resources` of it ("GPU=1"); unset: those of this process. `tuned`: what trials on this machine have found.
    """

    models: tuple[str, ...] = ("tiny.en",)
    device: str = "cpu"
    threads: int | None = None
    asr_engine: str = "torch"
    utilisation: float = 0.85
    admission: Admission = "estimated"
    download: bool = False
    profiles: Path = field(default_factory=lambda: cache_dir() / "profiles")
    precisions: Mapping[str, str] = field(default_factory=dict)
    voices: tuple[str, ...] = ("heart",)
    piper_python: str = ""
    cluster: str = ""
    cluster_resources: str = ""
    tuned: TunedOf = nothing

    @property
    def kind(self) -> str:
        """What else decides about the words: "cpu", "cuda" or "reference"."""
        return "reference" if self.asr_engine == "reference" else kind(self.device)


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model as clients may name it."""

    name: str
    task: str
    languages: tuple[str, ...]
    aliases: tuple[str, ...]
    loaded: bool = True


@dataclass(slots=True)
class Model:
    """A model in service: its replicas and what a stream of it takes (seconds of step time per second).

    `others`: in other precisions than that of `pool`; None when there can be none.
    """

    info: ModelInfo
    pool: Pool
    share: Share
    precision: str = ""
    others: Replicas | None = None


def load(model: str, default: bool, settings: EngineSettings, devices: list[Device]) -> Model:
    """Give every device a replica of `model`."""
    found = resolve(model, allow_download=settings.download)
    log.info("loading %s", found.name)
    aliases = OPENAI_NAMES if default else ()
    if settings.asr_engine == "reference":
        for device in devices:
            reference = ReferenceBackend(found.name, found.directory, threads=settings.threads or 1)
            device.add(reference)
        info = ModelInfo(found.name, "asr", reference.vocabulary.languages, aliases)
        return Model(info, Pool(found.name, devices), _reference_share, reference.spec.precision)
    checkpoint = weights.load(found.directory)
    tuned = settings.tuned("asr", found.name)
    probes = tuned.probes(profile.PROVEN_PROBES.get(found.name, 0))
    whole = tuned.whole(profile.WHOLE_WINDOW.get(found.name, frozenset()))
    threads = tuned.threads(settings.threads)

    def make(name: str, precision: Precision) -> WhisperBackend:
        return WhisperBackend(name, checkpoint, found.directory, precision, probes, whole)

    for device in devices:
        chosen = profile.choose(checkpoint, found.name, device.torch_device, threads, settings.profiles)
        chosen = tuned.precision(chosen, device.torch_device)
        for precision in profile.proven(device.torch_device):
            if str(precision) == settings.precisions.get(found.name):
                chosen = chosen.taking(precision)
        if device.torch_device == "cpu":
            torch.set_num_threads(chosen.threads)
        backend = make(found.name, chosen.precision)
        device.add(backend)
    log.info("%s: %s (encoder/decoder), %d threads", found.name, chosen.precision, chosen.threads)

    info = ModelInfo(found.name, "asr", backend.vocabulary.languages, aliases)
    others = Replicas(found.name, devices, make)
    return Model(info, Pool(found.name, devices), partial(_share, chosen, whole), str(chosen.precision), others)


# Functions of this module, and no others, because they go to gateways on other hosts.


def _share(chosen: Profile, whole: Container[str], interval: float, partials: bool, language: str | None) -> float:
    return chosen.share(interval, partials, language in whole)


def _reference_share(interval: float, partials: bool, language: str | None) -> float:
    return _REFERENCE_SHARE
