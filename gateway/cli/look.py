"""`speechlane look`: questions about pictures and clips, answered here or by a service."""

from __future__ import annotations

import asyncio
import base64
import json
import mimetypes
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli import drawing
from gateway.cli.console import err, fail, out

HELP = """Answer a question about pictures and clips, in the order they are given.

The model looks in this process, unless --url names a running service. A budget bounds how much of them it looks at:
--frames and --fps of a clip, which is sampled before it is decoded, and --image-tokens of a picture.

Examples:

  speechlane look shapes.png "how many circles are there"

  speechlane look before.png after.png "which shape is missing"

  speechlane look walk.mp4 "where does it go" --frames 8 --json
"""
DEFAULT = "shapes-vlm"
MOVING = (".mp4", ".m4v", ".mov", ".webm", ".mkv", ".avi", ".mpg", ".mpeg", ".ts", ".ogv", ".gif")


def command(
    given: Annotated[list[str], typer.Argument(metavar="FILE... QUESTION", help="Pictures, clips, and the question.")],
    frames: Annotated[int | None, typer.Option(help="Of a clip, at most.", min=1)] = None,
    fps: Annotated[float | None, typer.Option(help="Frames a second of a clip, at most.", min=0.01)] = None,
    image_tokens: Annotated[int | None, typer.Option(help="Of a picture or frame, at most.", min=1)] = None,
    most: Annotated[int, typer.Option("--max-tokens", help="Of the answer.", min=1)] = 256,
    exact: drawing.Exact = False,
    option: drawing.Option = None,
    model: Annotated[str | None, typer.Option(help="A bundled name, a directory or a hub name.")] = None,
    as_json: drawing.Json = False,
    download: drawing.Download = False,
    url: drawing.Url = None,
    key: drawing.Key = None,
) -> None:
    files, question = [Path(name) for name in given[:-1]], given[-1]
    if not files:
        fail("give at least one picture or clip, and then a question about it", 2)
    for path in files:
        if not path.is_file():
            fail(f"there is no file {path}", 2)
    parts = [_part(path) for path in files] + [{"type": "text", "text": question}]
    budget = {"frames": frames, "fps": fps, "tokens_per_image": image_tokens}
    body: dict[str, Any] = {
        "messages": [{"role": "user", "content": parts}],
        "max_tokens": most,
        "budget": {name: value for name, value in budget.items() if value is not None},
        "exact": exact,
        "options": drawing.given_options(option),
    }

    def known(message: str) -> str:
        for n, path in enumerate(files):  # as whoever gave it knows it
            for kind in ("image_url", "video_url"):
                message = message.replace(f"messages[0].content[{n}].{kind}.url", str(path))
        return message

    with drawing.told(known), err.status("looking") if err.is_terminal else nullcontext():
        if url is not None:
            answer = _at(url, key, body | ({"model": model} if model else {}))
        else:
            answer = asyncio.run(_here(body, model or DEFAULT, download))
    if as_json:
        out.print(json.dumps(answer, ensure_ascii=False), markup=False, highlight=False, soft_wrap=True)
    else:
        out.print(answer["choices"][0]["message"]["content"], markup=False, highlight=False, soft_wrap=True)


def _part(path: Path) -> dict[str, Any]:
    kind = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
    url = f"data:{kind};base64,{base64.b64encode(path.read_bytes()).decode()}"
    name = "video_url" if path.suffix.lower() in MOVING and not _still(path) else "image_url"
    return {"type": name, name: {"url": url}}


def _still(path: Path) -> bool:
    """A GIF with one picture."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(path, formats=("GIF",)) as found:
            return not getattr(found, "is_animated", False)
    except (UnidentifiedImageError, OSError):
        return False


def _at(url: str, key: str | None, body: dict[str, Any]) -> Any:
    from gateway.cli.service import posted

    data = json.dumps(body).encode()
    return posted(url, key, "/v1/chat/completions", data, "application/json", timeout=drawing.SERVICE_SECONDS)


def _facade() -> Any:
    from vision_text.vlm.seer import Seer

    return Seer


async def _here(body: dict[str, Any], model: str, download: bool) -> Any:
    from gateway.chat.asking import asked_of
    from gateway.chat.messages import turns
    from gateway.chat.request import ChatRequest
    from gateway.chat.seen import seen
    from gateway.chat.views import Completion
    from gateway.speak.request import checked
    from gateway.vision.in_hand import Claim, InHand
    from gateway.vision.media import AT_ONCE, Opener
    from gateway.vision.remote import PictureHosts
    from vision_text.media import MediaLimits
    from vision_text.vlm.request import Answered

    asked = checked(ChatRequest, body)
    said = turns(asked.messages)
    opener = Opener(MediaLimits(clip_seconds=7200.0), PictureHosts(()), asyncio.Semaphore(AT_ONCE))
    async with drawing.opened(_facade, model, download=download) as seer:
        wanted = await seen(asked_of(asked, ""), said, opener, seer, Claim(InHand(1 << 33)))
        async with aclosing(seer.answer(wanted)) as answer:
            found = [part async for part in answer if isinstance(part, Answered)]
    return Completion(model).whole(found[0])
