"""From turns with pictures to tokens: the plan first, from sizes alone, then the prompt, and pixels where needed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from jinja2 import TemplateError
from numpy.typing import NDArray
from torch import Tensor

from vision_text.models import ModelUnusable
from vision_text.vlm.family import Laid
from vision_text.vlm.loading import Weights
from vision_text.vlm.options import Options
from vision_text.vlm.prefix import block_keys, digest_of
from vision_text.vlm.request import ChatAsked, Clip, Picture, Planned, Turn, Unopened, VisualBudget, VisualPlan
from workers.errors import InputInvalid, InputTooLarge

CLIP_FPS, CLIP_FRAMES, CLIP_SHARE = 2.0, 64, 0.5
"""Of a clip that is not decoded yet, when no budget says otherwise: frames a second, frames, and the share of all the
tokens that the model takes."""

Media = Picture | Clip


@dataclass(frozen=True, slots=True, eq=False)
class Shown:
    """One picture or clip in a prompt: `places` of its tokens, and `key`, the name of what the encoder makes of it."""

    media: Media
    laid: Laid
    places: NDArray[np.int64]
    key: bytes


@dataclass(frozen=True, slots=True, eq=False)
class Prompt:
    """`text` is as the template wrote it, with one sign for each picture. `positions` (axes, tokens); those that follow
    are their place plus `delta`. `keys`: of the whole blocks."""

    text: str
    ids: NDArray[np.int64]
    shown: tuple[Shown, ...]
    positions: Tensor
    delta: int
    root: bytes
    names: tuple[tuple[NDArray[np.int64], bytes], ...]
    keys: tuple[bytes, ...]

    def keys_with(self, answer: Sequence[int]) -> list[bytes]:
        """Of the blocks of prompt and answer together."""
        return block_keys(self.root, np.concatenate((self.ids, np.asarray(answer, np.int64))), self.names)

    @property
    def visual_tokens(self) -> int:
        return sum(one.laid.tokens for one in self.shown)

    @property
    def frames(self) -> int:
        return sum(one.laid.frames for one in self.shown)


class Prompter:
    """Of one model. Safe from several threads as far as its tokeniser is."""

    def __init__(self, weights: Weights) -> None:
        self._weights, self._family, self._processor = weights, weights.family, weights.processor
        self._tokenizer: Any = weights.processor.tokenizer
        added = self._tokenizer.added_tokens_decoder.values()
        special = {one.content for one in added if one.special or one.content.startswith("<")}
        special |= set(self._family.placeholders.values())
        longest_first = sorted((one for one in special if len(one) > 1), key=len, reverse=True)
        self._special = re.compile("|".join(map(re.escape, longest_first)))
        self._template: str = self._processor.chat_template or self._tokenizer.chat_template or ""
        if not self._template:
            raise ModelUnusable(f"{weights.found.name} has no chat template, so that it cannot be talked to")
        self._takes_parts = "type" in self._template
        self._tokenizer("")  # forgets how texts were cut and padded in training, once and for all threads

    def budget(self, asked: ChatAsked, options: Options) -> VisualBudget:
        """What holds for a request: what it asks for, within the cap."""
        return (asked.budget or VisualBudget()).within(options.visual_budget)

    def plan(self, asked: ChatAsked, options: Options) -> VisualPlan:
        """Before anything is decoded. Pictures that are decoded already count as they are. Raises InputTooLarge."""
        budget = self.budget(asked, options)
        planned = []
        for turn in asked.messages:
            for part in turn.parts:
                if isinstance(part, str):
                    continue
                if isinstance(part, Unopened) and part.seconds > 0:
                    times, fps = _moments(part, budget, self._frames_at_most(part, budget))
                    laid = self._lay_clip(part.width, part.height, times, fps, budget)
                elif isinstance(part, Clip):
                    times, fps = part.moments, part.fps
                    laid = self._lay_clip(*part.size, times, fps, budget)
                else:
                    size = part.size if isinstance(part, Picture) else (part.width, part.height)
                    planned.append(_planned("picture", [self._family.lay_picture(*size, budget)], (), 0.0))
                    continue
                planned.append(_planned("clip", laid, times, fps))
        tokens, context = sum(one.tokens for one in planned), self._weights.context
        if tokens >= context:
            raise InputTooLarge(
                f"the pictures and clips have {tokens} visual tokens, and {context} tokens are taken in all; send "
                "fewer, or ask for a smaller visual budget",
                param="messages",
            )
        return VisualPlan(tokens, tuple(planned), budget)

    def _frames_at_most(self, clip: Unopened, budget: VisualBudget) -> int:
        if budget.frames is not None:
            return budget.frames
        two = self._lay_clip(clip.width, clip.height, (0.0, 1.0), 1.0, budget)
        each = max(1, sum(one.tokens for one in two) // 2)
        return max(1, min(CLIP_FRAMES, int(CLIP_SHARE * self._weights.context / each)))

    def _lay_clip(
        self, width: int, height: int, times: Sequence[float], fps: float, budget: VisualBudget
    ) -> list[Laid]:
        if self._family.clips_as_pictures:
            return [self._family.lay_picture(width, height, budget)] * len(times)
        return [self._family.lay_clip(width, height, times, fps, budget)]

    def prompt(self, asked: ChatAsked, options: Options) -> Prompt:
        """Raises InputInvalid, InputTooLarge. Blocks for as long as it takes to hash the pixels."""
        budget = self.budget(asked, options)
        shown: list[tuple[Media, Laid]] = []
        turns = [self._turn(turn, n, budget, shown) for n, turn in enumerate(asked.messages)]
        try:
            text = self._tokenizer.apply_chat_template(
                turns, tokenize=False, add_generation_prompt=True, chat_template=self._template
            )
        except TemplateError as error:
            raise InputInvalid(
                f"the model's chat template does not take these turns: {error}", param="messages"
            ) from None
        whole = self._expanded(text, shown)
        ids = np.asarray(self._tokenizer(whole, add_special_tokens=_adds(text, self._tokenizer))["input_ids"], np.int64)
        context = self._weights.context
        if len(ids) >= context:
            raise InputTooLarge(
                f"the conversation has {len(ids)} tokens, {sum(laid.tokens for _, laid in shown)} of them visual, and "
                f"{context} are taken; shorten it, or ask for a smaller visual budget",
                param="messages",
            )
        return self._made(asked, options, text, ids, shown)

    def _turn(self, turn: Turn, n: int, budget: VisualBudget, shown: list[tuple[Media, Laid]]) -> dict[str, Any]:
        content: list[dict[str, str]] = []
        for m, part in enumerate(turn.parts):
            if isinstance(part, str):
                content.append({"type": "text", "text": self._plain(part)})
                continue
            if isinstance(part, Unopened):
                raise InputInvalid("this part has to be decoded first", param=f"messages[{n}].content[{m}]")
            if isinstance(part, Clip):
                frames = self._frames(part, budget)
                shown += frames
                kind = "image" if self._family.clips_as_pictures else "video"
                content += [{"type": kind}] * len(frames)
            else:
                shown.append((part, self._family.lay_picture(*part.size, budget)))
                content.append({"type": "image"})
        if not self._takes_parts and all(one["type"] == "text" for one in content):
            return {"role": turn.role, "content": "".join(one["text"] for one in content)}
        return {"role": turn.role, "content": content or [{"type": "text", "text": ""}]}

    def _frames(self, clip: Clip, budget: VisualBudget) -> list[tuple[Media, Laid]]:
        if budget.frames is not None and len(clip.frames) > budget.frames:
            raise InputInvalid(
                f"the clip has {len(clip.frames)} frames and the budget takes {budget.frames}; sample it before it is "
                "decoded, at the times of the plan",
                param="messages",
            )
        if self._family.clips_as_pictures:
            laid = self._family.lay_picture(*clip.size, budget)
            return [(Picture(frame), laid) for frame in clip.frames]
        return [(clip, self._family.lay_clip(*clip.size, clip.moments, clip.fps, budget))]

    def _plain(self, text: str) -> str:
        """What somebody writes never becomes a token that means something else than text."""
        return self._special.sub(lambda found: found[0][0] + " " + found[0][1:], text)

    def _expanded(self, text: str, shown: Sequence[tuple[Media, Laid]]) -> str:
        marks = self._family.placeholders
        pattern = re.compile("|".join(re.escape(mark) for mark in dict.fromkeys(marks.values()) if mark))
        kinds = {marks["picture"]: "picture", marks["clip"]: "clip"}
        waiting = list(shown)

        def stand_in(found: re.Match[str]) -> str:
            if not waiting or kinds[found[0]] != waiting[0][1].kind:
                raise InputInvalid("the model's chat template loses a picture or a clip", param="messages")
            return waiting.pop(0)[1].text

        text = pattern.sub(stand_in, text)
        if waiting:
            raise InputInvalid("the model's chat template leaves out a picture or a clip", param="messages")
        return text

    def _made(
        self, asked: ChatAsked, options: Options, text: str, ids: NDArray[np.int64], shown: list[tuple[Media, Laid]]
    ) -> Prompt:
        found = self._weights.found
        places = np.flatnonzero(np.isin(ids, list(self._family.media_tokens)))
        wanted = sum(laid.tokens for _, laid in shown)
        if len(places) != wanted:
            raise InputInvalid(f"the prompt has {len(places)} visual tokens, not {wanted} as planned", param="messages")
        salt = digest_of(asked.tenant, found.revision, found.name)
        given, start = [], 0
        for media, laid in shown:
            key = digest_of(salt, _pixels(media), *_times(media), laid.how, laid.grid)
            given.append(Shown(media, laid, places[start : start + laid.tokens], key))
            start += laid.tokens
        root = digest_of(salt, options.kv, options.careless)
        names = tuple((one.places, root if options.careless else one.key) for one in given)
        keys = block_keys(root, ids, names) if options.prefix_cache else []
        positions, delta = self._family.positions(ids, [one.laid for one in given])
        return Prompt(text, ids, tuple(given), positions, delta, root, names, tuple(keys))


def _adds(text: str, tokenizer: Any) -> bool:
    """A template mostly writes the first token itself; if so it is not put there twice."""
    first = tokenizer.bos_token
    return not (first and text.startswith(first))


def _pixels(media: Media) -> NDArray[np.uint8]:
    return media.pixels if isinstance(media, Picture) else media.frames


def _times(media: Media) -> tuple[Any, ...]:
    return () if isinstance(media, Picture) else (media.fps, media.times)


def _moments(clip: Unopened, budget: VisualBudget, most: int) -> tuple[tuple[float, ...], float]:
    """Evenly spread from the first frame to the last. A clip that is short has no more than it has."""
    rate = min(x for x in (budget.fps, clip.fps or None, CLIP_FPS if budget.fps is None else None) if x is not None)
    count = max(1, round(clip.seconds * rate))
    count = min(count, most)
    last = max(0.0, clip.seconds - (1 / clip.fps if clip.fps > 0 else 0.0))
    if count == 1:
        return (last / 2,), 1 / clip.seconds
    return tuple(last * n / (count - 1) for n in range(count)), count / clip.seconds


def _planned(kind: str, laid: Sequence[Laid], times: Sequence[float], fps: float) -> Planned:
    tokens, first = sum(one.tokens for one in laid), laid[0]
    return Planned(kind, first.width, first.height, tokens, max(1, len(times)), fps, tuple(times))
