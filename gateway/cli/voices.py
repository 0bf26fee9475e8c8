"""`speechlane voices`: who can speak, here or at a service."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer
from rich.text import Text

from gateway.cli.console import fail, out

HELP = """List the voices: name, model, languages, sample rate, and the other names they answer to.

Examples:

  speechlane voices

  speechlane voices --url http://127.0.0.1:8700 --json

  speechlane say "Hello." --voice heart -o hello.wav
"""

INSTALLED = ("heart",)
"""Voices that come with the package; others are loaded by folder or hub name."""


def command(
    url: Annotated[
        str | None, typer.Option(help="Ask this service; unset: what is installed here.", envvar="SPEECHLANE_URL")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As a JSON list.")] = False,
) -> None:
    from gateway.cli.service import ask
    from speechlane.client.errors import ClientError

    try:
        voices: list[dict[str, Any]] = _installed() if url is None else ask(url, key, "/v1/voices")["data"]
    except ClientError as error:
        fail(str(error))
    if as_json:
        typer.echo(json.dumps(voices, ensure_ascii=False, indent=2))
        return
    for voice in voices:
        head = f"{voice['model']:<12}{' '.join(voice['languages']):<8}{voice['rate']:>6} Hz"
        out.print(Text.assemble((f"{voice['id']:<14}", "bold"), head))
        for name, value in (("about", voice["description"]), ("also", ", ".join(voice["aliases"]))):
            if value:
                out.print(Text(f"  {name:<6}{value}", style="dim"))


def _installed() -> list[dict[str, Any]]:
    from gateway.speak.voices import described
    from speech.voices.load import load_voices

    return [described(voice.info) for voice in load_voices(INSTALLED)]
