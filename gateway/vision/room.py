"""The models of one kind: loaded when the first request comes, or at the start, on the devices that speech runs on."""

from __future__ import annotations

import asyncio
import importlib
import logging
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from contextvars import Context
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from gateway.http_errors import ModelNotFound
from gateway.vision.quiet import quiet
from speech.places import placed
from workers.errors import BackendDead, Draining, InputInvalid, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine

log = logging.getLogger("speechlane.vision")

PATIENCE = 60.0
"""Seconds that a request waits for its model to be loaded; then it is told to come back."""
AGAIN_SECONDS = 30.0
"""After a model could not be loaded, until a request tries it once more."""
REMEDY = "pip install 'speechlane[vision]'"


class NotServed(ServingError):
    """This service has no models of the kind: they were not installed, or not wanted."""

    code = "vision_unavailable"
    status = 501


class Facade(Protocol):
    """What the models of all kinds have in common."""

    @property
    def info(self) -> Any:
        """What it can do."""

    async def close(self) -> None:
        """Free the model."""


Model = TypeVar("Model", bound=Facade)
Engines = Callable[[], Awaitable["Engine | None"]]
Options = Callable[[str, str], Mapping[str, object]]
Watch = Callable[[str, str, Any], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """`setting` holds the names of the models; `facade` is "module:Class", imported when it is needed; `aliases` are
    names of others' models, which stand for the default one. `one`: a model takes one device, not a group of them."""

    name: str
    setting: str
    facade: str
    needed: tuple[str, ...]
    aliases: tuple[str, ...]
    one: bool = True


class Room(Generic[Model]):
    """The models of a kind, of which the first is the default; "NAME@cuda:1" says where one is to run. `options` says
    with what a model is started, `watched` what stands in its place once it is."""

    def __init__(self, kind: Kind, names: Sequence[str], *, download: bool, options: Options, watched: Watch) -> None:
        self._places = dict(map(placed, names))
        self.kind, self.names = kind, tuple(self._places)
        self._download, self._options, self._watched = download, options, watched
        self._engine: Engines | None = None
        self._loading: dict[str, asyncio.Task[Model]] = {}
        self._failed: dict[str, float] = {}
        self._models: dict[str, Model] = {}

    @property
    def state(self) -> str:
        """ "off", "not_installed", "idle" (nobody has asked yet), "loading", "failed" or "ready"."""
        if not self.names:
            return "off"
        if self._models:
            return "ready"
        if not all(find_spec(name) for name in self.kind.needed):
            return "not_installed"
        if any(not task.done() for task in self._loading.values()):
            return "loading"
        return "failed" if self._failed else "idle"

    @property
    def loaded(self) -> dict[str, Model]:
        """Models by name, the default one first."""
        return {name: self._models[name] for name in self.names if name in self._models}

    def begin(self, engine: Engines, *, now: bool) -> None:
        """The service runs; `now`: load everything behind the engine, and not at the first request."""
        self._engine = engine
        if now and self.state == "idle":
            for name in self.names:
                self._load(name)

    def resolve(self, name: str | None) -> str:
        """The name of the model that is meant. Raises `NotServed`, `ModelNotFound`."""
        if not self.names:
            raise NotServed(f"This service was started without models for this ({self.kind.setting} names none).")
        if self.state == "not_installed":
            raise NotServed(f"What this takes is not installed here. Whoever runs this service adds it with: {REMEDY}")
        if name is None or name in self.kind.aliases:
            return self.names[0]
        if name not in self.names:
            raise ModelNotFound(
                f"The model {name[:200]!r} is not served here; there is {', '.join(self.names)}.", param="model"
            )
        return name

    async def get(self, name: str | None) -> Model:
        """The model, loaded. Raises `NotServed`, `ModelNotFound`, `Draining` while it loads, `BackendDead`."""
        resolved = self.resolve(name)
        if resolved in self._models:
            return self._models[resolved]
        failed = self._failed.get(resolved)
        if failed is not None and time.monotonic() - failed < AGAIN_SECONDS:
            raise BackendDead(f"The model {resolved!r} could not be loaded; the log of the service says why.")
        task = self._load(resolved)
        try:
            return await asyncio.wait_for(asyncio.shield(task), PATIENCE)
        except TimeoutError:
            raise Draining(f"The model {resolved!r} is still loading; try again in a few seconds.") from None

    async def close(self) -> None:
        """Free everything."""
        for task in self._loading.values():
            task.cancel()
        await asyncio.gather(*self._loading.values(), return_exceptions=True)
        for model in self._models.values():
            with suppress(Exception):
                await model.close()
        self._models.clear()

    def _load(self, name: str) -> asyncio.Task[Model]:
        task = self._loading.get(name)
        if task is None or task.done():
            # In a context of its own: it is not the first request's work, and not at the expense of its key.
            task = self._loading[name] = asyncio.create_task(self._loaded(name), context=Context())
            # Whoever asked may be gone; what went wrong is in the log.
            task.add_done_callback(lambda done: None if done.cancelled() else done.exception() and None)
        return task

    async def _loaded(self, name: str) -> Model:
        engine = await self._engine() if self._engine is not None else None
        if engine is None:
            raise BackendDead("The models of this service could not be loaded; its log says why.")
        began = time.monotonic()
        try:
            where = self._places[name]
            devices = engine.at(where, name) if where else engine.devices
            if self.kind.one and any("+" in device.torch_device for device in devices):
                raise ValueError(f"{name} is to run on a group of devices, and takes one")
            await asyncio.to_thread(quiet)
            module, _, facade = self.kind.facade.partition(":")
            found = getattr(await asyncio.to_thread(importlib.import_module, module), facade)
            options = await asyncio.to_thread(self._options, self.kind.name, name)
            try:
                model: Model = await found.start(name, devices, options=options, allow_download=self._download)
            except InputInvalid as error:
                if not options:
                    raise
                # What was proven once does not run here any more: better exact than not at all.
                log.warning("%s is started without the options of its profile: %s", name, error.message)
                model = await found.start(name, devices, options={}, allow_download=self._download)
        except Exception as error:
            self._failed[name] = time.monotonic()
            foreseen = isinstance(error, ValueError | ImportError)
            log.error("the model %s could not be loaded: %s", name, error, exc_info=None if foreseen else error)
            raise BackendDead(f"The model {name!r} could not be loaded; the log of the service says why.") from error
        self._failed.pop(name, None)
        self._models[name] = self._watched(self.kind.name, name, model)
        log.info("%s is ready for %s after %.1f s", name, self.kind.name, time.monotonic() - began)
        return self._models[name]
