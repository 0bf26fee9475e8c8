"""The embedder of a service: loaded behind the speech engine, on its devices, while that already serves."""

from __future__ import annotations

import asyncio
import importlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gateway.settings import Settings
from workers.errors import BackendDead, Draining, ServingError

if TYPE_CHECKING:
    from speech.engine import Engine
    from vision_text.embeddings.embedder import Embedder

log = logging.getLogger("speechlane.embeddings")

REMEDY = "pip install 'speechlane[embeddings]'"
_NEEDED = ("safetensors", "PIL", "transformers")


class NotServed(ServingError):
    """This service has no embeddings: they were not installed, or not wanted."""

    code = "embeddings_unavailable"
    status = 501


class Embeddings:
    """`state`: "off", "not_installed", "loading", "failed" or "ready"."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._embedder: Embedder | None = None
        self._loaded = asyncio.Event()
        self.proven: Callable[[str], Mapping[str, object]] | None = None
        """Tells with which options a model may be served; None: as exactly as it can be run."""
        self.state = "loading" if settings.embeddings else "off"
        if settings.embeddings and not all(find_spec(name) for name in _NEEDED):
            self.state = "not_installed"

    @property
    def embedder(self) -> Embedder:
        """Raises `Draining` while it is loading, `BackendDead` when that failed, `NotServed` when there is none."""
        if self._embedder is not None:
            return self._embedder
        if self.state == "off":
            raise NotServed("This service was started without embeddings (embeddings names no model).")
        if self.state == "not_installed":
            raise NotServed(f"Embeddings are not installed here. Whoever runs this service adds them with: {REMEDY}")
        if self.state == "failed":
            raise BackendDead("The embedding models could not be loaded; the log of the service says why.")
        raise Draining("The embedding models are still loading; try again in a few seconds.")

    @property
    def loaded(self) -> Embedder | None:
        """The embedder, or None while there is none."""
        return self._embedder

    async def when_loaded(self) -> Embedder | None:
        """The embedder once it is loaded; None when there will be none."""
        await self._loaded.wait()
        return self._embedder

    async def run(self, engine: Callable[[], Awaitable[Engine | None]]) -> None:
        """Load behind the engine, so that speech is served first; then until cancelled."""
        try:
            if self.state == "loading":
                await self._load(await engine())
            self._loaded.set()
            await asyncio.Event().wait()
        finally:
            self._loaded.set()
            if self._embedder is not None:
                with suppress(Exception):
                    await self._embedder.close()

    async def _load(self, engine: Engine | None) -> None:
        settings = self._settings
        if engine is None:
            self.state = "failed"
            return
        try:
            module = await asyncio.to_thread(importlib.import_module, "vision_text.embeddings.embedder")
            self._embedder = await module.Embedder.start(
                engine.devices,
                module.EmbeddingSettings(
                    models=settings.embeddings,
                    rerankers=settings.rerankers,
                    arithmetic=settings.embedding_arithmetic,
                    download=settings.download,
                ),
                *([self.proven] if self.proven is not None else []),
            )
        except Exception as error:
            self.state = "failed"
            foreseen = isinstance(error, ValueError | ImportError)
            log.error("the embedding models could not be loaded: %s", error, exc_info=None if foreseen else error)
            return
        self.state = "ready"
        log.info("embeddings are ready: %s", ", ".join(info.name for info in self._embedder.models()))
