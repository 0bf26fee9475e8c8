"""A model that draws, for programs: what is asked goes through the step loop. Painter and filmer are of this."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncGenerator, Mapping, Sequence
from typing import ClassVar, Self

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.loading import read_pipeline
from vision_text.denoise.request import Asked, Made, ModelInfo, Preview
from vision_text.models import ModelUnusable
from workers.clock import monotonic
from workers.device import Device
from workers.errors import Draining
from workers.pool import Pool
from workers.task import Lane

SOON, BULK = 1.0, 3600.0
"""Seconds that a step is aimed to begin in."""


class Drawer:
    """Made by `start`. The devices belong to whoever started them; `close` leaves them as they are."""

    task: ClassVar[str]
    classes: ClassVar[tuple[str, ...]]
    """Pipelines of the library that it takes."""
    items: ClassVar[int]
    """Requests that may share a step."""
    backend: ClassVar[type[DenoiseBackend]] = DenoiseBackend

    def __init__(self, backends: Sequence[DenoiseBackend], devices: Sequence[Device]) -> None:
        self.backends = tuple(backends)
        self.name = backends[0].spec.model
        self._pool = Pool(self.name, devices)
        self._closed = False

    @classmethod
    async def start(
        cls,
        name: str,
        devices: Sequence[Device],
        *,
        options: Mapping[str, object] | None = None,
        allow_download: bool = False,
    ) -> Self:
        """Load a model onto devices, running or not, and draw once to warm it; seconds, off the loop. `options` hold
        for requests that say nothing of them. Raises ModelUnusable, InputInvalid."""
        return await asyncio.to_thread(cls._start, name, list(devices), options or {}, allow_download)

    @classmethod
    def _start(cls, name: str, devices: list[Device], options: Mapping[str, object], allow_download: bool) -> Self:
        if not devices:
            raise ValueError("give at least one device")
        backends = []
        for device in devices:
            found, pipeline = read_pipeline(name, allow_download=allow_download)
            if type(pipeline).__name__ not in cls.classes:
                raise ModelUnusable(f"{found.name} is no model of {cls.task}s: it is {type(pipeline).__name__}")
            backend = cls.backend(cls.task, found, pipeline, options, items=cls.items)
            backend.load(device.torch_device)
            device.add(backend)
            backends.append(backend)
        return cls(backends, devices)

    @property
    def info(self) -> ModelInfo:
        return self.backends[0].info

    @property
    def counters(self) -> Counter[str]:
        """Of all devices together: what really ran."""
        return sum((backend.counters for backend in self.backends), Counter())

    async def make(self, asked: Asked, *, lane: Lane = Lane.INTERACTIVE) -> AsyncGenerator[Preview | Made, None]:
        """The previews that were asked for, then the picture or clip. Closing the generator cancels, which costs at
        most a step.

        Raises InputInvalid, InputTooLarge, Overloaded, Draining, BackendFailed, BackendDead.
        """
        if self._closed:
            raise Draining(f"{self.name} is shutting down")
        handle = self._pool.submit(asked, lane=lane, deadline=monotonic() + (BULK if lane is Lane.BULK else SOON))
        try:
            async for output in handle:
                yield output
        finally:
            handle.cancel()

    async def made(self, asked: Asked, *, lane: Lane = Lane.INTERACTIVE) -> Made:
        """Only the end."""
        handle = None
        async for output in self.make(asked, lane=lane):
            handle = output
        assert isinstance(handle, Made)
        return handle

    async def close(self) -> None:
        """No new ones; those under way go on as long as the devices do."""
        self._closed = True
