"""`speechlane keys`: API keys that a running service learns of within seconds."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import Annotated, TypeVar

import typer
from rich.table import Table
from rich.text import Text

from gateway.cli.console import err, fail, out
from gateway.keys.record import SCOPES, USUAL_SCOPES, Key, KeyLimits, Scope, made
from gateway.keys.store import KeyStore, StoreFailed, open_store
from gateway.settings import SettingsInvalid, load_settings

HELP = """API keys, of which only salted hashes are kept: in a file, or in Redis for several services.

The service reads the same store (--key-store, SPEECHLANE_KEY_STORE, or key_store in the TOML file); it need not be
started again.

Examples:

  export SPEECHLANE_KEY_STORE=/etc/speechlane/keys.json

  speechlane keys create office --scope live --sessions 4 --expires 90d

  speechlane keys list

  speechlane keys revoke sl_ab12cd34
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

_UNITS = {"m": 60, "h": 3600, "d": 86_400}
_STYLES = {"valid": "green", "expired": "yellow", "revoked": "red"}
Made = TypeVar("Made")

Where = Annotated[
    str | None, typer.Option("--key-store", help="File, or redis:// URL. [SPEECHLANE_KEY_STORE]", show_default=False)
]
Config = Annotated[Path | None, typer.Option("--config", help="TOML file of the service. [SPEECHLANE_CONFIG]")]
Prefix = Annotated[str, typer.Argument(help="Beginning of the key (sl_ab12cd34), or its name if no other has it.")]
AsJson = Annotated[bool, typer.Option("--json", help="As JSON.")]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(help="Whose key it is, for those who read the list.")],
    scope: Annotated[
        list[str] | None,
        typer.Option(help=f"{', '.join(SCOPES)}; once for each. Default: {', '.join(USUAL_SCOPES)}."),
    ] = None,
    sessions: Annotated[int | None, typer.Option(min=1, help="Live sessions, and spoken texts, at once.")] = None,
    audio_seconds_per_minute: Annotated[float | None, typer.Option(min=1, help="Of audio that it sends.")] = None,
    requests_per_minute: Annotated[int | None, typer.Option(min=1, help="Requests and new sockets.")] = None,
    weight: Annotated[float, typer.Option(min=0.01, max=1000, help="Its part of a busy device beside others.")] = 1.0,
    expires: Annotated[str | None, typer.Option(help="After so long: 30m, 12h, 90d. Default: never.")] = None,
    key_store: Where = None,
    config: Config = None,
) -> None:
    """Make a key and print it, once: it cannot be shown again."""
    store = _store(key_store, config)
    unknown = [one for one in scope or () if one not in SCOPES]
    if unknown:
        fail(f"there is no scope {unknown[0]!r}; there is: {', '.join(SCOPES)}", 2)
    if not 0 < len(name) <= 100:
        fail("the name has to have 1 to 100 characters", 2)
    chosen: tuple[Scope, ...] = tuple(one for one in SCOPES if one in (scope or USUAL_SCOPES))
    limits = KeyLimits(
        sessions=sessions,
        audio_seconds_per_minute=audio_seconds_per_minute,
        requests_per_minute=requests_per_minute,
    )
    until = time.time() + _seconds(expires) if expires is not None else None
    key, record = made(name, chosen, limits, weight, until)
    _carefully(lambda: store.put(record))
    err.print(Text(f"A key for {name}, kept as a hash in {store.where}. It is shown this once:"))
    typer.echo(key)


@app.command("list")
def listing(key_store: Where = None, config: Config = None, as_json: AsJson = False) -> None:
    """All keys, the newest first."""
    store = _store(key_store, config)
    keys = sorted(_carefully(store.read).values(), key=lambda key: key.created, reverse=True)
    if as_json:
        typer.echo(json.dumps([_told(key) for key in keys], indent=2))
        return
    if not keys:
        err.print(f"There is no key in {store.where}; make one with: speechlane keys create NAME")
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for title in ("key", "name", "state", "scopes", "limits", "weight", "created", "expires"):
        table.add_column(title, no_wrap=title != "scopes")
    for key in keys:
        state = key.state(time.time())
        table.add_row(
            Text(key.prefix, style="bold"), Text(key.name), Text(state, style=_STYLES[state]), " ".join(key.scopes),
            _limits(key), f"{key.weight:g}", _day(key.created), _day(key.expires) if key.expires else "never",
        )  # fmt: skip
    out.print(table)


@app.command("show")
def show(prefix: Prefix, key_store: Where = None, config: Config = None, as_json: AsJson = False) -> None:
    """All that is known of one key, which is not the key itself."""
    key = _found(_store(key_store, config), prefix)
    if as_json:
        typer.echo(json.dumps(_told(key), indent=2))
        return
    for title, value in (
        ("key", f"{key.prefix}_…"), ("name", key.name), ("state", key.state(time.time())),
        ("scopes", " ".join(key.scopes)), ("limits", _limits(key)), ("weight", f"{key.weight:g}"),
        ("created", _day(key.created)), ("expires", _day(key.expires) if key.expires else "never"),
        ("revoked", _day(key.revoked) if key.revoked else "no"),
    ):  # fmt: skip
        out.print(Text.assemble((f"{title:<9}", "dim"), value))


@app.command("revoke")
def revoke(prefix: Prefix, key_store: Where = None, config: Config = None) -> None:
    """Let a key open nothing any more, within two seconds. Sessions that are open go on to their end."""
    store = _store(key_store, config)
    key = _found(store, prefix)
    if key.revoked is None:
        _carefully(lambda: store.put(key.model_copy(update={"revoked": time.time()})))
    err.print(Text(f"{key.prefix} ({key.name}) is revoked."))


def _store(where: str | None, config: Path | None) -> KeyStore:
    try:
        settings = load_settings(key_store=where, config=config)
    except SettingsInvalid as error:
        fail(str(error), 2)
    if settings.key_store is None:
        fail(
            "it is not said where keys are kept: give --key-store keys.json, or set SPEECHLANE_KEY_STORE, "
            "here and for speechlane serve",
            2,
        )
    return open_store(settings.key_store.get_secret_value())


def _carefully(work: Callable[[], Made]) -> Made:
    try:
        return work()
    except StoreFailed as error:
        fail(str(error))


def _found(store: KeyStore, asked: str) -> Key:
    keys = _carefully(store.read).values()
    fitting = [key for key in keys if key.prefix == asked or asked.startswith(f"{key.prefix}_")]
    fitting = fitting or [key for key in keys if key.name == asked]
    if not fitting:
        fail(f"there is no key {asked[:12]!r} in {store.where}; speechlane keys list shows those that are")
    if len(fitting) > 1:
        fail(f"{len(fitting)} keys are called {asked!r}; give the beginning of one: speechlane keys list")
    return fitting[0]


def _seconds(text: str) -> float:
    found = re.fullmatch(r"([1-9]\d{0,5})([mhd])", text)
    if found is None:
        fail(f"{text!r} is no time: write 30m, 12h or 90d", 2)
    return float(int(found[1]) * _UNITS[found[2]])


def _told(key: Key) -> dict[str, object]:
    return {"prefix": key.prefix, "state": key.state(time.time())} | key.model_dump(
        mode="json", exclude={"salt", "digest"}
    )


def _limits(key: Key) -> str:
    limits = key.limits
    parts = (
        (limits.sessions, "sessions"),
        (limits.audio_seconds_per_minute, "s audio/min"),
        (limits.requests_per_minute, "requests/min"),
    )
    return ", ".join(f"{value:g} {unit}" for value, unit in parts if value is not None) or "none"


def _day(at: float) -> str:
    return datetime.fromtimestamp(at).astimezone().strftime("%Y-%m-%d %H:%M")
