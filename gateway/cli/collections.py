"""`speechlane collections`: which there are, what is in them, to another model, away."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.box import SIMPLE_HEAD
from rich.table import Table

from gateway.cli import collection_options as asked
from gateway.cli.console import err, fail, out

if TYPE_CHECKING:
    from vision_text.ingest.migration import Moved
    from vision_text.store.store import Store

HELP = """Collections of texts that can be searched: those of this machine, or with --url your own of a service.

Examples:

  speechlane collections list

  speechlane collections show library

  speechlane collections migrate library --model BAAI/bge-small-en-v1.5
"""
LIST = """The collections.

Examples:

  speechlane collections list --json | jq -r .name
"""
SHOW = """A collection: what it holds, in which vector space, and what filters may name.

Examples:

  speechlane collections show library
"""
DROP = """Remove a collection with everything in it. It is asked for once more, unless --yes is given.

Examples:

  speechlane collections drop library --yes
"""
MIGRATE = """Embed a collection anew with another model, other dimensions or another precision, and switch over at once.

The collection is searched and written to as before until that moment. An interrupted migration goes on where it was
with the same command; --give-up forgets it.

Examples:

  speechlane collections migrate library --model BAAI/bge-small-en-v1.5

  speechlane collections migrate library --precision int8
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Name = Annotated[str, typer.Argument(metavar="COLLECTION", help="Its name.")]


@app.command("list", help=LIST, short_help="The collections.")
def list_collections(
    collections: asked.Place = None,
    url: asked.Url = None,
    key: asked.Key = None,
    config: asked.Config = None,
    as_json: asked.Json = False,
) -> None:
    if url is not None:
        rows = _ask(url, key, "/v1/collections")["data"]
    else:
        from gateway.collections.views import collection_body

        with asked.opened(collections, config) as store:
            rows = [collection_body(info) for info in store.list()]
    if as_json:
        for row in rows:
            typer.echo(json.dumps(row, ensure_ascii=False))
    elif rows:
        table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
        for name in ("name", "model", "dimensions", "precision", "space", "since"):
            table.add_column(name, overflow="fold", justify="right" if name == "dimensions" else "left")
        for row in rows:
            space = row["space"]
            moving = f" (moving to {row['moving_to']['model']})" if row["moving_to"] else ""
            since = time.strftime("%Y-%m-%d", time.localtime(row["created"]))
            table.add_row(
                row["name"] + moving, space["model"], str(space["dimensions"]), space["precision"],
                space["fingerprint"], since,
            )  # fmt: skip
        out.print(table)
    else:
        err.print("There are no collections.", style="dim")


@app.command("show", help=SHOW, short_help="What a collection holds.")
def show(
    name: Name,
    collections: asked.Place = None,
    url: asked.Url = None,
    key: asked.Key = None,
    config: asked.Config = None,
    as_json: asked.Json = False,
) -> None:
    if url is not None:
        row = _ask(url, key, f"/v1/collections/{name}")
    else:
        from gateway.collections.views import collection_body

        with asked.opened(collections, config) as store:
            found = store.collection(name)
            row = collection_body(found.info, (found.documents(), found.count()))
    if as_json:
        typer.echo(json.dumps(row, ensure_ascii=False))
        return
    space, moving = row["space"], row["moving_to"]
    lines = {
        "name": row["name"],
        "holds": f"{row['documents']:,} documents in {row['pieces']:,} pieces",
        "model": f"{space['model']} ({space['revision']})",
        "vectors": f"{space['dimensions']} × {space['precision']}, pooling {space['pooling']}"
        f"{', normalised' if space['normalised'] else ''}{', prompt ' + space['prompt'] if space['prompt'] else ''}",
        "space": space["fingerprint"],
        "fields": ", ".join(f"{one} ({kind})" for one, kind in row["fields"].items()) or "none of its own",
        "since": time.strftime("%Y-%m-%d %H:%M", time.localtime(row["created"])),
        "moving to": f"{moving['model']}, {moving['precision']} ({moving['fingerprint']})" if moving else "",
    }
    for label, value in lines.items():
        if value:
            out.print(f"{label:10} {value}", markup=False)


@app.command("drop", help=DROP, short_help="Remove a collection.")
def drop(
    name: Name,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    collections: asked.Place = None,
    url: asked.Url = None,
    key: asked.Key = None,
    config: asked.Config = None,
) -> None:
    if not yes and not typer.confirm(f"Remove {name} and everything in it?", err=True):
        raise typer.Exit(1)
    if url is not None:
        _ask(url, key, f"/v1/collections/{name}", method="DELETE")
        return
    with asked.opened(collections, config) as store:
        store.drop(name)


@app.command("migrate", help=MIGRATE, short_help="To another model, beside the old one.")
def migrate(
    name: Name,
    model: asked.Model = None,
    dimensions: Annotated[int | None, typer.Option(help="Of the new vectors.", min=1)] = None,
    precision: Annotated[str | None, typer.Option(help="float32, float16, int8 or binary.")] = None,
    give_up: Annotated[bool, typer.Option("--give-up", help="Forget a migration that was begun.")] = False,
    owner: Annotated[str, typer.Option(help="Whose, of a service with keys; `owner` in its database.")] = "",
    device: asked.Device = "cpu",
    threads: asked.Threads = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch a model that is not here from the hub.")] = False,
    collections: asked.Place = None,
    config: asked.Config = None,
    quiet: asked.Quiet = False,
) -> None:
    if not give_up and model is None and dimensions is None and precision is None:
        fail("say what to: --model, --dimensions or --precision", 2)
    with asked.opened(collections, config) as store:
        if give_up:
            store.give_up_migration(name, owner=owner)
            return
        code = asyncio.run(_migrate(store, name, owner, model, dimensions, precision, device, threads, download, quiet))
    if code:
        raise typer.Exit(code)


async def _migrate(
    store: Store,
    name: str,
    owner: str,
    model: str | None,
    dimensions: int | None,
    precision: str | None,
    device: str,
    threads: int | None,
    download: bool,
    quiet: bool,
) -> int:
    from gateway.cli.embed_progress import EmbedBoard
    from gateway.cli.embedding import INTERRUPTED, loaded
    from vision_text.embeddings.embedder import EmbeddingSettings
    from vision_text.ingest.checkpoint import Counts
    from vision_text.ingest.embedding import LocalEmbeds, calibration, document_space
    from vision_text.ingest.migration import Migration
    from vision_text.ingest.pipeline import Standing

    space = (await asyncio.to_thread(store.info, name, owner=owner)).space
    wanted = model or space.model
    board = EmbedBoard(name, quiet=quiet)
    began = time.monotonic()

    def show(moved: Moved) -> None:
        seconds = max(1e-3, time.monotonic() - began)
        left = (moved.size - moved.done) * seconds / moved.done if moved.done else None
        counts = Counts(added=moved.done, tokens=moved.tokens)
        board.show(Standing(counts, moved.done, moved.size, moved.tokens / seconds, left))

    with board:
        board.loading(f"Loading {wanted}")
        settings = EmbeddingSettings(models=(wanted,), threads=threads, download=download)
        async with loaded(settings, device) as embedder:
            board.loading(None)
            sizes = dimensions or (space.dimensions if model is None else None)
            to = document_space(embedder, None, sizes, precision or space.precision)
            migration = Migration(
                store, name, LocalEmbeds(embedder, to), owner=owner, ranges=calibration(to), on_progress=show
            )

            def interrupt() -> None:
                if migration.stop.is_set():
                    err.show_cursor()
                    os._exit(INTERRUPTED)
                migration.stop.set()
                board.say("Stopping; once more ends at once.")

            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().add_signal_handler(number, interrupt)
            moved = await migration.run()
    if moved is None:
        err.print(f"Interrupted; {name} is as it was, and the same command goes on.", markup=False)
        return INTERRUPTED
    if not quiet:
        err.print(f"{name} is in the space {to.fingerprint} now: {moved.size:,} pieces by {to.model}.", markup=False)
    return 0


def _ask(url: str, key: str | None, path: str, method: str | None = None) -> Any:
    from gateway.cli.service import ask
    from speechlane.client.errors import ClientError

    try:
        return ask(url, key, path, method=method)
    except ClientError as error:
        fail(str(error))
