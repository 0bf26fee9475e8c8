"""Caches of steps and blocks, decided for each row of a batch and remembered for each branch of each request.

The library's own caches (`FirstBlockCacheConfig` and its like) decide for a batch by its mean, so a picture would depend
on who shares its steps, and reset with the pipeline. These are hooks of the library's kind on the same blocks, with the
same rules for one row: rows that are to be computed go on through the blocks together, the others wait and are put
back from what their last computed step has left.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from vision_text.denoise.options import StepCache
from vision_text.numerics.linear import blocks_of
from workers.errors import InputInvalid

WARM_UP = 3
"""Steps that are computed before the first guess."""
MAG_RETENTION, MAG_SKIPS = 0.2, 3
"""Share of the first steps that MagCache computes, and how many it leaves out in a row: the library's defaults."""
_HOOK = "speechlane_step_cache"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a row's last steps have left: tensors are (tokens, channels). `opening`: what the deciding block added;
    `added`: what the blocks after it added, of both streams; `orders`: the end of the blocks and its differences."""

    step: int = 0
    computed_at: int = -1
    opening: Tensor | None = None
    added: tuple[Tensor, ...] = ()
    orders: tuple[Tensor, ...] = ()
    ratio: float = 1.0
    error: float = 0.0
    skips: int = 0


@dataclass(slots=True)
class _Call:
    """One call of the model: `rows` names the state of each, `computed` the places of those that go on."""

    rows: Sequence[str]
    before: Tensor | None = None
    entry: tuple[Tensor, Tensor] | None = None
    computed: list[int] = field(default_factory=list)
    news: dict[str, Kept] = field(default_factory=dict)


class Rule:
    """When a row is computed, and what stands for it when it is not. `first` blocks decide and are always computed, the
    `last` ones mend."""

    first = last = 0

    def computes(self, kept: Sequence[Kept], opening: Tensor | None) -> tuple[list[bool], list[Kept]]:
        """For each row, with what is remembered of the decision itself."""
        raise NotImplementedError

    def learn(self, kept: Kept, entry: Sequence[Tensor], end: Sequence[Tensor], opening: Tensor | None) -> Kept:
        """After a computed step; streams are hidden states, and those of the text when blocks follow."""
        return replace(kept, opening=opening, added=tuple(b - a for a, b in zip(entry, end, strict=True)))

    def guess(self, kept: Kept, entry: Sequence[Tensor]) -> list[Tensor]:
        """The streams' end in a step that is not computed."""
        return [a + added for a, added in zip(entry, kept.added, strict=True)]


class BlockRule(Rule):
    """First-block caching, of which "dbcache" has more blocks that decide and mend: computed while what the deciding
    block adds has changed by more than `threshold` of itself since the last computed step."""

    def __init__(self, threshold: float, first: int, last: int) -> None:
        self.threshold, self.first, self.last = threshold, first, last

    def computes(self, kept: Sequence[Kept], opening: Tensor | None) -> tuple[list[bool], list[Kept]]:
        assert opening is not None
        decided = []
        for one, now in zip(kept, opening, strict=True):
            if one.opening is None:
                decided.append(True)
                continue
            change = (now - one.opening).abs().mean() / one.opening.abs().mean()
            decided.append(not change.item() <= self.threshold)  # what is no number is computed
        return decided, list(kept)


class TaylorRule(Rule):
    """TaylorSeer: computed every `interval` steps, in between the blocks' end is guessed from it and its differences up
    to `order`."""

    def __init__(self, interval: int, order: int) -> None:
        self.interval, self.order = interval, order

    def computes(self, kept: Sequence[Kept], opening: Tensor | None) -> tuple[list[bool], list[Kept]]:
        since = WARM_UP - 1
        return [one.step < WARM_UP or (one.step - since) % self.interval == 0 for one in kept], list(kept)

    def learn(self, kept: Kept, entry: Sequence[Tensor], end: Sequence[Tensor], opening: Tensor | None) -> Kept:
        orders = [end[0].float()]
        for before in kept.orders[: self.order]:
            orders.append((orders[-1] - before) / (kept.step - kept.computed_at))
        return replace(kept, orders=tuple(orders))

    def guess(self, kept: Kept, entry: Sequence[Tensor]) -> list[Tensor]:
        since = kept.step - kept.computed_at
        made = sum(part * (since**n / math.factorial(n)) for n, part in enumerate(kept.orders))
        assert isinstance(made, Tensor)
        return [made.to(entry[0].dtype)]


class MagRule(Rule):
    """MagCache: left out while the error that the calibrated `ratios` of what the blocks add foretell stays below
    `threshold`."""

    def __init__(self, threshold: float, ratios: Sequence[float], steps: int) -> None:
        self.threshold, self.steps = threshold, steps
        last = len(ratios) - 1
        self.ratios = [ratios[round(n * last / max(1, steps - 1))] for n in range(steps)]

    def computes(self, kept: Sequence[Kept], opening: Tensor | None) -> tuple[list[bool], list[Kept]]:
        decided, news = [], []
        for one in kept:
            if one.step < int(MAG_RETENTION * self.steps + 0.5) or one.step >= self.steps:
                decided.append(True)
                news.append(one)
                continue
            ratio = one.ratio * self.ratios[one.step]
            error, skips = one.error + abs(1 - ratio), one.skips + 1
            skip = bool(one.added) and error <= self.threshold and skips <= MAG_SKIPS
            decided.append(not skip)
            news.append(replace(one, ratio=ratio, error=error, skips=skips) if skip else
                        replace(one, ratio=1.0, error=0.0, skips=0))  # fmt: skip
        return decided, news


def rule_for(cache: StepCache, steps: int) -> Rule:
    """`steps`: of the requests, which MagCache has to know."""
    kind = cache[0]
    if kind == "taylor":
        return TaylorRule(*cache[1:])
    if kind == "magcache":
        return MagRule(cache[1], cache[2], steps)
    return BlockRule(cache[1], *(cache[2:] or (1, 0)))


class StepCacheOn:
    """A rule at work on `model`'s blocks. Raises InputInvalid when the library does not know the class of the blocks, or
    none are left to skip."""

    def __init__(self, model: nn.Module, rule: Rule) -> None:
        self.rule = rule
        self._kept: dict[str, Kept] = {}
        self._call: _Call | None = None
        blocks = list(blocks_of(model).values())
        end = len(blocks) - rule.last
        if end - rule.first < 1:
            raise InputInvalid(
                f"step_cache computes {rule.first} and {rule.last} of {len(blocks)} blocks always; fewer, so that some "
                "are left to skip",
                param="options.step_cache",
            )
        if rule.first:
            blocks[rule.first - 1].register_forward_pre_hook(self._before, with_kwargs=True)
        for n in range(rule.first, end):
            _hook(blocks[n], self, opens=n == rule.first, closes=n == end - 1)

    @contextmanager
    def rows(self, names: Sequence[str]) -> Iterator[_Call]:
        """The model is called inside, with a row for each name. What it leaves is kept when that has gone well."""
        self._call = _Call(names)
        try:
            yield self._call
            self._kept.update(self._call.news)
        finally:
            self._call = None

    def forget(self, names: Sequence[str]) -> None:
        """Drop these states."""
        for name in names:
            self._kept.pop(name, None)

    def held(self) -> set[str]:
        """Names that there are states of."""
        return set(self._kept)

    def _before(self, _block: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._call is not None:
            self._call.before = kwargs["hidden_states"] if "hidden_states" in kwargs else args[0]

    def enter(self, hidden: Tensor, text: Tensor) -> list[int]:
        """At the first block that may be skipped: the places of the rows that go on."""
        call = self._call
        assert call is not None
        call.entry = hidden, text
        opening = hidden - call.before if call.before is not None else None
        kept = [self._kept.get(name, Kept()) for name in call.rows]
        decided, news = self.rule.computes(kept, opening)
        call.before = opening
        call.news = dict(zip(call.rows, news, strict=True))
        call.computed = [n for n, one in enumerate(decided) if one]
        return call.computed

    def leave(self, hidden: Tensor, text: Tensor) -> tuple[Tensor, Tensor]:
        """At the last: the rows that were computed come, all go out."""
        call = self._call
        assert call is not None and call.entry is not None
        streams = 2 if self.rule.last else 1
        ends: list[list[Tensor]] = []
        place = {row: n for n, row in enumerate(call.computed)}
        for row, name in enumerate(call.rows):
            kept = call.news[name]
            entry = [stream[row] for stream in call.entry[:streams]]
            if row in place:
                end = [stream[place[row]] for stream in (hidden, text)[:streams]]
                opening = call.before[row].clone() if call.before is not None else None
                kept = self.rule.learn(kept, entry, end, opening)
                kept = replace(kept, computed_at=kept.step)
            else:
                end = self.rule.guess(kept, entry)
            call.news[name] = replace(kept, step=kept.step + 1)
            ends.append(end)
        whole = torch.stack([end[0] for end in ends])
        # Without blocks that follow, nobody reads the text's stream any more.
        return whole, torch.stack([end[1] for end in ends]) if streams == 2 else call.entry[1]

    @property
    def computed(self) -> list[int]:
        assert self._call is not None
        return self._call.computed

    @property
    def at_work(self) -> bool:
        """Whether the model is being called for rows with names; else blocks do as they always do."""
        return self._call is not None


def _hook(block: nn.Module, cache: StepCacheOn, *, opens: bool, closes: bool) -> None:
    from diffusers.hooks import HookRegistry, ModelHook
    from diffusers.hooks._helpers import TransformerBlockRegistry

    try:
        known = TransformerBlockRegistry.get(type(block))
    except ValueError:
        raise InputInvalid(
            f"step_cache does not know blocks of {type(block).__name__}", param="options.step_cache"
        ) from None
    at, text_at = known.return_hidden_states_index, known.return_encoder_hidden_states_index
    if text_at is None:
        raise InputInvalid(
            f"step_cache is for blocks with a stream of text; {type(block).__name__} has none",
            param="options.step_cache",
        )

    class Hook(ModelHook):  # type: ignore[misc, unused-ignore]
        """Runs the block for the rows that are computed."""

        @torch.compiler.disable
        def new_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not cache.at_work:
                return self.fn_ref.original_forward(*args, **kwargs)
            given = kwargs | dict(zip(("hidden_states", "encoder_hidden_states", "temb"), args, strict=False))
            hidden, text = given["hidden_states"], given["encoder_hidden_states"]
            rows = len(given["temb"])
            computed = cache.enter(hidden, text) if opens else cache.computed
            if opens and len(computed) < rows:
                hidden, text = hidden[computed], text[computed]
            if computed:
                temb = given["temb"] if len(computed) == rows else given["temb"][computed]
                given |= {"hidden_states": hidden, "encoder_hidden_states": text, "temb": temb}
                made = self.fn_ref.original_forward(**given)
                hidden, text = made[at], made[text_at]
            if closes:
                hidden, text = cache.leave(hidden, text)
            return (hidden, text) if at == 0 else (text, hidden)

    HookRegistry.check_if_exists_or_initialize(block).register_hook(Hook(), _HOOK)
