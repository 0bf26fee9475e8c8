"""The voices of one process: their names, who is let in to speak, and what all of them are at."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from speech.speaking.config import SpeakConfig, checked
from speech.speaking.pacing import FIRST_SOUND
from speech.speaking.rehearsal import Cost, rehearse
from speech.speaking.speaker import Speaker
from speech.speaking.tally import Tally
from speech.tts import OPENAI_MODELS, Voice, VoiceInfo
from workers.capacity import Capacity, Lease
from workers.clock import Clock, monotonic
from workers.device import Device
from workers.errors import BackendDead, Draining, InputInvalid, Overloaded
from workers.pool import Pool
from workers.task import Lane

OPENAI_VOICES = (
    "alloy", "ash", "ballad", "coral", "echo", "fable", "nova", "onyx", "sage", "shimmer", "verse", "marin", "cedar",
)  # fmt: skip
"""Names of OpenAI's voices, which stand for the default here so that clients work unchanged."""
FILES = 64
"""Streams that nobody listens to live, on each device: they wait for each other, so more would wait too long."""
_RETRY_LEAST, _RETRY_FILES = 1.0, 5.0
_LEAST_SHARE = 1e-6
_UNKNOWN = Cost(step=0.0, row=1.0, rows=1.0, steps=1.0, first=0.0, first_rows=1.0, most=1)
"""Of a voice that has not rehearsed: one stream for each device."""


@dataclass(frozen=True, slots=True)
class SpeechStatus:
    """`speaking` streams make sound now, `free` more would be admitted; `made` and `wasted` seconds of sound."""

    speaking: int = 0
    free: int = 0
    made: float = 0.0
    wasted: float = 0.0


@dataclass(frozen=True, slots=True)
class _Place:
    device: Device


@dataclass(slots=True)
class _Resident:
    """A voice in service."""

    voice: Voice
    info: VoiceInfo
    pool: Pool
    devices: Sequence[Device]
    cost: Cost
    tally: Tally

    def share(self, limit: float) -> float:
        """What a stream takes of a device that is filled up to `limit`.

        The rehearsal may have met a busy machine, so what streams took lately is believed when it is less; when it is
        more, the capacity sees that by itself.
        """
        return min(self.cost.share(limit), max(self.tally.cost, _LEAST_SHARE))


class House:
    """Voices on `devices`, whose live streams `capacity` admits. The first voice is the default.

    A stream whose first sound is predicted to take more than `first_sound` seconds is refused.
    """

    def __init__(
        self,
        devices: Sequence[Device],
        capacity: Capacity,
        *,
        first_sound: float = FIRST_SOUND,
        clock: Clock = monotonic,
    ) -> None:
        self._devices, self._capacity, self._clock = devices, capacity, clock
        self._first_sound = first_sound
        self._residents: list[_Resident] = []
        self._files: dict[Device, Tally] = {device: Tally(clock) for device in devices}
        self._draining = False

    def settle(self, voices: Sequence[Voice], homes: Mapping[str, Sequence[Device]] | None = None) -> None:
        """Put voices on the devices, before those start; a model in `homes` on those that it has there."""
        for voice in voices:
            model = voice.info.model
            devices = homes[model] if homes and model in homes else self._devices
            for device in devices:
                if not device.serves(model):  # voices of one model share its backend
                    device.add(voice.backend())
                self._files.setdefault(device, Tally(self._clock))
            self.add(voice, _UNKNOWN, devices)

    def rehearse(self) -> None:
        """Find out what the voices cost, once the devices have started. Blocks; raises ServingError."""
        costs: dict[str, Cost] = {}
        for resident in self._residents:
            model = resident.info.model
            if model not in costs:
                costs[model] = rehearse(resident.voice, resident.pool, resident.devices[0])
            resident.cost = costs[model]

    def add(self, voice: Voice, cost: Cost, devices: Sequence[Device] | None = None) -> None:
        """Take in a voice whose backend is on `devices` (None: all)."""
        info, devices = voice.info, devices or self._devices
        if not self._residents:
            note = "The default here: OpenAI's voice names mean this voice."
            info = replace(
                info,
                aliases=tuple(dict.fromkeys((*info.aliases, *OPENAI_VOICES))),
                description=f"{info.description.rstrip('.')}. {note}" if info.description else note,
            )
        pool = Pool(info.model, devices)
        self._residents.append(_Resident(voice, info, pool, devices, cost, Tally(self._clock)))

    def voices(self) -> list[VoiceInfo]:
        """The voices as clients may name them, the default first."""
        return [resident.info for resident in self._residents]

    def shares(self) -> dict[str, tuple[Sequence[Device], Callable[[], float]]]:
        """For each model of voices its devices, and what a stream takes of one (seconds of step time per second)."""
        found: dict[str, tuple[Sequence[Device], Callable[[], float]]] = {}
        for one in self._residents:
            found.setdefault(one.info.model, (one.devices, partial(one.share, self._capacity.limit)))
        return found

    def resolve(self, voice: str | None = None, model: str | None = None) -> VoiceInfo:
        """The voice that wire names stand for: a name or alias, None or "" the default.

        `model` may be that of a voice or one of OpenAI's. Raises InputInvalid (param "voice" or "model") for one that
        is not loaded: no request can make it load, and no other voice speaks in its place.
        """
        return self._find(voice, model).info

    def voice(self, name: str | None) -> Voice:
        """The voice itself. Raises InputInvalid."""
        return self._find(name).voice

    def _find(self, voice: str | None, model: str | None = None) -> _Resident:
        if not self._residents:
            raise InputInvalid("no voice is loaded here", param="voice")
        fitting = self._residents
        if model and model not in OPENAI_MODELS:
            fitting = [resident for resident in fitting if resident.info.model == model]
            if not fitting:
                models = ", ".join(dict.fromkeys((*(info.model for info in self.voices()), *OPENAI_MODELS)))
                raise InputInvalid(f"the model {model[:100]!r} is not loaded here; there is: {models}", param="model")
        if not voice:
            return fitting[0]
        for resident in fitting:
            if resident.info.name == voice:
                return resident
        for resident in fitting:
            if voice in resident.info.aliases:
                return resident
        names = ", ".join(name for resident in fitting for name in (resident.info.name, *resident.info.aliases))
        raise InputInvalid(f"there is no voice {voice[:100]!r} here; there is: {names}", param="voice")

    def open(self, config: SpeakConfig) -> Speaker:
        """Admit a stream, from the event loop. Raises InputInvalid, Overloaded, Draining, BackendDead."""
        resident = self._find(checked(config).voice)
        if self._draining:
            raise Draining("the service is shutting down and takes no new stream")
        if config.lead is None:
            device = self._room_for_file(resident)
            place, lease, tally = _Place(device), None, self._files[device]
        else:
            lease = self._admit(resident)
            place, tally = None, resident.tally
        try:
            return Speaker(
                config, voice=resident.voice, pool=resident.pool, lease=lease, place=place, tally=tally,
                clock=self._clock,
            )  # fmt: skip
        except BaseException:
            if lease is not None:
                lease.release()
            raise

    def _admit(self, resident: _Resident) -> Lease:
        """A share of a device, if the stream fits and its first sound would be in time."""
        cost, limit = resident.cost, self._first_sound
        used = min((self._capacity.reserved(device) for device in resident.devices), default=0.0)
        others = sum(
            other.tally.starting(limit) for other in self._residents if other.devices == resident.devices
        ) // len(resident.devices)
        late = cost.first_sound(others, used) - limit
        if others and late > 0:
            raise Overloaded("the first sound would be late", retry_after=max(_RETRY_LEAST, late))
        share = resident.share(self._capacity.limit)
        return self._capacity.admit(resident.pool, share, max(limit - cost.first, limit / 10))

    def _room_for_file(self, resident: _Resident) -> Device:
        devices = [device for device in resident.devices if device.ready]
        if not devices:
            raise BackendDead(f"no device is ready for {resident.pool.model}")
        device = min(devices, key=lambda device: (self._files[device].speaking, device.finish_in(Lane.INTERACTIVE)))
        if self._files[device].speaking >= FILES:
            raise Overloaded(f"{FILES} texts are being spoken already", retry_after=_RETRY_FILES)
        return device

    @property
    def _tallies(self) -> list[Tally]:
        return [*(resident.tally for resident in self._residents), *self._files.values()]

    def status(self) -> SpeechStatus:
        """Streams now, and sound since the start."""
        tallies = self._tallies
        free = 0
        if self._residents and not self._draining:
            first = self._residents[0]
            share = first.share(self._capacity.limit)
            model = first.info.model
            free = sum(self._capacity.free_streams(device, share, model) for device in first.devices)
        return SpeechStatus(
            speaking=sum(tally.speaking for tally in tallies),
            free=free,
            made=sum(tally.made for tally in tallies),
            wasted=sum(tally.wasted for tally in tallies),
        )

    async def drain(self, timeout: float) -> None:
        """Let nobody in any more and wait up to `timeout` seconds for those who speak."""
        self._draining = True
        try:
            async with asyncio.timeout(timeout):
                for tally in self._tallies:
                    await tally.silence()
        except TimeoutError:
            pass
