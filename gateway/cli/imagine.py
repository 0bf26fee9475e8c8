"""`speechlane imagine`: pictures out of a text, made here or by a service."""

from __future__ import annotations

import asyncio
import base64
import json
from contextlib import aclosing, nullcontext
from pathlib import Path
from typing import Annotated, Any

import typer

from gateway.cli import drawing
from gateway.cli.console import err, fail, out

HELP = """Make pictures out of a text, in files whose ending chooses the format (png, jpg, webp).

The model draws in this process, unless --url names a running service. What was left out or approximated is told with
--json: evaluations run and skipped, cached steps, precision, and whether a picture had to be made again exactly.

Examples:

  speechlane imagine "a red circle top left, a blue square bottom right" -o shapes.png

  speechlane imagine "a green triangle top right" -n 4 --seed 7 --steps 20

  speechlane imagine "a red circle top left" --interval 0,0.6 --json

  speechlane imagine "a red circle top left" --url http://127.0.0.1:8700
"""
DEFAULT = "shapes-image"
FORMATS = {".png": "png", ".jpg": "jpeg", ".jpeg": "jpeg", ".webp": "webp"}


def command(
    prompt: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be seen.")],
    output: Annotated[Path | None, typer.Option("--out", "-o", help="File; unset: picture-SEED.png here.")] = None,
    count: Annotated[int, typer.Option("--number", "-n", help="So many pictures.", min=1, max=10)] = 1,
    negative: drawing.Negative = "",
    size: drawing.Size = None,
    seed: drawing.Seed = None,
    steps: drawing.Steps = None,
    guidance: drawing.Guidance = None,
    interval: drawing.Interval = None,
    exact: drawing.Exact = False,
    option: drawing.Option = None,
    model: Annotated[str | None, typer.Option(help="A bundled name, a directory or a hub name.")] = None,
    as_json: drawing.Json = False,
    download: drawing.Download = False,
    url: drawing.Url = None,
    key: drawing.Key = None,
) -> None:
    if output is not None and output.suffix.lower() not in FORMATS:
        fail(f"-o is {output}; its ending can be {', '.join(FORMATS)}", 2)
    fields = drawing.drawing_fields(prompt, negative, size, seed, steps, guidance, interval, exact, option)
    kind = FORMATS[output.suffix.lower()] if output is not None else "png"
    with drawing.told(), err.status("drawing") if err.is_terminal else nullcontext():
        if url is not None:
            made = _at(url, key, fields | {"n": count, "output_format": kind} | ({"model": model} if model else {}))
        else:
            made = asyncio.run(_here(fields, count, kind, model or DEFAULT, download))
    for n, (file, notes) in enumerate(made):
        path = drawing.numbered(output, n, count) if output else drawing.free_name(f"picture-{notes['seed']}", ".png")
        path.write_bytes(file)
        if as_json:
            out.print(json.dumps({"file": str(path), **notes}), markup=False, highlight=False, soft_wrap=True)
        else:
            out.print(f"{path}  seed {notes['seed']}, {notes['seconds']:.2f} s", markup=False)


Made = list[tuple[bytes, dict[str, Any]]]


def _at(url: str, key: str | None, fields: dict[str, Any]) -> Made:
    from gateway.cli.service import posted

    body = json.dumps(fields).encode()
    path, seconds = "/v1/images/generations", drawing.SERVICE_SECONDS
    answer = posted(url, key, path, body, "application/json", timeout=seconds)
    files = [base64.b64decode(item["b64_json"]) for item in answer["data"]]
    return list(zip(files, answer["speechlane"]["images"], strict=True))


def _facade() -> Any:
    from vision_text.images.painter import Painter

    return Painter


async def _here(fields: dict[str, Any], count: int, kind: str, model: str, download: bool) -> Made:
    from gateway.images.request import ImageRequest
    from gateway.images.views import notes
    from gateway.speak.request import checked
    from gateway.vision.asked import asked_of, new_seed
    from vision_text.denoise.request import Made as Drawn
    from vision_text.media.encode import picture_file

    asked = checked(ImageRequest, fields | {"n": count})
    seed = asked.seed if asked.seed is not None else new_seed()
    async with drawing.opened(_facade, model, download=download) as painter:
        wanted = [asked_of(painter.info, asked, asked.size, seed + n) for n in range(count)]

        async def one(what: Any) -> tuple[bytes, dict[str, Any]]:
            async with aclosing(painter.make(what)) as making:
                found = [part async for part in making if isinstance(part, Drawn)]
            return picture_file(found[0].frames[0], kind), notes(found[0])  # type: ignore[arg-type]

        return list(await asyncio.gather(*map(one, wanted)))
