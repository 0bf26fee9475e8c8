"""What commands on collections share: their options, the store opened around them, its errors as messages."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gateway.cli.console import fail
from gateway.cli.lane_options import batch_settings, setting

if TYPE_CHECKING:
    from vision_text.store.store import Store

Place = Annotated[
    str | None,
    typer.Option(
        "--collections",
        metavar="PATH|URL",
        help="Where collections lie: a folder, or postgresql://HOST/DATABASE; a password is better given in the "
        "variable. Unset: collections in the batch directory. [SPEECHLANE_COLLECTIONS]",
    ),
]
Url = Annotated[
    str | None,
    typer.Option("--url", help="Use the collections of this service; unset: those here.", envvar="SPEECHLANE_URL"),
]
Key = Annotated[
    str | None, typer.Option("--key", help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")
]
Config = Annotated[Path | None, typer.Option(help="TOML file of settings. [SPEECHLANE_CONFIG]")]
Model = Annotated[str | None, typer.Option(help="Embedding model: a name, a path, a hub name.")]
Threads = Annotated[int | None, typer.Option(help="CPU threads.", min=1)]
Device = Annotated[str, typer.Option(help="Where the model runs: cpu, cuda:0.")]
Json = Annotated[bool, typer.Option("--json", help="For scripts: JSON objects, one a line.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress; only what went wrong.")]
Where = Annotated[
    list[str] | None,
    typer.Option("--where", metavar="'FIELD OP VALUE'", help="Only what fits: 'year >= 1800'. Several: all of them."),
]

DEFAULT_MODEL = "all-MiniLM-L6-v2"
NEEDED = "pip install 'speechlane[embeddings]'"


def place_of(given: str | None, config: Path | None) -> str:
    """Where the collections of this machine lie."""
    found = setting("collections", given, config)
    if found is not None:
        return str(found)
    return str(data_directory(config) / "collections")


def data_directory(config: Path | None) -> Path:
    """Where this machine keeps what is made here."""
    return batch_settings(None, None, None, config).directory.absolute()


@contextmanager
def opened(given: str | None, config: Path | None) -> Iterator[Store]:
    """The store; what goes wrong with it ends the command with a message."""
    with told(), _store(place_of(given, config)) as store:
        yield store


@contextmanager
def told() -> Iterator[None]:
    """Errors that were foreseen end the command with a message."""
    from vision_text.models import ModelUnusable
    from workers.errors import ServingError

    try:
        yield
    except ServingError as error:
        fail(error.message, 2 if error.status in (404, 422) else 1)
    except ModelUnusable as error:
        fail(str(error))
    except BrokenPipeError:
        raise
    except OSError as error:
        fail(f"{error.strerror or error}{f': {error.filename}' if error.filename else ''}")


def fields_of(given: Sequence[str]) -> dict[str, str]:
    """The fields of --field NAME[:KIND]; ends the command on a wrong one."""
    from vision_text.store.rows import FIELD_KINDS, check_fields
    from workers.errors import InputInvalid

    fields = {}
    for one in given:
        name, _, kind = one.partition(":")
        if kind and kind not in FIELD_KINDS:
            fail(f"--field is {one}; write NAME:KIND with {', '.join(FIELD_KINDS)}", 2)
        fields[name] = kind or "text"
    try:
        return dict(check_fields(fields))
    except InputInvalid as error:
        fail(error.message, 2)


@contextmanager
def _store(place: str) -> Iterator[Store]:
    try:
        from vision_text.store.store import Store

        store = Store.open(place)
    except ModuleNotFoundError as error:
        name = "postgres" if (error.name or "").startswith(("psycopg", "pgvector")) else "embeddings"
        fail(f"{error.name} is not installed; collections need: pip install 'speechlane[{name}]'")
    with store:
        yield store


def plain(values: Any) -> str:
    """Fields as they stand in a line."""
    return ", ".join(f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in values)
