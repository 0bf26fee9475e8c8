"""Commands that other packages bring: their entry points in the group `speechlane.commands`, each a Typer application.

They are looked for when help is shown and when a command is not one of our own, and loaded then alone: what is wrong
with one of them is no matter of the others.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import EntryPoint, entry_points
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_command

from gateway.cli.console import fail

GROUP = "speechlane.commands"


class Commands(TyperGroup):
    """Our own commands, which nobody else's takes the place of, then those that were brought."""

    def list_commands(self, ctx: Any) -> list[str]:
        own = list(super().list_commands(ctx))
        return own + [name for name in _brought() if name not in own]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        own = super().get_command(ctx, cmd_name)
        if own is not None or cmd_name not in (brought := _brought()):
            return own
        return _loaded(brought[cmd_name])


@cache
def _brought() -> dict[str, EntryPoint]:
    return {point.name: point for point in sorted(entry_points(group=GROUP), key=lambda point: point.name)}


def _loaded(point: EntryPoint) -> Any:
    """The command; for one that cannot be loaded, one that says so."""
    try:
        return get_command(point.load())
    except Exception as error:
        reason = f"the command {point.name} ({point.value}) cannot be loaded: {type(error).__name__}: {error}"

    broken = typer.Typer(add_completion=False)

    @broken.command(point.name, short_help="(cannot be loaded)", context_settings={"ignore_unknown_options": True})
    def command(arguments: Annotated[list[str] | None, typer.Argument(hidden=True)] = None) -> None:
        fail(reason)

    return get_command(broken)
