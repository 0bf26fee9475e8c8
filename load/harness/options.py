"""Options that all kinds of clients share, and what they mean together."""

from __future__ import annotations

import inspect
import os
import typing
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from load.harness.arrivals import Arrivals, Pattern

Url = Annotated[
    str | None, typer.Option(help="Service to measure, http://HOST:PORT. Unset: one is started.", metavar="URL")
]
Key = Annotated[
    str | None,
    typer.Option(help="Its API key; better given in the variable.", envvar="SPEECHLANE_API_KEY", metavar="KEY"),
]
Flags = Annotated[str, typer.Option(help="Flags of `speechlane serve` for the one that is started, in quotes.")]
Cpus = Annotated[str, typer.Option(help="CPUs of the one that is started (0,1); the clients take the others.")]
Clients = Annotated[str, typer.Option(help="How many at once; several numbers are measured one after another.")]
Seconds = Annotated[float, typer.Option(help="Length of the run of each number.", min=1.0)]
ArrivalsOption = Annotated[
    Pattern,
    typer.Option(
        "--arrivals",
        help="closed: so many are there all the time. poisson: they come at random, so many at once on average, "
        "however slow the service is. bursts: the same, several at a time.",
    ),
]
Burst = Annotated[int, typer.Option(help="How many come in a burst, on average.", min=1)]
Seed = Annotated[int, typer.Option(help="Another one: other recordings, texts, pauses and moments.")]
ObjectiveOption = Annotated[
    float | None,
    typer.Option(
        "--objective",
        help="Seconds that p95 must hold, without refusals, or the exit status is 1. Unset: what is late is counted.",
        min=0.001,
    ),
]
Calibrate = Annotated[
    bool, typer.Option(help="First measure the clients themselves at a service that answers at once.")
]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Write all figures here.", metavar="FILE")]
HtmlFile = Annotated[Path | None, typer.Option("--html", help="Write a page with plots here.", metavar="FILE")]

Recordings = Annotated[
    Path | None,
    typer.Option(
        help="Folder of recordings to say, with references.tsv (file<TAB>text) if words shall be checked. Unset: the "
        "repository's.",
        metavar="FOLDER",
        file_okay=False,
        exists=True,
    ),
]
WordErrors = Annotated[
    float | None,
    typer.Option(help="Word error rate in percent that a client may have. Unset: it is told, not judged.", min=0.0),
]
Visit = Annotated[float, typer.Option(help="Seconds that a client stays when arrivals are open.", min=1.0)]

NEEDED = ("jiwer", "whisper_normalizer")
REMEDY = "pip install 'speechlane[load]'"


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be measured, whatever the kind. `objective` None: the kind's own, which is only counted."""

    url: str | None
    key: str | None
    flags: str
    cpus: tuple[int, ...]
    clients: tuple[int, ...]
    seconds: float
    arrivals: Pattern
    burst: int
    seed: int
    objective: float | None
    calibrate: bool
    json: Path | None
    html: Path | None

    def coming(self, spread: float) -> Arrivals:
        """When clients come; those of a closed loop begin within `spread` seconds."""
        return Arrivals(self.arrivals, spread, self.burst)


def asked(
    url: Url = None,
    key: Key = None,
    flags: Flags = "",
    cpus: Cpus = "",
    clients: Clients = "1,2,4",
    seconds: Seconds = 60.0,
    arrivals: ArrivalsOption = Pattern.CLOSED,
    burst: Burst = 4,
    seed: Seed = 0,
    objective: ObjectiveOption = None,
    calibrate: Calibrate = True,
    json: JsonFile = None,
    html: HtmlFile = None,
) -> Asked:
    """Out of the options. Raises BadParameter."""
    wanted = numbers(clients, "--clients")
    if not wanted or 0 in wanted:
        raise typer.BadParameter(f"{clients!r} is no list of numbers above 0, such as 1,2,4", param_hint="--clients")
    if url is not None and not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{url!r} does not look like http://127.0.0.1:8700", param_hint="--url")
    for file, option in ((json, "--json"), (html, "--html")):
        if file is not None and not os.access(file if file.exists() else file.parent, os.W_OK):
            raise typer.BadParameter(f"{file} cannot be written", param_hint=option)
    return Asked(
        url,
        key,
        flags,
        numbers(cpus, "--cpus"),
        wanted,
        seconds,
        arrivals,
        burst,
        seed,
        objective,
        calibrate,
        json,
        html,
    )


def numbers(text: str, option: str) -> tuple[int, ...]:
    """Whole numbers with commas between them. Raises BadParameter."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdecimal() for part in parts):
        raise typer.BadParameter(f"{text!r} is no list of whole numbers, such as 1,2,4", param_hint=option)
    return tuple(int(part) for part in parts)


def with_run(function: Callable[..., None]) -> Callable[..., None]:
    """A command out of a function that takes an `Asked` first: its options come behind the function's own."""
    shared = inspect.signature(asked).parameters
    hints = typing.get_type_hints(asked, include_extras=True)
    own = list(inspect.signature(function).parameters.values())[1:]
    kinds = typing.get_type_hints(function, include_extras=True)

    def command(**given: Any) -> None:
        run = asked(**{name: given.pop(name) for name in shared})
        try:
            function(run, **given)
        except ModuleNotFoundError as error:
            if error.name not in NEEDED:
                raise
            typer.echo(f"{error.name} is not installed; add it with: {REMEDY}", err=True)
            raise typer.Exit(1) from error

    parameters = [one.replace(annotation=kinds[one.name]) for one in own]
    parameters += [one.replace(annotation=hints[one.name]) for one in shared.values()]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command
