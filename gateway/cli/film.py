"""`speechlane film`: a clip out of a text, made here or by a service."""

from __future__ import annotations

import asyncio
import json
from contextlib import aclosing
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from gateway.cli import drawing
from gateway.cli.console import err, fail, out

HELP = """Make a clip out of a text, as an MP4.

The model films in this process, unless --url names a running service. Interrupting ends it at the next step; one that
a service makes is deleted there.

Examples:

  speechlane film "a red ball moving left" -o ball.mp4

  speechlane film "a red ball moving left" --seed 7 --steps 20 --json

  speechlane film "a red ball moving left" --url http://127.0.0.1:8700
"""
DEFAULT = "shapes-video"
PREVIEWS = 8


def command(
    prompt: Annotated[str, typer.Argument(metavar="TEXT", help="What is to be seen.")],
    output: Annotated[Path | None, typer.Option("--out", "-o", help="MP4 file; unset: clip-SEED.mp4 here.")] = None,
    seconds: Annotated[float | None, typer.Option(help="How long; unset: the model's own.", min=0.01)] = None,
    frames: Annotated[int | None, typer.Option(help="How many, in place of --seconds.", min=1)] = None,
    fps: Annotated[float | None, typer.Option(help="Frames a second.", min=0.1, max=120.0)] = None,
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
    if output is not None and output.suffix.lower() != ".mp4":
        fail(f"-o is {output}; its ending is .mp4", 2)
    if seconds is not None and frames is not None:
        fail("--seconds and --frames say the same; give one of them", 2)
    fields = drawing.drawing_fields(prompt, negative, size, seed, steps, guidance, interval, exact, option)
    given = {"seconds": seconds, "frames": frames, "fps": fps, "model": model if url else None}
    fields |= {name: value for name, value in given.items() if value is not None}
    columns = TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn()
    with drawing.told(), Progress(*columns, console=err, transient=True, disable=not err.is_terminal) as bar:
        task = bar.add_task("filming", total=100)

        def progress(share: float) -> None:
            bar.update(task, completed=100 * share)

        if url is not None:
            file, notes = _at(url, key, fields, progress)
        else:
            file, notes = asyncio.run(_here(fields, model or DEFAULT, download, progress))
    path = output or drawing.free_name(f"clip-{notes['seed']}", ".mp4")
    path.write_bytes(file)
    if as_json:
        out.print(json.dumps({"file": str(path), **notes}), markup=False, highlight=False, soft_wrap=True)
    else:
        said = f"{path}  {notes['frames']} frames, seed {notes['seed']}, {notes['seconds']:.2f} s"
        out.print(said, markup=False)


def _at(url: str, key: str | None, fields: dict[str, Any], progress: Any) -> tuple[bytes, dict[str, Any]]:
    from gateway.cli.service import ask
    from speechlane.client.errors import ClientError

    video = ask(url, key, "/v1/videos", fields | {"previews": PREVIEWS, "lane": "interactive"})
    path, done = f"/v1/videos/{video['id']}", False
    try:
        for now in drawing.service_events(url, key, f"{path}/events"):
            video = now
            progress(now.get("progress", 0) / 100)
        if video.get("status") != "completed":
            error = video.get("error") or {"message": "it was deleted"}
            raise ClientError(f"the service could not make it: {error['message']}")
        file, done = drawing.service_file(url, key, f"{path}/content"), True
        return file, video["speechlane"]
    finally:
        if not done:
            ask(url, key, path, method="DELETE")


def _facade() -> Any:
    from vision_text.videos.filmer import Filmer

    return Filmer


async def _here(fields: dict[str, Any], model: str, download: bool, progress: Any) -> tuple[bytes, dict[str, Any]]:
    from gateway.speak.request import checked
    from gateway.videos.handler import length
    from gateway.videos.request import VideoRequest
    from gateway.vision.asked import asked_of, new_seed
    from vision_text.denoise.request import Made
    from vision_text.media.encode import clip_file

    asked = checked(VideoRequest, fields)
    seed = asked.seed if asked.seed is not None else new_seed()
    async with drawing.opened(_facade, model, download=download) as filmer:
        frames, fps = length(filmer.info, asked)
        wanted = asked_of(filmer.info, asked, asked.size, seed, frames=frames, fps=fps)
        made: Made | None = None
        async with aclosing(filmer.make(wanted)) as making:
            async for part in making:
                if isinstance(part, Made):
                    made = part
                else:
                    progress(part.step / part.steps)
    assert made is not None
    notes = {"seed": made.seed, "frames": len(made.frames), "fps": fps, "seconds": round(made.seconds, 4)}
    return await asyncio.to_thread(clip_file, made.frames, fps), notes | {"approximation": made.approximation.as_dict()}
