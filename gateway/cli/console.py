"""Where the commands write: results to stdout, everything about them to stderr."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from typing import NoReturn

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


def log_to_stderr(level: str) -> None:
    """One line a record, with time and name."""
    logging.basicConfig(level=level.upper(), format="%(asctime)s %(levelname)-7s %(name)s: %(message)s", force=True)
    logging.captureWarnings(True)
    # aiohttp's access log holds whole URLs, and with them whatever a client put into a query.
    logging.getLogger("aiohttp.access").disabled = True
