"""Where the commands write: results to stdout, everything about them to stderr."""

from __future__ import annotations

import logging
from typing import NoReturn

import typer
from rich.console import Console
from rich.text import Text

out = Console(highlight=False, soft_wrap=True)
err = Console(stderr=True, highlight=False, soft_wrap=True)


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
