"""From the messages of a request to turns of texts, pictures and clips in their order, checked before anything of them
is fetched or unpacked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from gateway.chat.request import MOST_FRAMES, MOST_MESSAGES, Turn
from gateway.speak.fields import FieldInvalid, refusal
from workers.errors import InputTooLarge

MOST_PICTURES, MOST_CLIPS, MOST_PARTS = 64, 8, 512
MOST_TEXT = 400_000
"""Characters of all messages; a model takes what it has been trained for."""
LOW_PIXELS = 512 * 512
"""Of a picture with the detail "low"."""
DETAILS = ("auto", "low", "high", "original")
LEAST_RATE = 0.01


@dataclass(frozen=True, slots=True)
class PictureAt:
    """A picture that has yet to be opened."""

    url: str
    low: bool
    name: str


@dataclass(frozen=True, slots=True)
class ClipAt:
    """A clip that has yet to be opened: a file, or pictures that follow each other at `fps`."""

    urls: tuple[str, ...]
    fps: float | None
    name: str


Part = str | PictureAt | ClipAt


@dataclass(frozen=True, slots=True)
class AskedTurn:
    """A message, checked."""

    role: str
    parts: tuple[Part, ...]


def turns(messages: Sequence[Any]) -> tuple[AskedTurn, ...]:
    """The messages of a request. Raises `FieldInvalid`, `InputTooLarge`."""
    if not messages:
        raise _invalid("messages is an empty list; give at least one", "messages")
    if len(messages) > MOST_MESSAGES:
        raise InputTooLarge(f"messages has {len(messages)} and can have {MOST_MESSAGES}.", param="messages")
    found = tuple(_turn(message, f"messages[{n}]") for n, message in enumerate(messages))
    parts = [part for turn in found for part in turn.parts]
    if len(parts) > MOST_PARTS:
        raise InputTooLarge(f"messages have {len(parts)} parts and can have {MOST_PARTS}.", param="messages")
    text = sum(len(part) for part in parts if isinstance(part, str))
    if text > MOST_TEXT:
        raise InputTooLarge(f"messages have {text} characters and can have {MOST_TEXT}.", param="messages")
    for kind, most, name in ((PictureAt, MOST_PICTURES, "pictures"), (ClipAt, MOST_CLIPS, "clips")):
        count = sum(isinstance(part, kind) for part in parts)
        if count > most:
            raise InputTooLarge(f"messages have {count} {name} and can have {most}.", param="messages")
    if not any(turn.role == "user" for turn in found):
        raise _invalid("messages has no message of the user, so there is nothing to answer", "messages")
    if found[-1].role != "user":
        raise _invalid("messages ends with one that is not the user's, so there is nothing to answer", "messages")
    return found


def _turn(message: Any, name: str) -> AskedTurn:
    try:
        found = Turn.model_validate(message)
    except ValidationError as error:
        refused = refusal(error.errors(include_url=False, include_input=False)[0])
        inner = f"{name}.{refused.param}" if refused.param else name
        message = refused.message.replace(f"'{refused.param}'", f"'{inner}'")
        raise FieldInvalid(message, code=refused.code, param=inner) from None
    if found.content is None or isinstance(found.content, str):
        if found.role == "user" and not (found.content or "").strip():
            raise _invalid(f"{name}.content is empty; ask something", f"{name}.content")
        return AskedTurn(found.role, (found.content or "",))
    if not found.content:
        raise _invalid(f"{name}.content is an empty list; ask something", f"{name}.content")
    parts = tuple(_part(part, found.role, f"{name}.content[{n}]") for n, part in enumerate(found.content))
    return AskedTurn(found.role, parts)


def _part(part: Any, role: str, name: str) -> Part:
    if not isinstance(part, Mapping):
        raise _invalid(f'{name} should be an object such as {{"type": "text", "text": ...}}', name)
    kind = part.get("type")
    if kind in ("text", "refusal"):
        text = part.get(kind)
        if not isinstance(text, str):
            raise _invalid(f"{name}.{kind} should be a text", f"{name}.{kind}")
        return text
    if kind not in ("image_url", "video_url", "video"):
        raise _invalid(
            f"{name}.type is {str(kind)[:40]!r} and can be text, image_url, video_url or video", f"{name}.type"
        )
    if role != "user":
        raise _invalid(f"{name} is a picture or a clip, which only messages of the user can hold", name)
    inner = f"{name}.{kind}"
    given = part.get(kind)
    if kind == "image_url":
        url, detail = (
            (given.get("url"), given.get("detail") or "auto") if isinstance(given, Mapping) else (given, "auto")
        )
        if detail not in DETAILS:
            raise _invalid(f"{inner}.detail can be {', '.join(DETAILS)}", f"{inner}.detail")
        return PictureAt(_url(url, f"{inner}.url"), detail == "low", f"{inner}.url")
    fps = part.get("fps", given.get("fps") if isinstance(given, Mapping) else None)
    if fps is not None and (isinstance(fps, bool) or not isinstance(fps, int | float) or not LEAST_RATE <= fps <= 240):
        raise _invalid(f"{name}.fps should be a number of frames a second from {LEAST_RATE} to 240", f"{name}.fps")
    if isinstance(given, Mapping):
        given, inner = given.get("url", given.get("frames")), f"{inner}.{'url' if 'url' in given else 'frames'}"
    if isinstance(given, list):
        if not 1 <= len(given) <= MOST_FRAMES:
            raise _invalid(f"{inner} has {len(given)} frames; a clip has 1 to {MOST_FRAMES}", inner)
        urls = tuple(_url(url, f"{inner}[{n}]") for n, url in enumerate(given))
        return ClipAt(urls, float(fps) if fps is not None else 1.0, inner)
    if fps is not None:
        raise _invalid(
            f"{name}.fps goes with a list of frames; a file has its own, and budget.fps samples it", f"{name}.fps"
        )
    return ClipAt((_url(given, inner),), None, inner)


def _url(url: Any, name: str) -> str:
    if not isinstance(url, str) or not url:
        raise _invalid(f"{name} should be a URL, data:... or one of a host that this service may ask", name)
    return url


def _invalid(message: str, param: str) -> FieldInvalid:
    return FieldInvalid(f"{message}.", code="invalid_value", param=param)
