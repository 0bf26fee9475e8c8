"""`speechlane search`: what a collection holds about something."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.text import Text

from gateway.cli import collection_options as asked
from gateway.cli.console import err, fail, out
from gateway.cli.progress import clock_time

if TYPE_CHECKING:
    from vision_text.store.store import Store

HELP = """Search a collection by meaning and by words.

Of transcripts each hit comes with the time to jump to.

Exits with 0 when something was found, 3 when nothing was, 1 when it could not be searched, 2 when the arguments are
wrong.

Examples:

  speechlane search library "a walk along the river"

  speechlane search papers "protein folding" --where "year >= 2020" --limit 5

  speechlane search talks "budget cuts" --mode words --json | jq -r '.source, .start'
"""

MODES = ("hybrid", "vector", "words")


def command(
    collection: Annotated[str, typer.Argument(metavar="COLLECTION", help="Where; `collections list` shows them.")],
    query: Annotated[str, typer.Argument(metavar="QUERY", help="What for.")],
    mode: Annotated[str, typer.Option(help="hybrid, vector or words.")] = "hybrid",
    limit: Annotated[int, typer.Option(help="Hits at most.", min=1, max=200)] = 10,
    where: asked.Where = None,
    device: asked.Device = "cpu",
    threads: asked.Threads = None,
    collections: asked.Place = None,
    url: asked.Url = None,
    key: asked.Key = None,
    config: asked.Config = None,
    as_json: asked.Json = False,
) -> None:
    if mode not in MODES:
        fail(f"--mode is {mode}; there is {', '.join(MODES)}", 2)
    if not query.strip():
        fail("nothing is searched for", 2)
    if url is not None:
        hits = _at_service(url, key, collection, query, mode, limit, where or [])
    else:
        with asked.opened(collections, config) as store:
            hits = asyncio.run(_here(store, collection, query, mode, limit, where or [], device, threads))
    if as_json:
        for hit in hits:
            typer.echo(json.dumps(hit, ensure_ascii=False))
    else:
        for number, hit in enumerate(hits, 1):
            show(number, hit)
    if not hits:
        err.print("Nothing was found.", style="dim")
        raise typer.Exit(3)


async def _here(
    store: Store,
    name: str,
    query: str,
    mode: str,
    limit: int,
    where: list[str],
    device: str,
    threads: int | None,
) -> list[dict[str, Any]]:
    from gateway.collections.views import hit_body
    from vision_text.store.filters import parse_where

    found = await asyncio.to_thread(store.collection, name)
    condition = parse_where(where, found.info.filterable)
    vector = space = None
    if mode != "words":
        from gateway.cli.embedding import loaded
        from vision_text.embeddings.embedder import EmbeddingSettings
        from vision_text.ingest.embedding import query_vector

        async with loaded(EmbeddingSettings(models=(found.space.model,), threads=threads), device) as embedder:
            vector, space = await query_vector(embedder, found.space, query)
    hits = await asyncio.to_thread(
        found.search,
        vector=vector,
        space=space,
        words=query if mode != "vector" else None,
        where=condition,
        limit=limit,
    )
    return [hit_body(hit, name) for hit in hits]


def _at_service(
    url: str, key: str | None, name: str, query: str, mode: str, limit: int, where: list[str]
) -> list[dict[str, Any]]:
    from gateway.cli.service import ask
    from speechlane.client.errors import ClientError
    from vision_text.store.filters import where_body
    from workers.errors import InputInvalid

    try:
        body: dict[str, Any] = {"collection": name, "query": query, "mode": mode, "limit": limit}
        if where:
            fields = ask(url, key, f"/v1/collections/{name}")["fields"]
            body["filter"] = where_body(where, fields)
        found: list[dict[str, Any]] = ask(url, key, "/v1/search", body)["data"]
        return found
    except ClientError as error:
        fail(str(error))
    except InputInvalid as error:
        fail(error.message, 2)


def show(number: int, hit: dict[str, Any]) -> None:
    """One hit: where it is, and what stands there."""
    place = hit["document"] if hit["document"] == hit["source"] or not hit["source"] else None
    title = Text.assemble(
        (f"{number}. ", "dim"), (hit.get("file") or hit["fields"].get("file") or hit["document"], "bold")
    )
    if place is None and "file" not in hit["fields"]:
        title.append(f"  {hit['source']}", "dim")
    if hit["start"] is not None:
        title.append(f"  {clock_time(hit['start'])}", "cyan")
    if hit["similarity"] is not None:
        title.append(f"  {hit['similarity']:.3f}", "dim")
    out.print(title)
    text = " ".join(hit["text"].split())
    out.print(Text(f"   {text if len(text) <= 400 else text[:399] + '…'}"))
    told = asked.plain([one for one in hit["fields"].items() if one[0] not in ("file", "language")])
    if told:
        out.print(Text(f"   {told}", "dim"))
