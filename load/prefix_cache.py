"""Time to the first text of a second question about the same pictures, against the first question about them.

In this process, one chat at a time. For each of --chats: a question about new pictures with empty caches, then another
question about the same pictures with the cache of prefixes on, and the second question once more without any cache,
which its answer has to equal.

  shapes-vlm      the bundled model, with 1 and with --many pictures. Its own pass over a prompt takes a few
                  milliseconds, so what surrounds a model is most of what can be seen
  production's    a model with random weights and the proportions of SmolVLM-256M (12 layers of 768 that look at 1024
                  patches, 30 layers of 576 that write), with one picture of 512 pixels; what it says means nothing, how
                  long it takes does not depend on that

Bar: in production's proportions the first text of the second question comes in a fifth of the time or less, and all
answers are the same with the cache and without. Exit status 1 when one is missed.

    python -m load.prefix_cache
    python -m load.prefix_cache --chats 10 --large 0
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.progress import track
from transformers import SmolVLMConfig, SmolVLMForConditionalGeneration

from load import report
from load.service import machine
from vision_text.scenes import grids
from vision_text.small import small_model
from vision_text.vlm.request import Answered, ChatAsked, Picture, Turn
from vision_text.vlm.seer import Seer
from workers.device import Device

SMALL = "shapes-vlm"
BAR = 5.0
LONGEST = 24
HEAD = ("model", "pictures", "tokens", "chats", "first question", "second", "share", "same answers")


@dataclass(slots=True)
class Found:
    """Seconds to the first text, of each chat."""

    model: str
    pictures: int
    tokens: int = 0
    cold: list[float] = field(default_factory=list)
    warm: list[float] = field(default_factory=list)
    same: int = 0

    @property
    def times(self) -> float:
        """How many times sooner the second comes, by the medians."""
        return float(np.median(self.cold) / np.median(self.warm))

    def row(self) -> tuple[str, ...]:
        cold, warm = (f"{1000 * float(np.median(one)):.1f} ms" for one in (self.cold, self.warm))
        share, same = f"1/{self.times:.1f}", f"{self.same} of {len(self.cold)}"
        return self.model, str(self.pictures), str(self.tokens), str(len(self.cold)), cold, warm, share, same


async def chats(model: str, name: str, pictures: int, count: int, threads: int) -> Found:
    """`count` chats about `pictures` pictures each."""
    torch.set_num_threads(threads)
    device = Device("prefix", "cpu")
    seer = await Seer.start(model, [device])
    device.start()
    found, rng = Found(name, pictures), np.random.default_rng(0)
    try:
        for number in track(range(count + 1), f"{name}, {pictures} pictures", console=report.console()):
            drawn, first, second = _about(rng, pictures)
            seer.forget()
            cold = await _answer(seer, drawn, first, {"prefix_cache": True})
            warm = await _answer(seer, drawn, second, {"prefix_cache": True})
            plain = await _answer(seer, drawn, second, {})
            if number == 0:  # everything is slower once
                continue
            found.tokens = warm.visual_tokens
            found.cold.append(cold.seconds_to_first)
            found.warm.append(warm.seconds_to_first)
            found.same += warm.text == plain.text
    finally:
        await seer.close()
        device.close()
    return found


def _about(rng: np.random.Generator, pictures: int) -> tuple[tuple[Picture, ...], str, str]:
    """New pictures and two questions about the first of them."""
    while True:
        shown = [grids.random_grid(rng, held_out=True) for _ in range(pictures)]
        asked = [one.text for one in grids.ask(rng, grids.questions(shown[0]), 2)]
        if len(asked) == 2:
            return tuple(Picture(grids.draw(one)) for one in shown), asked[0], asked[1]


async def _answer(seer: Seer, pictures: Sequence[Picture], question: str, options: dict[str, object]) -> Answered:
    asked = ChatAsked((Turn("user", (*pictures, question)),), LONGEST, options=options)
    async for output in seer.answer(asked):
        if isinstance(output, Answered):
            return output
    raise RuntimeError("an answer without an end")


def production(home: Path) -> None:
    """A model with random weights and the proportions of SmolVLM-256M, in a folder like that of the small one."""
    small = small_model(SMALL)
    for file in small.iterdir():
        if file.suffix != ".safetensors":
            shutil.copy(file, home)
    processor = json.loads((home / "processor_config.json").read_text())
    processor["image_processor"] |= {"size": {"longest_edge": 512}, "max_image_size": {"longest_edge": 512}}
    processor["image_seq_len"] = 64
    (home / "processor_config.json").write_text(json.dumps(processor))
    settings: dict[str, Any] = json.loads((home / "config.json").read_text())
    settings["scale_factor"] = 4
    settings["vision_config"] |= {
        "hidden_size": 768, "intermediate_size": 3072, "num_hidden_layers": 12, "num_attention_heads": 12,
        "image_size": 512, "patch_size": 16,
    }  # fmt: skip
    settings["text_config"] |= {
        "hidden_size": 576, "intermediate_size": 1536, "num_hidden_layers": 30, "num_attention_heads": 9,
        "num_key_value_heads": 3, "head_dim": 64,
    }  # fmt: skip
    torch.manual_seed(0)
    model: Any = SmolVLMForConditionalGeneration(SmolVLMConfig(**settings))
    model.float().save_pretrained(home)


def missed(found: Sequence[Found], large: Found | None) -> list[str]:
    """Bars that do not hold."""
    bad = [f"{one.model}: {len(one.cold) - one.same} answers differ" for one in found if one.same < len(one.cold)]
    if large is not None and large.times < BAR:
        bad.append(f"{large.model}: the second question's first text comes in 1/{large.times:.1f}, not 1/{BAR:g}")
    return bad


async def measured(asked: argparse.Namespace) -> tuple[list[Found], Found | None]:
    found = [await chats(SMALL, SMALL, pictures, asked.chats, asked.threads) for pictures in (1, asked.many)]
    if not asked.large:
        return found, None
    with tempfile.TemporaryDirectory() as folder:
        production(Path(folder))
        large = await chats(folder, "production's proportions", 1, asked.large, asked.threads)
    return [*found, large], large


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--chats", type=int, default=60, help="with the small model (default %(default)s)")
    parser.add_argument("--many", type=int, default=8, help="pictures of the longer chats (default %(default)s)")
    parser.add_argument("--large", type=int, default=8, help="chats with production's proportions, 0: none (8)")
    parser.add_argument("--threads", type=int, default=1, help="of torch (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args()
    found, large = asyncio.run(measured(asked))
    out = report.console()
    out.print(report.table("Time to the first text, median", HEAD, [one.row() for one in found]))
    out.print(f"{machine()}; {asked.threads} threads")
    if asked.json is not None:
        told = [{"model": one.model, "pictures": one.pictures, "cold": one.cold, "warm": one.warm, "same": one.same}
                for one in found]  # fmt: skip
        asked.json.write_text(json.dumps({"machine": machine(), "found": told}, indent=1))
    return report.verdict(out, missed(found, large))


if __name__ == "__main__":
    raise SystemExit(main())
