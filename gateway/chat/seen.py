"""The turns of a chat with pixels in them: first every header is looked at, then the model says how much of each it
will look at and refuses what is too much, and only then is anything unpacked, and of a clip only those frames."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gateway.chat.messages import LOW_PIXELS, AskedTurn, ClipAt, PictureAt
from gateway.speak.fields import FieldInvalid
from gateway.vision.in_hand import Claim
from gateway.vision.media import Opener
from vision_text.media import ClipSource

if TYPE_CHECKING:
    from vision_text.vlm.request import ChatAsked, Clip, Picture, Planned, Turn
    from vision_text.vlm.seer import Seer

KEPT_PIXELS = 1_000_000
"""Of a picture or frame, at least, where it has them."""
_BYTES = 3
ROLES = {"developer": "system"}
"""Roles that models know under another name."""


@dataclass(frozen=True, slots=True)
class _Still:
    """A picture that has been looked at."""

    data: bytes
    name: str
    most: int | None
    width: int
    height: int


@dataclass(frozen=True, slots=True)
class _Moving:
    """A clip whose packets have been looked at."""

    source: ClipSource


@dataclass(frozen=True, slots=True)
class _Slides:
    """Pictures that follow each other at `fps`."""

    stills: tuple[_Still, ...]
    fps: float
    name: str


_Measured = str | _Still | _Moving | _Slides


async def seen(asked: ChatAsked, turns: Sequence[AskedTurn], opener: Opener, seer: Seer, claim: Claim) -> ChatAsked:
    """`asked` with the turns of the request; `claim` holds their pixels. Raises InputInvalid and InputTooLarge, which
    name the part, and Overloaded."""
    from vision_text.vlm.request import Turn, Unopened

    measured = [[await _measured(part, opener) for part in turn.parts] for turn in turns]
    roles = [ROLES.get(turn.role, turn.role) for turn in turns]

    def size(part: _Measured) -> Any:
        if isinstance(part, _Still):
            return Unopened(part.width, part.height)
        if isinstance(part, _Moving):
            info = part.source.info
            return Unopened(info.width, info.height, info.seconds or 1 / (info.fps or 1.0), info.fps or 1.0)
        if isinstance(part, _Slides):
            first = part.stills[0]
            return Unopened(first.width, first.height, len(part.stills) / part.fps, part.fps)
        return part

    sized = [Turn(role, tuple(map(size, parts))) for role, parts in zip(roles, measured, strict=True)]
    if all(isinstance(part, str) for parts in measured for part in parts):
        return replace(asked, messages=tuple(sized))
    plan = await asyncio.to_thread(seer.plan, replace(asked, messages=tuple(sized)))
    planned = iter(plan.media)
    made: list[Turn] = []
    for role, parts in zip(roles, measured, strict=True):
        opened = [
            part if isinstance(part, str) else await _opened(part, next(planned), opener, claim) for part in parts
        ]
        made.append(Turn(role, tuple(opened)))
    return replace(asked, messages=tuple(made))


async def _measured(part: str | PictureAt | ClipAt, opener: Opener) -> _Measured:
    if isinstance(part, str):
        return part
    if isinstance(part, PictureAt):
        return await _still(part.url, part.name, LOW_PIXELS if part.low else None, opener)
    if part.fps is None:
        return _Moving(await opener.clip(await opener.data(part.urls[0], part.name), part.name))
    stills = [await _still(url, f"{part.name}[{n}]", None, opener) for n, url in enumerate(part.urls)]
    for still in stills:
        if (still.width, still.height) != (stills[0].width, stills[0].height):
            raise FieldInvalid(
                f"{still.name} has {still.width} x {still.height} pixels and the first frame "
                f"{stills[0].width} x {stills[0].height}; frames of a clip are of one size.",
                code="invalid_value",
                param=still.name,
            )
    return _Slides(tuple(stills), part.fps, part.name)


async def _still(url: str, name: str, most: int | None, opener: Opener) -> _Still:
    data = await opener.data(url, name)
    info = await opener.look(data, name)
    width, height = info.width, info.height
    if most is not None and width * height > most:
        share = (most / (width * height)) ** 0.5
        width, height = max(1, int(width * share)), max(1, int(height * share))
    return _Still(data, name, most, width, height)


async def _opened(part: _Still | _Moving | _Slides, planned: Planned, opener: Opener, claim: Claim) -> Picture | Clip:
    from vision_text.vlm.request import Clip, Picture

    # More than the model makes of it itself, but not all that a camera has: what is kept is held until it is answered.
    most = max(KEPT_PIXELS, 4 * max(planned.width, planned.height) ** 2)
    if isinstance(part, _Still):
        claim.add(_BYTES * min(part.width * part.height, part.most or most, most))
        return Picture(await opener.picture(part.data, part.name, min(part.most or most, most)))
    if isinstance(part, _Moving):
        info = part.source.info
        claim.add(_BYTES * len(planned.times) * min(info.width * info.height, most))
        plan, frames = await opener.frames(part.source, planned.times, most)
        return Clip(frames, plan.fps, plan.times)
    last = len(part.stills) - 1
    chosen = sorted({min(last, max(0, round(time * part.fps))) for time in planned.times}) or [0]
    claim.add(_BYTES * len(chosen) * part.stills[0].width * part.stills[0].height)
    pictures = [await opener.picture(part.stills[n].data, part.stills[n].name) for n in chosen]
    frames = await asyncio.to_thread(np.stack, pictures)
    return Clip(frames, part.fps * len(chosen) / len(part.stills), tuple(n / part.fps for n in chosen))
