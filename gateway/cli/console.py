"""Where the commands write: results to stdout, everything about them to stderr."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import Literal, NoReturn

import typer
from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from rich.text import Text

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
"""What changes the terminal or the order of what is read; a line's end and a tab do not."""


class Plain(Console):
    """Shows what others have named (files, jobs, reasons) as text, whatever the terminal would take it for."""

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterable[Segment]:
        for part in super().render(renderable, options):
            yield part if part.control else Segment(_CONTROL.sub("\N{REPLACEMENT CHARACTER}", part.text), part.style)


out = Plain(highlight=False, soft_wrap=True)
err = Plain(stderr=True, highlight=False, soft_wrap=True)


def one_line(name: str) -> str:
    """A name in a line of plain text that is read by its lines."""
    return _CONTROL.sub("\N{REPLACEMENT CHARACTER}", re.sub(r"\s", " ", name))


def fail(message: str, code: int = 1) -> NoReturn:
    """Say what is wrong and how to mend it, and end the command."""
    err.print(Text.assemble(("error: ", "bold red"), message))
    raise typer.Exit(code)


class Voice:
    """How a command that runs for long says what it does: among the lines of its log when those are JSON."""

    def __init__(self, level: str, form: Literal["auto", "json", "text"]) -> None:
        """Configures the log."""
        from gateway.telemetry.logs import configure

        self.plain = configure(level, form) == "text"

    def say(self, what: str) -> None:
        if self.plain:
            err.print(what, markup=False)
        else:
            logging.getLogger("speechlane").info("%s", what)

    def fail(self, message: str) -> NoReturn:
        """Say what is wrong and how to mend it, and end the command."""
        if self.plain:
            fail(message)
        logging.getLogger("speechlane").error("%s", message)
        raise typer.Exit(1)
