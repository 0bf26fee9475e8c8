"""A small share of live requests is made again exactly, in bulk; what no longer holds by them is taken back."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any

from gateway.tune.proven import ProvenOptions
from workers.errors import ServingError
from workers.gate.drift import Watch, watches
from workers.gate.thresholds import Thresholds, thresholds
from workers.task import Lane

log = logging.getLogger("speechlane.tune")

MODALITIES = {"chat": "vlm", "image": "image", "video": "video"}
Compare = Callable[[Any, Any], Mapping[str, float]]
OFF: Mapping[str, object] = {
    "guidance_interval": None, "steps": None, "sampler": "model", "attention": "native", "compile": False,
    "fused_norm": False, "precision": "float32", "step_cache": None, "attention_precision": "float32",
    "prefix_cache": False, "kv": "float32", "speculative": None, "visual_budget": None,
}  # fmt: skip
"""Each option as it is when nobody sets it."""


class Live:
    """The reruns of one service. Nothing of a request is kept beyond its comparison, and nothing of it is logged."""

    def __init__(
        self, proven: ProvenOptions, *, bars: Thresholds | None = None, chance: Callable[[], float] = random.random
    ) -> None:
        self._proven, self._bars, self._chance = proven, bars or thresholds(), chance
        self._watches: dict[str, dict[str, Watch]] = {}
        self._running: set[asyncio.Task[None]] = set()

    def watched(self, kind: str, name: str, model: Any) -> Any:
        """The same model, whose requests are looked at."""
        return Watched(model, kind, name, self)

    def seen(self, model: Any, kind: str, name: str, asked: Any, made: Any) -> None:
        """A request has been answered: perhaps it is made again."""
        if asked.exact or asked.options or not self._proven.serving(name) or self._chance() >= self._bars.live.share:
            return
        if len(self._running) >= self._bars.live.most_waiting:
            self._proven.reruns[name, "skipped"] += 1
            return
        task = asyncio.create_task(self._again(model, kind, name, asked, made))
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def now(self, name: str, asked: Any) -> Any:
        """What a model is asked: when its options were taken back, without them, though it was started with them."""
        withdrawn = self._proven.withdrawn(name)
        if not withdrawn or asked.exact:
            return asked
        if not asked.options:
            return replace(asked, exact=True)
        return replace(
            asked, options={**{option: OFF[option] for option in withdrawn if option in OFF}, **asked.options}
        )

    async def close(self) -> None:
        """What is being made again is let go."""
        for task in list(self._running):
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)

    async def _again(self, model: Any, kind: str, name: str, asked: Any, made: Any) -> None:
        try:
            exact = await _exactly(model, kind, asked, made)
            values = await asyncio.to_thread(COMPARE[kind], exact, made)
        except ServingError as error:
            self._proven.reruns[name, "failed"] += 1
            log.warning("a request of %s could not be made again: %s", name, error.code)
            return
        self._proven.reruns[name, "compared"] += 1
        for measure, watch in self._watching(name, kind).items():
            if measure not in values:
                continue
            drifted = watch.add(values[measure])
            self._proven.drift[name, measure] = watch.sum
            if drifted:
                reason = (
                    f"live requests drifted from the evidence in {measure}: {watch.seen} were made again exactly, "
                    f"{watch.expected:.3f} was expected"
                )
                await asyncio.to_thread(self._proven.roll_back, name, reason)
                return

    def _watching(self, name: str, kind: str) -> dict[str, Watch]:
        if name not in self._watches:
            evidence = self._proven.evidence(name)
            self._watches[name] = watches(evidence, self._bars, MODALITIES[kind]) if evidence is not None else {}
        return self._watches[name]


class Watched:
    """A model as it is, but for what is asked of it: after a rollback it runs exactly."""

    def __init__(self, model: Any, kind: str, name: str, live: Live) -> None:
        self._model, self._kind, self._name, self._live = model, kind, name, live

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    async def make(self, asked: Any, *, lane: Lane = Lane.INTERACTIVE) -> AsyncGenerator[Any, None]:
        """As the model's own."""
        async with aclosing(self._model.make(self._live.now(self._name, asked), lane=lane)) as parts:
            async for part in parts:
                if hasattr(part, "approximation"):
                    self._live.seen(self._model, self._kind, self._name, asked, part)
                yield part

    async def answer(self, asked: Any, lane: Lane = Lane.INTERACTIVE) -> AsyncIterator[Any]:
        """As the model's own."""
        async with aclosing(self._model.answer(self._live.now(self._name, asked), lane)) as parts:
            async for part in parts:
                if hasattr(part, "approximation"):
                    self._live.seen(self._model, self._kind, self._name, asked, part)
                yield part


async def _exactly(model: Any, kind: str, asked: Any, made: Any) -> Any:
    if kind == "chat":
        again = replace(asked, exact=True, seed=made.approximation.seed)
        async with aclosing(model.answer(again, Lane.BULK)) as parts:
            found = [part async for part in parts]
    else:
        async with aclosing(model.make(replace(asked, exact=True, previews=0), lane=Lane.BULK)) as parts:
            found = [part async for part in parts]
    return found[-1]


def _drawn(exact: Any, made: Any) -> Mapping[str, float]:
    from vision_text.tuning.likeness import ssim

    return {"ssim": ssim(exact.frames, made.frames) if exact.frames.shape == made.frames.shape else 0.0}


def _said(exact: Any, made: Any) -> Mapping[str, float]:
    return {"same": float(exact.text == made.text)}


COMPARE: Mapping[str, Compare] = {"image": _drawn, "video": _drawn, "chat": _said}
