"""The denoising backend for clips: what the loop does for pictures, and a step spread over a group of devices."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from vision_text.denoise.backend import DenoiseBackend, Row
from vision_text.denoise.making import Making
from vision_text.denoise.options import PARALLEL, Options
from vision_text.denoise.request import Asked
from vision_text.denoise.tree import Tree
from vision_text.models import Found
from vision_text.numerics.formats import Format
from vision_text.parallel.context import obstacle
from vision_text.parallel.group import Group
from vision_text.parallel.member import Mode
from vision_text.videos.decoding import ClipAdapter, Decoding
from workers.backend import More, StepResult
from workers.errors import BackendDead, InputInvalid

log = logging.getLogger(__name__)

ANSWER = 25.0
"""Seconds that a step of the group may take; the device would be given up after thirty."""


class FilmBackend(DenoiseBackend):
    """Clips. `counters` have besides: "parallel.guidance", "parallel.ulysses" (steps made by the group),
    "exchanged.…" (bytes between its ranks, by collective) and "groups_lost".

    With guidance over two ranks the result is that of one bit for bit. With the context over two it may differ in the
    last bits: attention sums over the same keys in another order.
    """

    def __init__(
        self, task: str, found: Found, pipeline: Any, options: Mapping[str, object] | None = None, *, items: int = 1
    ) -> None:
        super().__init__(task, found, pipeline, options, items=items)
        self.group: Group | None = None
        self._decodings: dict[int, Decoding] = {}
        if self.base.parallel != "none":
            self.parallel = PARALLEL

    def load(self, device: str) -> None:
        if self._adapter is not None:
            return
        if self.base.parallel != "none":
            # Before the model is warmed, so that the ranks are as well.
            self.group = self._start_group(device)
        try:
            super().load(device.partition("+")[0])
        except BaseException:
            self.close()
            raise
        self._adapter = ClipAdapter(self.pipeline)

    def _start_group(self, device: str) -> Group:
        members = device.split("+")
        if len(members) > 2:
            raise InputInvalid(f"parallel spreads a clip over two devices; {device} is more", param="options.parallel")
        if len(members) == 1:
            members = self._pair(device)
        threads = max(1, torch.get_num_threads() // 2)
        directory = self.found.directory / "transformer"
        dtype = "float32" if device.startswith("cpu") else "bfloat16"
        return Group.start(directory, devices=members, dtype=dtype, threads=threads, timeout=ANSWER)

    def _pair(self, device: str) -> list[str]:
        """Two devices where the model was not started on a group of them: this one and the next."""
        if device.startswith("cpu"):
            return ["cpu", "cpu"]
        if torch.cuda.device_count() < 2:
            raise InputInvalid(
                "parallel spreads a clip over two devices; this machine has one", param="options.parallel"
            )
        if device not in ("cuda", "cuda:0"):
            raise InputInvalid(
                f"parallel needs a second device beside {device}: start the model on a group of them (cuda:2+cuda:3)",
                param="options.parallel",
            )
        return ["cuda:0", "cuda:1"]

    def open(self, payload: Asked) -> Making:
        state = super().open(payload)
        if state.settled.options.parallel != "none":
            self._check_parallel(state)
        return state

    def _check_parallel(self, state: Making) -> None:
        options = state.settled.options
        # The ranks hold the model as it is: what changes its modules or remembers from step to step is not there.
        if options.tree != Options().tree:
            raise InputInvalid(
                f"parallel {options.parallel} goes with no step_cache, precision, attention, fused_norm or compile",
                param="options.parallel",
            )
        if options.parallel == "guidance" and options.branches != "together":
            raise InputInvalid("parallel guidance computes both branches at once", param="options.branches")
        if options.parallel == "ulysses":
            config = self.pipeline.transformer.config
            text = int(config.max_text_seq_length)
            if why := obstacle(config, text=text, tokens=state.tokens, ranks=2):
                raise InputInvalid(f"the clip cannot be split: {why}", param="options.parallel")

    def evaluate(self, tree: Tree, rows: Sequence[Row]) -> Tensor:
        mode = rows[0][0].settled.options.parallel
        if self.group is None or mode == "none" or (mode == "guidance" and len(rows) != 2):
            return super().evaluate(tree, rows)  # where guidance is off there is nothing to share
        try:
            return super().evaluate(_Spread(self.group, cast(Mode, mode), self.counters), rows)
        except BackendDead as dead:
            log.warning("%s: %s; its clips are made on one device from now on", self.spec.model, dead.message)
            self.counters["groups_lost"] += 1
            self.group = None
            return super().evaluate(tree, rows)

    def _decode(self, state: Making) -> StepResult:
        """A part of the frames; with the last one what the loop does with pixels."""
        adapter = self.adapter
        if not isinstance(adapter, ClipAdapter):
            return super()._decode(state)
        parts = self._decodings.get(state.number)
        if parts is None:
            latents = state.guess if state.phase == "preview" else state.latents
            assert latents is not None
            parts = adapter.decoding(latents, state.asked)
        if parts is None:
            return super()._decode(state)
        self._decodings[state.number] = parts
        if not parts.advance():
            return More()
        del self._decodings[state.number]
        adapter.finished = parts.video
        try:
            return super()._decode(state)
        finally:
            adapter.finished = None

    def discard(self, state: Making) -> None:
        self._decodings.pop(state.number, None)
        super().discard(state)

    def close(self) -> None:
        if self.group is not None:
            self.group.close()
            self.group = None
        super().close()


class _Spread(Tree):
    """The modules of a group's ranks: called like the model's own."""

    def __init__(self, group: Group, mode: Mode, counters: Counter[str]) -> None:
        self._group, self._mode, self.counters = group, mode, counters

    def formats(self, step: int, steps: int) -> tuple[Format, ...]:
        return ()

    def evaluate(
        self, call: dict[str, Any], contexts: Sequence[str], formats: tuple[Format, ...]
    ) -> tuple[Tensor, list[bool]]:
        evaluated = self._group.evaluate(self._mode, **{key: one for key, one in call.items() if key != "return_dict"})
        self.counters["evaluations"] += len(contexts)
        self.counters["calls"] += 1
        self.counters[f"parallel.{self._mode}"] += 1
        for collective, sent in evaluated.sent.items():
            self.counters[f"exchanged.{collective}"] += sent
        return evaluated.made, [False] * len(contexts)
