"""`speechlane embed`: documents into a collection, here, over workers, or at a service."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli import collection_options as asked
from gateway.cli import lane_options as lane
from gateway.cli.console import fail

HELP = """Embed documents into a collection that can be searched: JSONL, CSV, Parquet, a folder of texts and PDFs, jobs.

A record has its text in --text and its id in --id; what else it has can be filtered by (--field, or guessed from the
first records of a new collection). Long texts are cut into pieces. With --jobs the sources are finished jobs of
`speechlane jobs`, or all; with --transcripts result files in the form json: both are found again with the second to
jump to.

Each document is in the collection once, under its id: the same command again embeds what is new or has changed, and an
interrupted one goes on where it was. What cannot be stored is counted, and told with its reason in the file that
--errors names.

The model runs in this process; with --workers on all hosts that run `speechlane embed-worker` for the same queue; with
--url in a service, into the service's collections.

Exits with 0 when all went well, 1 when it could not begin or go on, 2 when the arguments are wrong, 3 when some
documents could not be stored, 130 when interrupted.

Examples:

  speechlane embed books/ --into library

  speechlane embed papers.jsonl --into papers --text abstract --field year:number

  speechlane embed all --jobs --into talks

  SPEECHLANE_REDIS_URL=rediss://queue.example.org speechlane embed big.parquet --into big --workers
"""


def command(
    sources: Annotated[
        list[str], typer.Argument(metavar="SOURCE...", help="A file, a folder; with --jobs ids of jobs, or all.")
    ],
    into: Annotated[str, typer.Option("--into", metavar="COLLECTION", help="Made when it is not there.")],
    model: asked.Model = None,
    dimensions: Annotated[int | None, typer.Option(help="Shorter vectors, where the model allows it.", min=1)] = None,
    precision: Annotated[str, typer.Option(help="float32, float16, int8 or binary.")] = "float32",
    text: Annotated[str, typer.Option(help="Where records have their text.")] = "text",
    id: Annotated[str, typer.Option(help="Where records have their id; without: file and number.")] = "id",
    field: Annotated[
        list[str] | None,
        typer.Option("--field", metavar="NAME:KIND", help="To filter by: text, number or boolean. Unset: guessed."),
    ] = None,
    pieces: Annotated[int | None, typer.Option(help="Tokens of a piece at most; unset: what the model takes.")] = None,
    overlap: Annotated[int | None, typer.Option(help="Tokens that pieces share; unset: an eighth.", min=0)] = None,
    jobs: Annotated[bool, typer.Option("--jobs", help="The sources are finished jobs.")] = False,
    transcripts: Annotated[bool, typer.Option("--transcripts", help="The sources are transcripts as json.")] = False,
    errors: Annotated[
        Path | None, typer.Option(help="File for what could not be stored; unset: COLLECTION-errors.jsonl.")
    ] = None,
    workers: Annotated[bool, typer.Option("--workers", help="Embed on the hosts of `embed-worker`.")] = False,
    device: asked.Device = "cpu",
    threads: asked.Threads = None,
    download: Annotated[bool, typer.Option("--download", help="Fetch a model that is not here from the hub.")] = False,
    collections: asked.Place = None,
    url: asked.Url = None,
    key: asked.Key = None,
    redis_url: lane.RedisUrl = None,
    spool_url: lane.SpoolUrl = None,
    batch_dir: lane.BatchDir = None,
    config: asked.Config = None,
    quiet: asked.Quiet = False,
    as_json: asked.Json = False,
) -> None:
    if jobs and transcripts:
        fail("--jobs and --transcripts exclude each other", 2)
    if len(sources) > 1 and not (jobs or transcripts):
        fail("give one source: a file, or a folder of texts", 2)
    if precision not in ("float32", "float16", "int8", "binary"):
        fail(f"--precision is {precision}; there is float32, float16, int8, binary", 2)
    if url is not None and (jobs or transcripts):
        fail("a service has its finished jobs in the collection 'transcripts' by itself; leave out --url", 2)
    if url is not None and workers:
        fail("--url and --workers exclude each other: a service embeds by itself", 2)
    fields = asked.fields_of(field) if field is not None else None
    # Imported late so that --help and wrong arguments answer at once.
    from gateway.cli.embed_sources import Sources
    from gateway.cli.embedding import Embedding, Wanted

    wanted = Wanted(
        into, model, dimensions, precision, fields, pieces, overlap, errors or Path(f"{into}-errors.jsonl"),
        asked.data_directory(config) / "ingests",
        device, threads, download, quiet, as_json,
    )  # fmt: skip
    settings = lane.batch_settings(redis_url, spool_url, batch_dir, config)
    with asked.told(), Sources(sources, id, text, jobs=jobs, transcripts=transcripts, settings=settings) as found:
        if url is not None:
            from gateway.cli.embed_service import embed_at_service

            code = asyncio.run(embed_at_service(found, wanted, url, key))
        else:
            with asked.opened(collections, config) as store:
                work = Embedding(store, found, wanted, asked.place_of(collections, config))
                code = asyncio.run(work.run(settings if workers else None))
    if code:
        raise typer.Exit(code)
