"""The same conversations by vLLM, on GPUs: one engine behind the step loop, with tensor parallelism as its setting.

Written after the engine's documentation and source, version 1 of its core; it has never run here, where there is
neither a GPU nor the package. Its own scheduler batches, chunks prompts and keeps prefixes; a step of ours is one of
its. Pictures are handed over at the size of the plan.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from PIL import Image

from vision_text.models import Found, ModelUnusable
from vision_text.vlm.options import Options
from vision_text.vlm.request import Clip, Picture
from vision_text.vlm.talk import Talk, Written
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, InputInvalid

KEPT_KINDS = frozenset({"float32"})
"""Of the ways to keep the cache: the engine keeps all requests' alike, as it was started."""


@dataclass(frozen=True, slots=True)
class VllmSettings:
    """`tensor_parallel`: GPUs over which each layer is spread. `memory`: share of a GPU that the engine takes.
    `context`: tokens, None for the model's own. `pictures`: of one conversation, at most."""

    tensor_parallel: int = 1
    memory: float = 0.85
    context: int | None = None
    pictures: int = 64

    def __post_init__(self) -> None:
        if self.tensor_parallel < 1 or not 0 < self.memory < 1:
            raise ValueError("tensor_parallel is at least 1, and memory a share between 0 and 1")

    def arguments(self, found: Found, options: Options) -> dict[str, Any]:
        """For the engine, by its own names. Raises ModelUnusable for an option that it does not have."""
        if options.kv not in KEPT_KINDS or options.speculative == "draft":
            raise ModelUnusable(f"kv {options.kv!r} and draft models are not offered with vLLM here")
        given: dict[str, Any] = {
            "model": str(found.directory),
            "tensor_parallel_size": self.tensor_parallel,
            "gpu_memory_utilization": self.memory,
            "enable_prefix_caching": options.prefix_cache,
            "limit_mm_per_prompt": {"image": self.pictures, "video": self.pictures},
        }
        if self.context is not None:
            given["max_model_len"] = self.context
        if options.speculative == "lookup":
            given["speculative_config"] = {"method": "ngram", "num_speculative_tokens": options.proposed}
        return given


class Engine(Protocol):
    """What is used of `vllm.LLMEngine`."""

    def add_request(self, request_id: str, prompt: Mapping[str, Any], params: Any) -> Any: ...

    def step(self) -> Sequence[Any]: ...

    def abort_request(self, request_ids: list[str]) -> None: ...


@dataclass(slots=True, eq=False)
class State:
    talk: Talk
    number: str
    begun: bool = False
    outputs: list[StepResult] = field(default_factory=list)
    tokens: int = 0


class VllmBackend:
    """Takes what the language model of torch takes; pictures come with the prompt instead of encoded."""

    def __init__(self, found: Found, settings: VllmSettings, options: Options, counters: Counter[str]) -> None:
        self.spec = Spec("chat", found.name, found.revision, "vllm")
        self.limits = Limits(items=256)
        self.counters = counters
        self._arguments = settings.arguments(found, options)
        self._engine: Engine | None = None
        self._numbers = itertools.count()
        self._open: dict[str, State] = {}

    def load(self, device: str) -> None:
        if self._engine is not None:
            return
        try:
            from vllm import EngineArgs, LLMEngine  # type: ignore[import-not-found,unused-ignore]
        except ImportError as error:
            raise ModelUnusable("vLLM is not installed; pip install vllm on a machine with a GPU") from error
        if device.partition(":")[0] != "cuda":
            raise ModelUnusable(f"vLLM runs on GPUs, and this device is {device}")
        self._engine = LLMEngine.from_engine_args(EngineArgs(**self._arguments))

    def check(self) -> None:
        if self._engine is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def open(self, payload: Talk) -> State:
        options = payload.options
        if options.kv not in KEPT_KINDS or options.draft:
            raise InputInvalid("vLLM keeps the cache of all requests alike; leave out kv", param="options.kv")
        return State(payload, str(next(self._numbers)))

    def demand(self, state: State) -> Demand:
        return Demand("engine", 1, opening=not state.begun)

    def step(self, states: Sequence[State]) -> list[StepResult]:
        """What one step of the engine made. It moves all its requests on, also those that are not in this batch:
        what these get waits for their turn."""
        assert self._engine is not None
        for state in states:
            if not state.begun:
                try:
                    self._engine.add_request(state.number, _prompt(state.talk), _sampling(state.talk))
                except ValueError as error:
                    state.outputs.append(InputInvalid(f"vLLM does not take this: {error}", param="messages"))
                state.begun, self._open[state.number] = True, state
        if not all(state.outputs for state in states):
            for output in self._engine.step():
                if (found := self._open.get(output.request_id)) is not None:
                    self._put(found, output)
        return [state.outputs.pop(0) if state.outputs else More() for state in states]

    def _put(self, state: State, output: Any) -> None:
        made = output.outputs[0]
        state.tokens += len(made.token_ids)
        if not output.finished:
            state.outputs.append(More((made.text,) if made.text else ()))
            return
        reason = "length" if made.finish_reason == "length" else "stop"
        cached = int(output.num_cached_tokens or 0)
        state.outputs.append(Done(Written(made.text, reason, state.tokens, cached, 0, 0, 0, 0)))

    def discard(self, state: State) -> None:
        if self._open.pop(state.number, None) is not None and self._engine is not None:
            self._engine.abort_request([state.number])  # which knows nothing of those that have ended

    def close(self) -> None:
        self._engine = None
        self._open.clear()


def _sampling(talk: Talk) -> Any:
    from vllm import SamplingParams  # type: ignore[import-not-found,unused-ignore]
    from vllm.sampling_params import RequestOutputKind  # type: ignore[import-not-found,unused-ignore]

    return SamplingParams(
        max_tokens=talk.max_tokens,
        temperature=talk.temperature,
        top_p=talk.top_p,
        stop=list(talk.stop) or None,
        seed=talk.seed if talk.temperature > 0 else None,
        output_kind=RequestOutputKind.DELTA,
    )


def _prompt(talk: Talk) -> dict[str, Any]:
    media: dict[str, list[Any]] = {}
    for shown in talk.prompt.shown:
        size = shown.laid.width, shown.laid.height
        if isinstance(shown.media, Picture):
            media.setdefault("image", []).append(_sized(shown.media.pixels, size))
        else:
            media.setdefault("video", []).append(_frames(shown.media, size))
    given: dict[str, Any] = {"prompt": talk.prompt.text, "cache_salt": talk.prompt.root.hex()}
    if media:
        given["multi_modal_data"] = media
    return given


def _sized(pixels: Any, size: tuple[int, int]) -> Image.Image:
    picture = Image.fromarray(pixels)
    return picture if picture.size == size else picture.resize(size, Image.Resampling.BICUBIC)


def _frames(clip: Clip, size: tuple[int, int]) -> tuple[Any, dict[str, Any]]:
    """Frames, and what they were: they are sampled already, and are not to be sampled again."""
    frames = np.stack([np.asarray(_sized(frame, size)) for frame in clip.frames])
    known = {"fps": clip.fps, "total_num_frames": len(frames), "duration": len(frames) / clip.fps}
    return frames, known | {"frames_indices": list(range(len(frames))), "do_sample_frames": False}
