"""A running service with the gate: options that were proven, metrics of them, and requests that are made again."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from functools import partial
from typing import Any

from aiohttp import web

from gateway.state import SERVICE, Service
from gateway.tune.live import Live
from gateway.tune.metrics import ProofMetrics
from gateway.tune.proven import ProvenOptions
from speech.places import placed, usual


class Proofs:
    """What `gateway.vision` asks of the gate."""

    def __init__(self, proven: ProvenOptions, live: Live) -> None:
        self.known, self.live = proven, live

    def options(self, kind: str, name: str) -> Mapping[str, object]:
        return self.known.options(kind, name)

    def proven(self, kind: str, name: str, model: object, options: Mapping[str, object]) -> bool:
        return self.known.proven(kind, name, model, options)

    def watched(self, kind: str, name: str, model: Any) -> Any:
        return self.live.watched(kind, name, model)


PROOFS = web.AppKey("proofs", Proofs)


def keep_proofs(app: web.Application) -> None:
    """Give the service of an application its gate."""
    service: Service = app[SERVICE]
    proven = ProvenOptions(usual(service.settings.device))
    app[PROOFS] = proofs = Proofs(proven, Live(proven))
    service.vision.gate = proofs
    service.embeddings.proven = partial(proven.options, "embeddings")
    service.metrics.registry.register(ProofMetrics(proven))
    app.on_shutdown.append(_close)


async def note_speech(app: web.Application) -> None:
    """Have the page and the metrics tell what was tried of the models that hear and of voices, once they are loaded.

    What runs on a cluster was tried where it runs.
    """
    service: Service = app[SERVICE]
    settings = service.settings
    if await service.when_loaded() is None or settings.cluster:
        return
    for kind, names in (("asr", settings.models), ("tts", settings.voices)):
        for name in names:
            await asyncio.to_thread(app[PROOFS].known.note, kind, placed(name)[0])


async def _close(app: web.Application) -> None:
    await app[PROOFS].live.close()
