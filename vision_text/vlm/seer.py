"""A model that sees, for programs: what is asked goes through encoder and language model on the step loop."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

from torch import Tensor

from vision_text.vlm.decoder import TalkBackend
from vision_text.vlm.encoder import EncoderBackend, FeatureCache, Look
from vision_text.vlm.loading import Weights, load_draft
from vision_text.vlm.options import Options, read_options
from vision_text.vlm.prefix import BLOCK, PrefixCache
from vision_text.vlm.prompt import Prompt, Prompter, Shown
from vision_text.vlm.request import Answered, Approximation, ChatAsked, TextDelta, VisualBudget, VisualPlan
from vision_text.vlm.talk import Handed, NotFinite, Talk, Written
from vision_text.vlm.vllm import VllmBackend, VllmSettings
from workers.clock import monotonic
from workers.device import Device
from workers.errors import Draining, InputInvalid
from workers.pool import Pool
from workers.task import Lane

PREFIX_BYTES, FEATURE_BYTES = 256 << 20, 64 << 20
FIRST_TOKEN, NEXT_TOKEN = 0.1, 0.25
"""Seconds that are aimed at. The first is the shorter, so that a prompt that comes is read before answers go on, which
then have one more to share their steps with; an answer that has waited goes before prompts that come later."""
BULK = 3600.0
Made = TypeVar("Made")


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """`context`: tokens of prompt and answer together. `tokens_per_image`: of a picture of 1024 x 768 as the cap has
    it. `precision` by device."""

    name: str
    revision: str
    context: int
    tokens_per_image: int
    precision: Mapping[str, str]
    options: Mapping[str, Any]


@dataclass(slots=True)
class _Encoding:
    """Somebody waits for it; several, when they show the same."""

    task: asyncio.Task[Tensor]
    waiting: int = 0


class Seer:
    """Made by `start`. The devices belong to whoever started them; `close` leaves them as they are."""

    def __init__(
        self, name: str, weights: Weights, options: Options, talk: Pool, encode: Pool | None, go_on: Pool | None,
        prefixes: PrefixCache, features: FeatureCache,
    ) -> None:  # fmt: skip
        self.name, self.counters = name, weights.counters
        self._weights, self._options = weights, options
        self._talk, self._encode, self._go_on = talk, encode, go_on
        self._prefixes, self._features = prefixes, features
        self._prompter = Prompter(weights)
        self._encodings: dict[tuple[bytes, Lane], _Encoding] = {}
        self._writing = ThreadPoolExecutor(1, "prompt")  # the tokeniser is not for several threads at once
        self._drawing = ThreadPoolExecutor(2, "pixels")
        self._closed = False

    @classmethod
    async def start(
        cls,
        name: str,
        devices: Sequence[Device],
        *,
        options: Mapping[str, object] | None = None,
        drafts: Sequence[str] = (),
        allow_download: bool = False,
        engine: VllmSettings | None = None,
        prefix_bytes: int = PREFIX_BYTES,
        feature_bytes: int = FEATURE_BYTES,
    ) -> Seer:
        """Load a model onto devices, running or not; seconds, off the loop. `options` hold for requests that say
        nothing of them; `visual_budget` is also the most that a request may have. `drafts`: models that requests may
        name. `engine`: have vLLM do it, on the first device. Raises ModelUnusable, InputInvalid, ValueError when it
        does not fit."""
        read = read_options(options or {}, per_seer=True)
        if not devices:
            raise ValueError("give at least one device")
        limits = prefix_bytes, feature_bytes
        if engine is not None:
            return await asyncio.to_thread(cls._start_vllm, name, devices, read, engine, allow_download)
        return await asyncio.to_thread(cls._start, name, list(devices), read, drafts, allow_download, limits)

    @classmethod
    def _start(
        cls, name: str, devices: list[Device], options: Options, drafts: Sequence[str], allow_download: bool,
        limits: tuple[int, int],
    ) -> Seer:  # fmt: skip
        counters: Counter[str] = Counter()
        weights = Weights.read(name, allow_download=allow_download, counters=counters)
        encoders = [_named(devices, options.encoder_device)] if options.encoder_device else devices
        writers = [_named(devices, options.decode_device)] if options.decode_device else []
        readers = [device for device in devices if device not in writers] or devices
        named = dict.fromkeys((*drafts, *([options.draft] if options.draft else ())))
        prefixes = PrefixCache(limits[0])
        found = weights.found.name
        for device in encoders:
            device.add(_loaded(EncoderBackend(weights, f"{found}/encoder", counters), device))
        for place, model in ((readers, found), (writers, f"{found}/writer")):
            for device in place:
                vocabulary = weights.on(device.torch_device).core.vocabulary
                kept = {
                    draft: load_draft(
                        draft, device.torch_device, vocabulary, allow_download=allow_download, counters=counters
                    )
                    for draft in named
                }
                device.add(_loaded(TalkBackend(weights, model, prefixes, kept, counters), device))
        go_on = Pool(f"{found}/writer", writers) if writers else None
        pools = Pool(found, readers), Pool(f"{found}/encoder", encoders), go_on
        return cls(found, weights, options, *pools, prefixes, FeatureCache(limits[1]))

    @classmethod
    def _start_vllm(
        cls, name: str, devices: Sequence[Device], options: Options, engine: VllmSettings, allow_download: bool
    ) -> Seer:
        counters: Counter[str] = Counter()
        weights = Weights.read(name, allow_download=allow_download, counters=counters)
        backend = VllmBackend(weights.found, engine, options, counters)
        backend.load(devices[0].torch_device)
        devices[0].add(backend)
        pool = Pool(weights.found.name, devices[:1])
        return cls(name, weights, options, pool, None, None, PrefixCache(0), FeatureCache(0))

    @property
    def info(self) -> ModelInfo:
        weights, budget = self._weights, self._options.visual_budget or VisualBudget()
        tokens = weights.family.lay_picture(1024, 768, budget).tokens
        options = self._options.as_dict()
        return ModelInfo(self.name, weights.found.revision, weights.context, tokens, weights.precision, options)

    @property
    def prefix_bytes(self) -> int:
        """Held by the prefix cache."""
        return self._prefixes.bytes

    def plan(self, asked: ChatAsked) -> VisualPlan:
        """Tokens, sizes, and the times of a clip's frames, before anything is decoded: parts may be `Unopened`.
        Raises InputInvalid, InputTooLarge."""
        asked.check()
        return self._prompter.plan(asked, self._read(asked))

    def _read(self, asked: ChatAsked) -> Options:
        options = read_options(asked.options, self._options)
        if options.visual_budget is not None and self._options.visual_budget is not None:
            options = replace(options, visual_budget=options.visual_budget.within(self._options.visual_budget))
        return options.exactly() if asked.exact else options

    async def answer(self, asked: ChatAsked, lane: Lane = Lane.INTERACTIVE) -> AsyncIterator[TextDelta | Answered]:
        """The text as it is written, then how it ended. Closing the iterator cancels, which costs at most a step.

        Raises InputInvalid, InputTooLarge, Overloaded, Draining, BackendFailed, BackendDead.
        """
        began = time.perf_counter()
        asked.check()
        options = self._read(asked)
        seed = asked.seed if asked.seed is not None else secrets.randbits(31) if asked.temperature > 0 else 0
        fallback: str | None = None
        given = False
        while True:
            try:
                async with aclosing(self._attempt(asked, options, lane, seed, began, fallback)) as outputs:
                    async for output in outputs:
                        given = True
                        yield output
                return
            except NotFinite as error:
                if given or not options.lossy:
                    raise
                fallback, options = f"{error.message}; made again exactly", options.exactly()
                self.counters["fallbacks"] += 1

    async def _attempt(
        self, asked: ChatAsked, options: Options, lane: Lane, seed: int, began: float, fallback: str | None
    ) -> AsyncGenerator[TextDelta | Answered, None]:
        prompt = await self._in_thread(self._writing, self._prompter.prompt, asked, options)
        prefix = tuple(self._prefixes.match(prompt.keys[: (len(prompt.ids) - 1) // BLOCK]))
        covered = len(prefix) * BLOCK
        wanted = [one if self._encode is not None and one.places[-1] >= covered else None for one in prompt.shown]
        features = await self._shown(wanted, lane, kept=options.prefix_cache)
        most = min(asked.max_tokens, self._weights.context - len(prompt.ids))
        talk = Talk(
            prompt, tuple(features), prefix, options, most, float(asked.temperature), float(asked.top_p), asked.stop,
            seed, hand_over=self._go_on is not None,
        )  # fmt: skip
        handle = self._talk.submit(talk, lane=lane, deadline=_deadline(lane, FIRST_TOKEN))
        text: list[str] = []
        first = 0.0
        try:
            if self._go_on is not None:
                handed = await handle.result()
                assert isinstance(handed, Handed)
                talk = replace(talk, features=(), prefix=(), hand_over=False, handed=handed)
                handle = self._go_on.submit(talk, lane=lane, deadline=_deadline(lane, NEXT_TOKEN))
            async for output in handle:
                first = first or time.perf_counter() - began
                more = output.text if isinstance(output, Written) else output
                if more:
                    text.append(more)
                    yield TextDelta(more)
                if isinstance(output, Written):
                    how = self._approximation(asked, options, prompt, output, seed, fallback)
                    yield _answered("".join(text), prompt, output, first, how)
                elif lane is not Lane.BULK:
                    handle.move(_deadline(lane, NEXT_TOKEN))
        finally:
            handle.cancel()

    def _approximation(
        self, asked: ChatAsked, options: Options, prompt: Prompt, written: Written, seed: int, fallback: str | None
    ) -> Approximation:
        budget = self._prompter.budget(asked, options)
        return Approximation(
            precision=" ".join(sorted(set(self._weights.precision.values()))), kv=options.kv,
            kernel="sdpa" if self._encode is not None else "vllm",
            kv_bytes=written.kv_bytes, kv_bytes_fp16=written.kv_bytes_fp16, cached_tokens=written.cached,
            proposed=written.proposed, accepted=written.accepted, speculative=options.speculative,
            visual_tokens=prompt.visual_tokens, frames=prompt.frames, seed=seed,
            budget={name: getattr(budget, name) for name in budget.__slots__ if getattr(budget, name) is not None},
            options=options.as_dict(), exact=not options.lossy, fallback=fallback,
        )  # fmt: skip

    async def _shown(self, wanted: Sequence[Shown | None], lane: Lane, *, kept: bool) -> list[Tensor | None]:
        """What the encoder makes of each; None where nothing is wanted. `kept`: what others have shown counts, too."""
        keys = {one.key: one for one in wanted if one is not None}
        made = {key: found for key in keys if kept and (found := self._features.get(key)) is not None}
        self.counters["feature_hits"] += len(made)
        missing = [one for key, one in keys.items() if key not in made]
        encoded = self._shared if kept else self._encoded
        waited = [asyncio.ensure_future(encoded(one, lane)) for one in missing]
        try:
            made |= zip((one.key for one in missing), await asyncio.gather(*waited), strict=True)
        finally:
            for one in waited:
                one.cancel()
        return [made[one.key] if one is not None else None for one in wanted]

    async def _shared(self, shown: Shown, lane: Lane) -> Tensor:
        """Several that show the same at once wait for one encoding; it goes on while anybody does."""
        key = shown.key, lane
        encoding = self._encodings.get(key)
        if encoding is None:
            if (ready := self._features.get(shown.key)) is not None:  # since it was missed
                return ready
            task = asyncio.ensure_future(self._kept(shown, lane))
            encoding = self._encodings[key] = _Encoding(task)
            task.add_done_callback(partial(self._ended, key))
        encoding.waiting += 1
        try:
            return await asyncio.shield(encoding.task)
        finally:
            encoding.waiting -= 1
            if not encoding.waiting and not encoding.task.done():
                self._encodings.pop(key, None)
                encoding.task.cancel()

    def _ended(self, key: tuple[bytes, Lane], task: asyncio.Task[Tensor]) -> None:
        """One that was given up may end when the next of the same picture is under way, which stays."""
        if key in self._encodings and self._encodings[key].task is task:
            del self._encodings[key]

    async def _kept(self, shown: Shown, lane: Lane) -> Tensor:
        """Kept by itself, so that whoever comes between its end and the first who waited finds it."""
        tokens = await self._encoded(shown, lane)
        self._features.keep(shown.key, tokens)
        return tokens

    async def _encoded(self, shown: Shown, lane: Lane) -> Tensor:
        units = await self._in_thread(self._drawing, self._weights.family.units, shown.media, shown.laid)
        look = Look(tuple(units), shown.laid.tokens)
        assert self._encode is not None
        tokens: Tensor = await self._encode.submit(look, lane=lane, deadline=_deadline(lane, FIRST_TOKEN)).result()
        return tokens

    async def _in_thread(self, threads: ThreadPoolExecutor, made: Callable[..., Made], *given: Any) -> Made:
        if self._closed:
            raise Draining(f"{self.name} is shutting down")
        return await asyncio.get_running_loop().run_in_executor(threads, made, *given)

    def forget(self) -> None:
        """Empty the caches: what was seen and read is computed again."""
        self._prefixes.clear()
        self._features.clear()

    async def close(self) -> None:
        """No new answers; those under way go on as long as the devices do."""
        self._closed = True
        self._writing.shutdown(wait=False)
        self._drawing.shutdown(wait=False)
        self.forget()


def _named(devices: Sequence[Device], name: str) -> Device:
    for device in devices:
        if device.name == name:
            return device
    there = ", ".join(device.name for device in devices)
    raise InputInvalid(f"there is no device {name[:60]!r}; there is: {there}", param="options")


def _loaded(backend: EncoderBackend | TalkBackend, device: Device) -> EncoderBackend | TalkBackend:
    backend.load(device.torch_device)
    return backend


def _deadline(lane: Lane, seconds: float) -> float:
    return monotonic() + (BULK if lane is Lane.BULK else seconds)


def _answered(text: str, prompt: Prompt, written: Written, first: float, how: Approximation) -> Answered:
    return Answered(
        text, written.finish_reason, len(prompt.ids), prompt.visual_tokens, written.cached, written.tokens, first, how
    )
