"""A model that sees, on trial: exact answers about held-out pictures, two questions about each after another one's."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from vision_text.scenes import grids
from vision_text.small import small_models
from vision_text.tuning.budgets import seeing_options
from vision_text.tuning.identity import identity_of
from vision_text.vlm.request import Answered, ChatAsked, Picture, Turn, VisualBudget
from vision_text.vlm.seer import Seer
from workers.device import Device
from workers.gate.subject import Floats, Option, Run, Settings

LONGEST = 48
_TOKENS = (64, 49, 36, 25, 16, 9)


@dataclass(frozen=True, slots=True)
class Asking:
    """`decoy` is asked about first with the first question, so that a cache has another picture's prefix."""

    decoy: NDArray[np.uint8]
    picture: NDArray[np.uint8]
    questions: tuple[grids.Question, ...]


@dataclass(frozen=True, slots=True)
class Said:
    """The answers about the picture."""

    texts: tuple[str, ...]


class SeeingSubject:
    """Options as in `vision_text.vlm.options`. A conversation about a picture is an item."""

    modality = "vlm"

    def __init__(self, model: str, *, device: str = "cpu", allow_download: bool = False) -> None:
        self.name, self._place = model, device
        self._device = Device("tune", device)
        self._drafts = [f"{model}-draft"] if f"{model}-draft" in small_models() else []
        self._runner = asyncio.Runner()
        self.seer = self._runner.run(
            Seer.start(model, [self._device], drafts=self._drafts, allow_download=allow_download)
        )
        self._device.start()
        self._plain = 0.0
        self._tokens = self.seer.info.tokens_per_image

    def close(self) -> None:
        """Free the model."""
        self._runner.run(self.seer.close())
        self._device.close()
        self._runner.close()

    def identity(self) -> Mapping[str, str]:
        return identity_of(self.name, self._place)

    def options(self) -> Sequence[Option]:
        return [
            Option("prefix_cache", True),
            Option("kv", "int8", gains="bytes"),
            Option("kv", "int4", gains="bytes"),
            Option("speculative", ("lookup", 4)),
            *(Option("speculative", ("draft", name)) for name in self._drafts),
            *(Option("visual_budget", VisualBudget(n)) for n in _TOKENS if n < self._tokens),
            Option("kv", "int1", harmful=True),
            Option("prefix_cache", "careless", harmful=True),
            Option("visual_budget", VisualBudget(4), harmful=True),
        ]

    def items(self, n: int, seed: int) -> Sequence[Asking]:
        rng = np.random.default_rng(seed)
        found: list[Asking] = []
        while len(found) < n:
            grid, other = (grids.random_grid(rng, held_out=True) for _ in range(2))
            about = grids.ask(rng, grids.questions(grid), 2)
            if len(about) == 2:
                found.append(Asking(grids.draw(other), grids.draw(grid), tuple(about)))
        return found

    def run(self, settings: Settings, items: Sequence[Asking]) -> Run:
        before = self.seer.counters.copy()
        outputs: list[Said] = []
        seconds: list[float] = []
        held: list[float] = []
        for item in items:
            self.seer.forget()
            began = time.perf_counter()
            made = self._runner.run(self._talk(item, settings))
            seconds.append(time.perf_counter() - began)
            outputs.append(Said(tuple(one.text for one in made)))
            held.append(float(sum(one.approximation.kv_bytes for one in made)))
        if not settings and seconds:
            self._plain = float(np.median(seconds))
        now = self.seer.counters
        effect = Counter({name: now[name] - before[name] for name in now if now[name] != before[name]})
        return Run(outputs, np.array(seconds), effect, np.array(held))

    def score(
        self, reference: Sequence[Said], candidate: Sequence[Said], items: Sequence[Asking]
    ) -> Mapping[str, Floats]:
        right = [
            np.mean([text == question.answer for text, question in zip(said.texts, item.questions, strict=True)])
            for said, item in zip(candidate, items, strict=True)
        ]
        same = [a.texts == b.texts for a, b in zip(reference, candidate, strict=True)]
        return {"exact": np.array(right, np.float64), "same": np.array(same, np.float64)}

    def control(self, seconds_per_item: float) -> Settings | None:
        """Fewer visual tokens."""
        if not self._plain:
            return None
        tokens = max(1, round(self._tokens * seconds_per_item / self._plain))
        return {"visual_budget": VisualBudget(tokens)} if tokens < self._tokens else None

    def isolation(self, settings: Settings) -> list[str]:
        """Alone, beside others, and after one that was dropped."""
        return self._runner.run(self._isolation(settings))

    def show(self, output: Said) -> str:
        return " / ".join(output.texts)

    def caption(self, item: Asking) -> str:
        return " / ".join(f"{one.text} ({one.answer})" for one in item.questions)

    async def _isolation(self, settings: Settings) -> list[str]:
        items = self.items(4, 99)
        alone = []
        for item in items:
            self.seer.forget()
            alone.append([one.text for one in await self._talk(item, settings)])
        self.seer.forget()
        among = await asyncio.gather(*(self._talk(item, settings) for item in items))
        leaks = []
        if [[one.text for one in made] for made in among] != alone:
            leaks.append("another answer among others than alone")
        async with aclosing(cast(Any, self.seer.answer(self._asked(items[0].decoy, items[1], 0, settings)))) as answer:
            await anext(answer)
        if [one.text for one in await self._talk(items[1], settings)] != alone[1]:
            leaks.append("another answer after a request that was dropped")
        return leaks

    async def _talk(self, item: Asking, settings: Settings) -> list[Answered]:
        await self._answer(self._asked(item.decoy, item, 0, settings))
        return [await self._answer(self._asked(item.picture, item, n, settings)) for n in range(len(item.questions))]

    def _asked(self, shown: NDArray[np.uint8], item: Asking, n: int, settings: Settings) -> ChatAsked:
        turn = Turn("user", (Picture(shown), item.questions[n].text))
        return ChatAsked((turn,), LONGEST, options=seeing_options(settings))

    async def _answer(self, asked: ChatAsked) -> Answered:
        async for output in self.seer.answer(asked):
            if isinstance(output, Answered):
                return output
        raise RuntimeError("an answer without an end")
