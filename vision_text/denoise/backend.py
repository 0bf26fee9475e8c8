"""Pictures and clips on a device: the backend that the step loop calls.

A task is one picture or clip. Its first step encodes the prompt, then each denoising step (both branches of guidance)
is a step, and the last one turns latents into pixels, as does a preview on the way. Requests of one size and one set of
options share denoising steps, whatever steps they are at.
"""

from __future__ import annotations

import logging
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from vision_text.denoise.adapters import Adapter, Conditions, together
from vision_text.denoise.loading import DEFAULTS, STEPS, adapt
from vision_text.denoise.making import Making, Settled
from vision_text.denoise.options import Options, read_options
from vision_text.denoise.request import MOST_STEPS, Asked, Frames, Made, ModelInfo, Preview
from vision_text.denoise.tree import Tree
from vision_text.models import Found
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, InputInvalid, InputTooLarge

log = logging.getLogger(__name__)

MOST_TREES = 8
"""Sets of options that a model is kept ready for. They share its weights, but for those in a lower precision."""
MOST_TOKENS = {"cpu": 1 << 15, "cuda": 1 << 18}
"""Of one picture's or clip's latents."""

Row = tuple[Making, bool]
"""A request, and whether this is its branch with the prompt."""


class _Halfway(Exception):
    """The second of two calls of a step has failed."""

    def __init__(self, reason: Exception) -> None:
        super().__init__(str(reason))
        self.reason = reason


class DenoiseBackend:
    """One pipeline of the library. The output of a task: `Preview`s, then `Made`.

    `counters` count what really ran: "evaluations" (rows the transformer was called with), "calls", "computed.…"
    (blocks by class, once for each row), "cached" (evaluations in which blocks were left out), "encodes", "decodes",
    "fallbacks". `parallel`: the values of that option which whoever inherits from this has made work.
    """

    parallel: tuple[str, ...] = ("none",)

    def __init__(
        self, task: str, found: Found, pipeline: Any, options: Mapping[str, object] | None = None, *, items: int = 8
    ) -> None:
        self.base = read_options(options or {})
        self.found, self.pipeline = found, pipeline
        self.counters: Counter[str] = Counter()
        self.spec = Spec(task, found.name, found.revision, "float32")
        self.limits = Limits(items=items, resident_bytes=_bytes(pipeline))
        self._adapter: Adapter | None = None
        self._trees: OrderedDict[object, Tree] = OrderedDict()
        self._most_tokens = MOST_TOKENS["cpu"]
        self.default_steps = DEFAULTS[found.name][0] if found.name in DEFAULTS else STEPS

    @property
    def adapter(self) -> Adapter:
        """Of the model's class; loaded."""
        if self._adapter is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")
        return self._adapter

    @property
    def info(self) -> ModelInfo:
        adapter = self.adapter
        guidance = DEFAULTS[self.found.name][1] if self.found.name in DEFAULTS else adapter.default_guidance
        return ModelInfo(
            self.found.name, self.found.revision, (adapter.default_size,), adapter.default_size, adapter.multiple,
            self.default_steps, MOST_STEPS, guidance, adapter.max_frames, adapter.default_frames, self.base.as_dict(),
        )  # fmt: skip

    def load(self, device: str) -> None:
        if self._adapter is None:
            kind = device.partition(":")[0]
            self._most_tokens = MOST_TOKENS.get(kind, MOST_TOKENS["cuda"])
            self._adapter = adapt(self.pipeline, device, torch.float32 if kind == "cpu" else torch.bfloat16)
            self._warm()

    def _warm(self) -> None:
        """The model's own size with the options that it was started with, once: compiled, and known to work. Raises
        InputInvalid when they do not go with the model."""
        info = self.info
        width, height = info.default_size
        asked = Asked(
            "warm",
            width=width,
            height=height,
            frames=info.default_frames,
            steps=2,
            guidance=info.default_guidance,
            interval=(0.0, 0.5),  # a step of two rows and one of one, which are compiled apart
        )
        for _ in self.run(asked):
            pass
        self.counters.clear()

    def run(self, asked: Asked) -> list[Preview | Made]:
        """All steps of one, now and on this thread: for warming and comparing, not for serving."""
        state, outputs = self.open(asked), list[Preview | Made]()
        try:
            while True:
                result = self.step([state])[0]
                if isinstance(result, Exception):
                    raise result
                outputs += result.outputs if isinstance(result, More) else (result.output,)
                if isinstance(result, Done):
                    return outputs
        finally:
            self.discard(state)

    def check(self) -> None:
        _ = self.adapter

    def open(self, payload: Asked) -> Making:
        adapter, settled = self.adapter, Settled.of(payload, self.base, self.default_steps)
        adapter.check(payload)
        if (tokens := adapter.tokens(payload)) > self._most_tokens:
            raise InputTooLarge(
                f"{payload.width}x{payload.height} with {payload.frames} frames are {tokens:,} tokens; at most "
                f"{self._most_tokens:,}",
                param="size",
            )
        options = settled.options
        if options.parallel not in self.parallel:
            raise InputInvalid(
                f"parallel {options.parallel} needs a group of devices; this model runs on one",
                param="options.parallel",
            )
        if options.compile and not self.base.compile:
            raise InputInvalid(
                "compile takes minutes and is for a model from its start; start it with this option",
                param="options.compile",
            )
        return Making(payload, settled, adapter.guided(payload), tokens)

    def demand(self, state: Making) -> Demand:
        asked, size = state.asked, (state.asked.width, state.asked.height, state.asked.frames)
        if state.phase == "encode":
            return Demand(("encode",), float(len(asked.prompt) + len(asked.negative)), opening=True)
        if state.phase in ("preview", "decode"):
            return Demand(("decode", size), float(state.tokens))
        assert state.tree is not None
        formats = state.tree.formats(state.step, state.steps)
        bucket = ("denoise", size, state.tree.number, formats, state.settled.options.branches)
        return Demand(bucket, float(state.tokens * (2 if state.both else 1)))

    def step(self, states: Sequence[Making]) -> list[StepResult]:
        began = time.perf_counter()
        with torch.inference_mode():
            if states[0].phase == "encode":
                results = [self._alone(self._encode, state) for state in states]
            elif states[0].phase == "denoise":
                results = self._denoise(states)
            else:
                results = [self._alone(self._decode, state) for state in states]
        took = time.perf_counter() - began
        for n, (state, result) in enumerate(zip(states, results, strict=True)):
            state.seconds += took
            if isinstance(result, Done):
                results[n] = Done(self._made(state, result.output))
        return results

    def _alone(self, function: Callable[[Making], StepResult], state: Making) -> StepResult:
        """What it gives for one; an exception is that one's alone."""
        try:
            return function(state)
        except torch.OutOfMemoryError:
            raise
        except Exception as error:
            return error

    def _encode(self, state: Making) -> StepResult:
        asked, settled, adapter = state.asked, state.settled, self.adapter
        state.tree = self._tree(settled)
        state.generator = torch.Generator().manual_seed(asked.seed)
        self.counters["encodes"] += 1
        state.with_prompt, state.without = adapter.encode(asked)
        state.latents = adapter.noise(asked, state.generator)
        state.course = adapter.course(asked, settled.steps, settled.options.sampler, state.latents)
        state.kernel, state.precision = _kernel(settled.options), state.tree.precision
        state.phase = "denoise"
        return More()

    def _tree(self, settled: Settled) -> Tree:
        """Made when it is first asked for; the one that was not used for longest makes room. Requests that are on a
        tree which made room keep it."""
        cache = settled.options.step_cache
        counts_steps = cache is not None and cache[0] == "magcache"
        key = settled.options.tree, settled.steps if counts_steps else 0
        if key not in self._trees:
            while len(self._trees) >= MOST_TREES:
                self._trees.popitem(last=False)
            self._trees[key] = Tree(self.pipeline.transformer, settled.options, settled.steps, self.counters)
        self._trees.move_to_end(key)
        return self._trees[key]

    def _denoise(self, states: Sequence[Making]) -> list[StepResult]:
        tree = states[0].tree
        assert tree is not None
        try:
            predicted = self._predict(tree, states)
        except _Halfway as error:
            return [error.reason] * len(states)
        return [self._alone(lambda state: self._advance(state, *predicted[state.number]), one) for one in states]

    def _predict(self, tree: Tree, states: Sequence[Making]) -> dict[int, tuple[Tensor, Tensor | None]]:
        """For each the prediction of its branch with the prompt, and of the other where guidance is on."""
        withs: list[Row] = [(state, True) for state in states]
        withouts: list[Row] = [(state, False) for state in states if state.both]
        if states[0].settled.options.branches == "together":
            found = self.evaluate(tree, [*withs, *withouts])
        else:
            found = self.evaluate(tree, withs)
            if withouts:
                found = torch.cat([found, self._second(tree, withouts)])
        rows = {(state.number, branch): n for n, (state, branch) in enumerate([*withs, *withouts])}
        predicted = {}
        for state in states:
            row = rows.get((state.number, False))
            first = rows[state.number, True]
            other = None if row is None else found[row : row + 1]
            predicted[state.number] = found[first : first + 1], other
        return predicted

    def _second(self, tree: Tree, rows: Sequence[Row]) -> Tensor:
        """After a call that went well: a cache has moved on, so the step cannot be tried again."""
        try:
            return self.evaluate(tree, rows)
        except Exception as error:
            if tree.cache is None:
                raise
            raise _Halfway(error) from error

    def evaluate(self, tree: Tree, rows: Sequence[Row]) -> Tensor:
        """The transformer's prediction for each row, (rows, ...). What spreads the work over devices replaces this."""
        states = [state for state, _ in rows]
        first = states[0]
        times = torch.stack([_course(state).timesteps[state.step] for state in states])
        branches: list[Conditions] = [state.with_prompt if given else _without(state) for state, given in rows]
        scaled = [_scaled(state) for state in states]
        call = self.adapter.call(torch.cat(scaled), times, together(branches), first.asked)
        contexts = [state.contexts[0 if given else 1] for state, given in rows]
        predicted, cached = tree.evaluate(call, contexts, tree.formats(first.step, first.steps))
        for state, left_out in zip(states, cached, strict=True):
            state.cached += left_out
            state.evaluations += not (left_out and tree.guesses)
        return predicted

    def _advance(self, state: Making, predicted: Tensor, without: Tensor | None) -> StepResult:
        adapter, course = self.adapter, _course(state)
        if without is not None:
            predicted = without + state.asked.guidance * (predicted - without)
        state.phase = "denoise"
        if state.looked_at:
            state.guess, state.phase = adapter.guess(course, state.step, predicted, state.latents), "preview"
        state.latents = adapter.advance(course, state.step, predicted, state.latents, state.generator)
        state.step += 1
        if not torch.isfinite(state.latents).all():
            return self._mend(state, "the latents were not finite", frames=None)
        if state.step == state.steps:
            state.phase, state.guess = "decode", None
        return More()

    def _decode(self, state: Making) -> StepResult:
        self.counters["decodes"] += 1
        if state.phase == "preview":
            assert state.guess is not None
            frames = self.adapter.decode(state.guess, state.asked)
            state.phase, state.guess = "denoise", None
            return More(()) if frames is None else More((Preview(state.step, state.steps, frames),))
        frames = self.adapter.decode(state.latents, state.asked)
        if frames is None:
            return self._mend(state, "the pixels were not finite", frames=None)
        if frames.min() == frames.max():
            return self._mend(state, "the picture was constant", frames=frames)
        return Done(frames)

    def _mend(self, state: Making, reason: str, frames: Frames | None) -> StepResult:
        """Once more, exactly; when it was exact already, what there is."""
        if state.settled.lossy(state.asked) and state.fallback is None:
            log.warning("%s: %s; it is made again exactly", self.spec.model, reason)
            self.counters["fallbacks"] += 1
            state.again(reason)
            return More()
        if frames is None:
            return BackendFailed(f"{reason}, though it was made exactly; ask with another seed or prompt")
        state.fallback = f"{state.fallback}, and it is again" if state.fallback else f"{reason}, made exactly"
        return Done(frames)

    def _made(self, state: Making, frames: Frames) -> Made:
        return Made(np.ascontiguousarray(frames), state.asked.seed, state.seconds, state.approximation())

    def discard(self, state: Making) -> None:
        state.let_go()

    def held(self) -> set[str]:
        """Names of the states that caches keep: none while nothing is in the making."""
        return {name for tree in self._trees.values() if tree.cache is not None for name in tree.cache.held()}

    def close(self) -> None:
        self._trees.clear()
        self._adapter = None


def _course(state: Making) -> Any:
    assert state.course is not None
    return state.course


def _without(state: Making) -> Conditions:
    assert state.without is not None
    return state.without


def _scaled(state: Making) -> Tensor:
    """As the scheduler wants the model to see them; most leave them as they are."""
    scheduler = _course(state).scheduler
    if hasattr(scheduler, "scale_model_input"):
        scaled: Tensor = scheduler.scale_model_input(state.latents, _course(state).timesteps[state.step])
        return scaled
    return state.latents


def _kernel(options: Options) -> str:
    lowered = options.attention_precision
    return options.attention if lowered == "float32" else f"{options.attention}, {lowered} (emulated)"


def _bytes(pipeline: Any) -> int:
    parts = [part for part in pipeline.components.values() if isinstance(part, torch.nn.Module)]
    return sum(one.nbytes for part in parts for one in part.parameters())
