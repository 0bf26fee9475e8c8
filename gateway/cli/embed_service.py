"""`speechlane embed --url`: documents to a service, which cuts, embeds and stores them; gone on with like any other."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from collections import deque
from collections.abc import Generator
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import typer

from gateway.cli.console import err, fail
from gateway.cli.embed_progress import EmbedBoard, summary
from gateway.cli.embed_sources import Sources
from gateway.cli.embedding import INTERRUPTED, SOME_FAILED, Wanted
from gateway.cli.service import ask
from speechlane.client.errors import ClientError
from vision_text.ingest.checkpoint import START, Checkpoint, Counts, FaultFile, Note, Position
from vision_text.ingest.document import Document, Fault
from vision_text.ingest.pipeline import Standing
from vision_text.ingest.sources import Source

DOCUMENTS, BYTES = 500, 200_000
"""Of a request: as much as a service on a CPU embeds in well under a minute."""
AHEAD = 2
"""Requests at once; they are noted in order."""
TRIES = 8
WAIT = 2.0
"""Seconds before a request that the service could not take is sent again."""


@dataclass(slots=True)
class _Batch:
    documents: list[dict[str, Any]] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    position: Position = START
    done: float = 0.0


async def embed_at_service(sources: Sources, wanted: Wanted, url: str, key: str | None) -> int:
    """Everything; the exit code."""
    if wanted.pieces is not None or wanted.overlap is not None:
        fail("--pieces and --overlap are for collections here; a service cuts by what its model takes", 2)
    stop = asyncio.Event()
    board = EmbedBoard(wanted.into, quiet=wanted.quiet)

    def interrupt() -> None:
        if stop.is_set():
            err.show_cursor()
            os._exit(INTERRUPTED)
        stop.set()
        board.say("Stopping; once more ends at once.")

    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, interrupt)
    try:
        collection = await asyncio.to_thread(_collection, sources, wanted, url, key)
        source = sources.open(collection["fields"])
        with Checkpoint(wanted.notes, f"{url}\0{wanted.into}\0{sources.key}") as checkpoint, board:
            counts = await _send(source, collection, wanted, (url, key), checkpoint, board, stop)
    except ClientError as error:
        fail(str(error))
    if wanted.as_json:
        typer.echo(json.dumps({"collection": wanted.into, **asdict(counts), "interrupted": stop.is_set()}))
    elif not wanted.quiet:
        err.print(summary(wanted.into, counts))
    if counts.faulted:
        err.print(f"{counts.faulted} documents could not be stored; {wanted.errors} says why.", markup=False)
    if stop.is_set():
        err.print("Interrupted; the same command goes on where it was.", markup=False)
        return INTERRUPTED
    return SOME_FAILED if counts.faulted else 0


def _collection(sources: Sources, wanted: Wanted, url: str, key: str | None) -> dict[str, Any]:
    """The collection as the service has it, made when it is not there. Raises ClientError."""
    path = f"/v1/collections/{wanted.into}"
    if any(one["name"] == wanted.into for one in ask(url, key, "/v1/collections")["data"]):
        found: dict[str, Any] = ask(url, key, path)
        space = found["space"]
        for name, asked in (("model", wanted.model), ("dimensions", wanted.dimensions)):
            if asked is not None and asked != space[name]:
                fail(f"{wanted.into} has {space[name]} for its {name}, not {asked}; give the same, or leave it out", 2)
        return found
    fields = wanted.fields if wanted.fields is not None else dict(sources.guess())
    body = {"name": wanted.into, "fields": fields, "precision": wanted.precision}
    if wanted.model is not None:
        body["model"] = wanted.model
    if wanted.dimensions is not None:
        body["dimensions"] = wanted.dimensions  # type: ignore[assignment]
    made: dict[str, Any] = ask(url, key, "/v1/collections", body)
    return made


async def _send(
    source: Source,
    collection: dict[str, Any],
    wanted: Wanted,
    at: tuple[str, str | None],
    checkpoint: Checkpoint,
    board: EmbedBoard,
    stop: asyncio.Event,
) -> Counts:
    note = checkpoint.load(f"{source.digest()} {collection['created']} {collection['space']['fingerprint']}")
    faults = FaultFile(wanted.errors, note.faults)
    batches = _batches(source, note.position)
    waiting: deque[tuple[_Batch, asyncio.Task[dict[str, Any]]]] = deque()
    began, before, ended = time.monotonic(), note.counts.tokens, False
    try:
        while not stop.is_set():
            if not ended and len(waiting) < AHEAD:
                batch = await asyncio.to_thread(next, batches, None)
                if batch is None:
                    ended = True
                else:
                    waiting.append((batch, asyncio.create_task(_request(at, wanted.into, batch, stop))))
                continue
            if not waiting:
                break
            batch, task = waiting[0]
            answer = await task
            if not answer:
                break  # it was stopped
            waiting.popleft()
            note = _noted(note, batch, answer, faults)
            checkpoint.save(note)
            seconds = max(1e-3, time.monotonic() - began)
            left = (source.size - batch.done) * seconds / batch.done if source.size and batch.done else None
            board.show(Standing(note.counts, batch.done, source.size, (note.counts.tokens - before) / seconds, left))
        if ended and not waiting:
            checkpoint.save(replace(note, done=True))
    finally:
        for _, task in waiting:
            task.cancel()
        await asyncio.gather(*(task for _, task in waiting), return_exceptions=True)
    return note.counts


async def _request(at: tuple[str, str | None], name: str, batch: _Batch, stop: asyncio.Event) -> dict[str, Any]:
    """The service's answer; {} when it was stopped. Raises ClientError."""
    if not batch.documents:
        return {"added": 0, "replaced": 0, "unchanged": 0, "pieces": 0, "errors": [], "usage": {"total_tokens": 0}}
    for attempt in range(TRIES):
        try:
            body = {"documents": batch.documents}
            answer: dict[str, Any] = await asyncio.to_thread(ask, *at, f"/v1/collections/{name}/documents", body)
            return answer
        except ClientError as error:
            # It is busy, or being restarted: the documents are sent again, and stored once whatever became of them.
            passes = getattr(error, "status", 0) in (0, 423, 429, 500, 502, 503, 504)
            if not passes or attempt == TRIES - 1:
                raise
        if stop.is_set():
            return {}
        await asyncio.sleep(WAIT * (attempt + 1))
    raise AssertionError("the last attempt returns or raises")


def _noted(note: Note, batch: _Batch, answer: dict[str, Any], faults: FaultFile) -> Note:
    every = [*batch.faults, *(Fault(one["id"], one["message"]) for one in answer["errors"])]
    faults.add(every)
    before = note.counts
    counts = Counts(
        before.added + answer["added"],
        before.replaced + answer["replaced"],
        before.unchanged + answer["unchanged"],
        before.faulted + len(every),
        before.pieces + answer["pieces"],
        before.tokens + answer["usage"]["total_tokens"],
    )
    return replace(note, position=batch.position, counts=counts, faults=faults.length)


def _batches(source: Source, position: Position) -> Generator[_Batch]:
    batch, size, seen = _Batch(position=position), 0, set[str]()
    for one in source.read(position):
        if isinstance(one.found, Fault):
            batch.faults.append(one.found)
        else:
            # The later one of an id stands, so the two may not be in one request.
            if one.found.id in seen:
                yield batch
                batch, size, seen = _Batch(position=batch.position, done=batch.done), 0, set()
            batch.documents.append(_body(one.found))
            seen.add(one.found.id)
            size += sum(len(part.text) for part in one.found.parts)
        batch.position, batch.done = one.next, one.done
        if size >= BYTES or len(batch.documents) + len(batch.faults) >= DOCUMENTS:
            yield batch
            batch, size, seen = _Batch(position=one.next, done=one.done), 0, set()
    yield batch


def _body(document: Document) -> dict[str, Any]:
    text = "\n".join(part.text for part in document.parts)
    return {**document.extra, **document.fields, "id": document.id, "text": text, "source": document.source}
