"""What the options of a model that sees cost and gain, by exact answers about held-out pictures.

    python -m vision_text.vlm.measure [--model shapes-vlm] [--pictures 60]

Each option runs beside the plain model, picture by picture, so that a machine that is busy disturbs both alike.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median

import numpy as np
import torch

from vision_text.scenes import grids
from vision_text.vlm.request import Answered, ChatAsked, Picture, Turn, VisualBudget
from vision_text.vlm.seer import Seer
from workers.device import Device

QUESTIONS = 4
"""About each picture."""


@dataclass(slots=True)
class Tally:
    """Of one option. Seconds to the first text: `first` of a picture's first question, `later` of its others."""

    right: list[bool] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    first: list[float] = field(default_factory=list)
    later: list[float] = field(default_factory=list)
    made: list[Answered] = field(default_factory=list)

    def line(self, name: str, plain: Tally) -> str:
        same = np.mean([a == b for a, b in zip(self.texts, plain.texts, strict=True)])
        how = [one.approximation for one in self.made]
        bytes_, fp16 = sum(one.kv_bytes for one in how), sum(one.kv_bytes_fp16 for one in how)
        plain_bytes = sum(one.approximation.kv_bytes for one in plain.made)
        proposed, accepted = sum(one.proposed for one in how), sum(one.accepted for one in how)
        rate = f"{accepted / proposed:6.2f}" if proposed else "      "
        return (
            f"{name:24} {np.mean(self.right):6.3f} {same:6.3f} {1000 * median(self.first):8.1f} "
            f"{1000 * median(self.later):8.1f} {bytes_ / plain_bytes:8.3f} {bytes_ / fp16:8.3f} {rate}"
        )


async def _answer(seer: Seer, asked: ChatAsked) -> Answered:
    async for output in seer.answer(asked):
        if isinstance(output, Answered):
            return output
    raise RuntimeError("an answer without an end")


async def _ask(seer: Seer, tally: Tally, shown: Picture, about: Sequence[grids.Question], asked: ChatAsked) -> None:
    seer.forget()
    for n, question in enumerate(about):
        turn = Turn("user", (shown, question.text))
        wanted = ChatAsked((turn,), 48, budget=asked.budget, options=asked.options)
        made = await _answer(seer, wanted)
        tally.right.append(made.text == question.answer)
        tally.texts.append(made.text)
        (tally.later if n else tally.first).append(made.seconds_to_first)
        tally.made.append(made)


async def _prefixes(seer: Seer) -> None:
    """Seconds to the first text of a question about pictures that were never seen, and of another one about them."""
    rng = np.random.default_rng(13)
    on = {"prefix_cache": True}
    for count in (1, 4, 8, 16):
        first, second, same = [], [], []
        for _ in range(15):
            shown = [Picture(grids.draw(grids.random_grid(rng))) for _ in range(count)]
            asked = [
                ChatAsked((Turn("user", (*shown, f"what is at the {place}?")),), 12, options=on)
                for place in ("top", "left")
            ]
            seer.forget()
            made = [await _answer(seer, one) for one in asked]
            plain = await _answer(seer, replace(asked[1], options={}))
            first.append(made[0].seconds_to_first)
            second.append(made[1].seconds_to_first)
            same.append(plain.text == made[1].text)
        a, b = median(first), median(second)
        _say(
            f"{count:2} pictures, {made[1].prompt_tokens} tokens of which {made[1].cached_tokens} cached: "
            f"{1000 * a:.1f} ms, then {1000 * b:.1f} ms: 1/{a / b:.1f}; {sum(same)} of {len(same)} answers the same"
        )


async def _at_once(seer: Seer) -> None:
    """Tokens a second of one answer after another, and of eight at once."""
    rng = np.random.default_rng(17)
    shown = [Picture(grids.draw(grids.random_grid(rng))) for _ in range(8)]
    asked = [
        ChatAsked((Turn("user", (one, "describe the picture.")),), 64, temperature=2.0, seed=n)
        for n, one in enumerate(shown)
    ]
    rates: dict[str, list[float]] = {"alone": [], "at once": []}
    texts: dict[str, list[str]] = {}
    for _ in range(5):
        for name, found in rates.items():
            began = time.perf_counter()
            if name == "alone":
                made = [await _answer(seer, one) for one in asked]
            else:
                made = await asyncio.gather(*(_answer(seer, one) for one in asked))
            found.append(sum(one.completion_tokens for one in made) / (time.perf_counter() - began))
            texts[name] = [one.text for one in made]
    same = "the same texts" if texts["alone"] == texts["at once"] else "OTHER TEXTS"
    _say(f"tokens a second: {median(rates['alone']):.0f} alone, {median(rates['at once']):.0f} eight at once; {same}")


async def measure(model: str, pictures: int, side: int) -> None:
    """Prints the table. `side`: pixels of the pictures as they are sent."""
    device = Device("cpu:0")
    seer = await Seer.start(model, [device], drafts=[model])
    device.start()
    options: Mapping[str, dict[str, object]] = {
        "plain": {},
        "prefix_cache": {"prefix_cache": True},
        "kv int8": {"kv": "int8"},
        "kv int4": {"kv": "int4"},
        "kv int1 (harmful)": {"kv": "int1"},
        "kv offload": {"kv": "offload"},
        "lookup 4": {"speculative": ("lookup", 4)},
        "draft (itself) 4": {"speculative": ("draft", model, 4)},
    }
    budgets = {f"{tokens} visual tokens": VisualBudget(tokens) for tokens in (25, 16, 9, 4, 1)}
    tallies = {name: Tally() for name in (*options, *budgets)}
    rng = np.random.default_rng(11)
    for n in range(pictures):
        grid = grids.random_grid(rng, held_out=True)
        shown = Picture(grids.draw(grid, side))
        about = grids.ask(rng, grids.questions(grid), QUESTIONS)
        for name, given in options.items():
            await _ask(seer, tallies[name], shown, about, ChatAsked((), options=given))
        for name, budget in budgets.items():
            await _ask(seer, tallies[name], shown, about, ChatAsked((), budget=budget))
        if (n + 1) % 20 == 0:
            _say(f"{n + 1} pictures")
    _say(f"{model}, {pictures} pictures of {side} px, {QUESTIONS} questions each; ms to the first text: of a picture's")
    _say("first question and of its others; bytes of keys and values against plain and against half precision")
    _say(f"{'':24} {'exact':>6} {'same':>6} {'first':>8} {'others':>8} {'bytes':>8} {'of fp16':>8} {'accepted':>8}")
    for name, tally in tallies.items():
        _say(tally.line(name, tallies["plain"]))
    await _prefixes(seer)
    await _at_once(seer)
    await seer.close()
    device.close()


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="shapes-vlm")
    parser.add_argument("--pictures", type=int, default=60)
    parser.add_argument("--side", type=int, default=grids.SIZE)
    given = parser.parse_args()
    torch.set_num_threads(1)
    asyncio.run(measure(given.model, given.pictures, given.side))


if __name__ == "__main__":
    main()
