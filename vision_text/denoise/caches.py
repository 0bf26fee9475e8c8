"""Caches of steps and blocks, decided for each row of a batch and remembered for each branch of each request.

The library's own caches (`FirstBlockCacheConfig` and its like) decide for a batch by its mean, so a picture would
depend on who shares its steps, and reset with the pipeline. These are hooks of the library's kind on the same blocks,
with the same rules for one row: rows that are to be computed go on through the blocks together, the others wait and
are put back from what their last computed step has left.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from vision_text.denoise.adapters import some_rows
from vision_text.denoise.options import StepCache
from vision_text.numerics.linear import blocks_of
from workers.errors import InputInvalid

WARM_UP = 3
"""Steps that are computed before the first guess."""
MAG_RETENTION, MAG_SKIPS = 0.2, 3
"""Share of the first steps that MagCache computes, and how many it leaves out in a row: the library's defaults."""
Call = dict[str, Any]
_HOOK = "speechlane_step_cache"


@dataclass(frozen=True, slots=True)
class Kept:
    """What a row's last steps have left: tensors are (tokens, channels). `opening`: what the deciding block added;
    `added`: what the blocks after it added, of both streams."""

    step: int = 0
    opening: Tensor | None = None
    added: tuple[Tensor, ...] = ()
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


class Rule(ABC):
    """When a row is computed. When it is not, what its blocks added last stands for what they would. `first` blocks
    decide and are always computed, the `last` ones mend."""

    first = last = 0

    @abstractmethod
    def computes(self, kept: Sequence[Kept], opening: Tensor | None) -> tuple[list[bool], list[Kept]]:
        """For each row, with what is remembered of the decision itself."""


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


class Cache(Protocol):
    """Calls a model for rows whose states it keeps by name."""

    def evaluate(self, model: nn.Module, call: Call, names: Sequence[str]) -> tuple[Tensor, list[bool]]:
        """The prediction for each row, and whether something was left out for it. When the model raises, states are as
        they were."""

    def forget(self, names: Sequence[str]) -> None:
        """Drop these states."""

    def held(self) -> set[str]:
        """Names that there are states of."""


def cache_for(model: nn.Module, cache: StepCache, steps: int) -> Cache:
    """`steps`: of the requests, which MagCache has to know. Raises InputInvalid when it does not go with the model."""
    if cache[0] == "taylor":
        return GuessedCalls(*cache[1:])
    if cache[0] == "magcache":
        return SkippedBlocks(model, MagRule(cache[1], cache[2], steps))
    return SkippedBlocks(model, BlockRule(cache[1], *(cache[2:] or (1, 0))))


class GuessedCalls:
    """TaylorSeer over the model as a whole: called every `interval` steps, in between its prediction is guessed from
    the last and its differences up to `order`. (The library's own guesses modules inside, for which it is called.)"""

    def __init__(self, interval: int, order: int) -> None:
        self.interval, self.order = interval, order
        self._kept: dict[str, _Guess] = {}

    def evaluate(self, model: nn.Module, call: Call, names: Sequence[str]) -> tuple[Tensor, list[bool]]:
        kept = [self._kept.get(name, _Guess()) for name in names]
        due = [n for n, one in enumerate(kept) if self._is_due(one.step)]
        found: Tensor | None = None
        if due:
            found = model(**(call if len(due) == len(names) else some_rows(call, due)))[0]
        made, place = [], {row: n for n, row in enumerate(due)}
        for row, (name, one) in enumerate(zip(names, kept, strict=True)):
            if found is not None and row in place:
                made.append(found[place[row]])
                one = self._learned(one, made[-1].clone())
            else:
                made.append(one.at(one.step - one.computed_at))
            self._kept[name] = replace(one, step=one.step + 1)
        return torch.stack(made), [row not in place for row in range(len(names))]

    def _is_due(self, step: int) -> bool:
        return step < WARM_UP or (step - WARM_UP - 1) % self.interval == 0

    def _learned(self, one: _Guess, found: Tensor) -> _Guess:
        orders = [found]
        for before in one.orders[: self.order]:
            orders.append((orders[-1] - before) / (one.step - one.computed_at))
        return _Guess(one.step, one.step, tuple(orders))

    def forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._kept.pop(name, None)

    def held(self) -> set[str]:
        return set(self._kept)


@dataclass(frozen=True, slots=True)
class _Guess:
    step: int = 0
    computed_at: int = -1
    orders: tuple[Tensor, ...] = ()

    def at(self, since: int) -> Tensor:
        made = self.orders[0]
        for n, part in enumerate(self.orders[1:], 1):
            made = made + part * (since**n / math.factorial(n))
        return made


class SkippedBlocks:
    """A rule at work on `model`'s blocks. Raises InputInvalid when the library does not know the class of the blocks,
    or none are left to skip."""

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

    def evaluate(self, model: nn.Module, call: Call, names: Sequence[str]) -> tuple[Tensor, list[bool]]:
        under_way = self._call = _Call(names)
        try:
            made: Tensor = model(**call)[0]
        finally:
            self._call = None
        self._kept.update(under_way.news)
        return made, [row not in under_way.computed for row in range(len(names))]

    def forget(self, names: Sequence[str]) -> None:
        for name in names:
            self._kept.pop(name, None)

    def held(self) -> set[str]:
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
                added = tuple(after - before for before, after in zip(entry, end, strict=True))
                kept = replace(kept, opening=opening, added=added)
            else:
                end = [before + added for before, added in zip(entry, kept.added, strict=True)]
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


def _hook(block: nn.Module, cache: SkippedBlocks, *, opens: bool, closes: bool) -> None:
    from diffusers.hooks._helpers import TransformerBlockRegistry
    from diffusers.hooks.hooks import HookRegistry, ModelHook

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

    class Hook(ModelHook):
        """Runs the block for the rows that are computed."""

        @property
        def original(self) -> Callable[..., Any]:
            found: Any = self.fn_ref
            return found.original_forward  # type: ignore[no-any-return]

        def new_forward(self, module: nn.Module, *args: Any, **kwargs: Any) -> Any:
            if not cache.at_work:
                return self.original(*args, **kwargs)
            given = kwargs | dict(zip(("hidden_states", "encoder_hidden_states", "temb"), args, strict=False))
            hidden, text = given["hidden_states"], given["encoder_hidden_states"]
            rows = len(given["temb"])
            computed = cache.enter(hidden, text) if opens else cache.computed
            if opens and len(computed) < rows:
                hidden, text = hidden[computed], text[computed]
            if computed:
                temb = given["temb"] if len(computed) == rows else given["temb"][computed]
                given |= {"hidden_states": hidden, "encoder_hidden_states": text, "temb": temb}
                made = self.original(**given)
                hidden, text = made[at], made[text_at]
            if closes:
                hidden, text = cache.leave(hidden, text)
            return (hidden, text) if at == 0 else (text, hidden)

    HookRegistry.check_if_exists_or_initialize(block).register_hook(Hook(), _HOOK)  # type: ignore[no-untyped-call]
