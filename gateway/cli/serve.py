"""`speechlane serve`: the service until a signal comes."""

from __future__ import annotations

import asyncio
import inspect
import logging
import os
import types
import typing
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo
from rich.text import Text

from gateway.cli.console import Voice, err, fail
from gateway.settings import ENV_PREFIX, Settings, SettingsInvalid, load_settings
from speech.places import placed

log = logging.getLogger("speechlane")

HELP = """Run the service: the page, the realtime endpoint, transcription of files.

Every flag is also an environment variable (--port is SPEECHLANE_PORT) and a key of the TOML file that --config
names. Flags win over variables, variables over the file.

Examples:

  speechlane serve

  speechlane serve --models base --max-audio-seconds 7200

  speechlane serve --host 0.0.0.0 --api-keys-file keys.txt

  SPEECHLANE_PORT=9000 speechlane serve --config speechlane.toml
"""


def command(**flags: Any) -> None:
    try:
        settings = load_settings(**flags)
    except SettingsInvalid as error:
        fail(str(error), 2)
    # Imported late so that --help and wrong settings answer at once.
    from gateway.server import CannotListen, CannotLoad, serve
    from gateway.telemetry.opening import CannotTrace

    voice = Voice(settings.log_level, settings.log_format)
    names, default = ", ".join(settings.models), placed(settings.models[0])[0]

    def listening(url: str) -> None:
        voice.say(f"Loading {names} on {settings.device}; {url}/readyz tells when it is done.")

    def ready(url: str) -> None:
        if not voice.plain:
            voice.say(f"Speechlane is ready: {url}")
            return
        err.print(Text.assemble(("Speechlane is ready: ", "bold green"), (url, "bold")))
        err.print(f"  Page       open {url} and speak, or drop a recording on it; {url}/voice speaks")
        err.print(f"  Realtime   {url.replace('http', 'ws', 1)}/v1/realtime?intent=transcription (OpenAI's protocol)")
        err.print(f"  Files      curl -F file=@talk.wav -F model={default} {url}/v1/audio/transcriptions")
        err.print(f"  Terminal   speechlane listen talk.wav --url {url.replace('http', 'ws', 1)}")
        err.print("  Stop       Ctrl-C; what is being said is finished first")

    async def run() -> None:
        if not await serve(settings, listening=listening, ready=ready):
            voice.say("Stopped before the models were loaded.")
            os._exit(0)  # the thread that loads cannot be interrupted, and nothing is lost with it

    try:
        asyncio.run(run())
    except (CannotListen, CannotTrace) as error:
        voice.fail(str(error))
    except CannotLoad:  # the log has told it
        voice.say("'speechlane doctor' checks what the models need.")
        raise typer.Exit(1) from None
    except Exception:
        log.critical("the service failed", exc_info=True)
        raise typer.Exit(1) from None
    voice.say("Stopped.")


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """A setting as a flag; a list is given with commas, as in the environment."""
    kind = field.annotation
    if typing.get_origin(kind) in (types.UnionType, typing.Union):
        kind = next(part for part in typing.get_args(kind) if part is not type(None))
    if kind not in (int, float, bool, Path):
        kind = str
    default = ",".join(field.default) if isinstance(field.default, tuple) else field.default
    if kind is bool:
        default = "on" if field.default else "off"
    notes = [f"default {default}"] if default not in (None, "") else []
    flag = f"--{name.replace('_', '-')}"
    option = typer.Option(
        f"{flag}/--no-{name.replace('_', '-')}" if kind is bool else flag,
        help=f"{field.description} [{'; '.join([*notes, ENV_PREFIX + name.upper()])}]",
        show_default=False,
        metavar=None if kind is bool else "TEXT" if kind is str else kind.__name__.upper(),
    )
    annotation: Any = Annotated[kind, option]
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)


# The flags are the settings, so that a setting is written down once.
command.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
    [_option(name, field) for name, field in Settings.model_fields.items()]
)
