"""Documents of every kind of source go into a collection once, whatever happens on the way."""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet
import pytest

from load.made_pages import Put, pdf
from tests.vision_text.ingest.conftest import MODEL, Loaded
from vision_text.embeddings.space import SpaceMismatch
from vision_text.ingest import pipeline
from vision_text.ingest.checkpoint import Checkpoint, Counts, FaultFile, IngestTaken
from vision_text.ingest.document import Document, Fault
from vision_text.ingest.embedding import LocalEmbeds, document_space, query_vector
from vision_text.ingest.guessing import guess_fields
from vision_text.ingest.migration import Migration
from vision_text.ingest.pieces import Cutter
from vision_text.ingest.pipeline import Ingest, Standing
from vision_text.ingest.sources import Columns, Source, open_source
from vision_text.ingest.transcripts import Transcripts
from vision_text.store.collection import Collection
from vision_text.store.store import Store

SENTENCES = (
    "The cat sat on the warm window sill.",
    "Interest rates were raised by the central bank.",
    "A ship crossed the stormy sea at night.",
    "Fresh bread comes out of the baker's oven.",
    "The telescope showed a distant galaxy.",
)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    with Store.open(tmp_path / "collections") as opened:
        yield opened


class Run:
    """Ingests of one test: each call is another run of the same command."""

    def __init__(self, loaded: Loaded, store: Store, tmp_path: Path) -> None:
        self.loaded, self.store, self.tmp_path = loaded, store, tmp_path
        self.faults = tmp_path / "faults.jsonl"
        self.standings: list[Standing] = []

    def collection(self, name: str = "notes", fields: dict[str, str] | None = None) -> Collection:
        return self.store.create(name, document_space(self.loaded.embedder), fields)

    def __call__(self, source: Source, collection: Collection, tokens: int | None = None) -> Counts:
        async def work() -> Counts:
            with Checkpoint(self.tmp_path / "runs", f"{source.name} {collection.info.name}") as checkpoint:
                ingest = Ingest(
                    source,
                    collection,
                    Cutter.of_model(MODEL, 256, tokens),
                    LocalEmbeds(self.loaded.embedder, collection.space),
                    checkpoint,
                    lambda length: FaultFile(self.faults, length),
                    self.standings.append,
                )
                return await ingest.run()

        found: Counts = self.loaded.run(work())
        return found

    def reasons(self) -> dict[str, str]:
        if not self.faults.exists():
            return {}
        lines = map(json.loads, self.faults.read_text("utf-8").splitlines())
        return {line["where"]: line["reason"] for line in lines}

    def best(self, collection: Collection, query: str, **more: Any) -> str:
        vector, space = self.loaded.run(query_vector(self.loaded.embedder, collection.space, query))
        return collection.search(vector=vector, space=space, limit=1, **more)[0].piece.document


@pytest.fixture
def run(loaded: Loaded, store: Store, tmp_path: Path) -> Run:
    return Run(loaded, store, tmp_path)


def records() -> list[dict[str, Any]]:
    return [{"id": f"s{n}", "text": text, "year": 1800 + n, "kind": "note"} for n, text in enumerate(SENTENCES)]


@pytest.mark.parametrize("kind", ["jsonl", "csv", "parquet"])
def test_tables_of_records(run: Run, kind: str) -> None:
    path = run.tmp_path / f"notes.{kind}"
    if kind == "jsonl":
        path.write_text("\n".join(map(json.dumps, records())), "utf-8")
    elif kind == "csv":
        with path.open("w", newline="", encoding="utf-8") as file:
            table = csv.DictWriter(file, ["id", "text", "year", "kind"])
            table.writeheader()
            table.writerows(records())
    else:
        pyarrow.parquet.write_table(pa.Table.from_pylist(records()), path)
    fields = guess_fields(open_source(path, Columns()))
    assert fields == {"year": "number", "kind": "text"}
    source = open_source(path, Columns(fields=fields))
    notes = run.collection(fields=dict(fields))
    assert run(source, notes).added == 5
    assert run.best(notes, "a boat in bad weather") == "s2"
    assert notes.search(words="galaxy")[0].piece.fields == {"year": 1804.0, "kind": "note"}
    assert run.standings[-1].done == source.size and run.standings[-1].counts.tokens > 30
    # Again: nothing is embedded, nothing is stored twice.
    assert run(source, notes) == Counts(unchanged=5)
    assert notes.count() == 5


def test_what_is_wrong_with_a_record_is_told_and_stops_no_other(run: Run) -> None:
    lines = [
        b'{"id": "good", "text": "A text."}',
        b'{"id": "no text"}',
        b'{"id": "empty", "text": "   "}',
        b"no json",
        b'["a list"]',
        b'{"id": "latin", "text": "caf\xe9"}',
        b'{"id": "half", "text": "a \\ud800 b"}',
        b'{"id": {"a": 1}, "text": "x"}',
        b'{"id": "year", "text": "x", "year": "soon"}',
        b"",
        b'{"text": "without an id", "tags": ["kept", "as it is"]}',
        b'{"id": "good", "text": "The id comes again, and the later one stands."}',
    ]
    path = run.tmp_path / "notes.jsonl"
    path.write_bytes(b"\n".join(lines))
    notes = run.collection(fields={"year": "number"})
    counts = run(open_source(path, Columns(fields={"year": "number"})), notes)
    assert (counts.added, counts.replaced, counts.faulted) == (2, 1, 8)
    reasons = run.reasons()
    assert len(reasons) == 8 and "byte 28" in reasons["notes.jsonl:6"] and "number" in reasons["notes.jsonl:9"]
    found = {piece.document: piece for some, _ in notes.rows() for piece in some}
    assert set(found) == {"good", "notes.jsonl:11"}
    assert "later" in found["good"].text and found["notes.jsonl:11"].extra == {"tags": ["kept", "as it is"]}
    assert notes.search(words="without")[0].piece.source == "notes.jsonl"
    # The same again: the same faults once.
    assert run(open_source(path, Columns(fields={"year": "number"})), notes).faulted == 8
    assert len(run.faults.read_text("utf-8").splitlines()) == 8


def test_a_folder_of_texts_changes_with_its_files(run: Run) -> None:
    folder = run.tmp_path / "texts"
    (folder / "deep").mkdir(parents=True)
    for n, text in enumerate(SENTENCES):
        (folder / "deep" / f"{n}.md").write_text(text, "utf-8")
    (folder / "bad.txt").write_bytes(b"caf\xe9")
    (folder / "picture.png").write_bytes(b"\x89PNG")
    notes = run.collection()
    counts = run(open_source(folder, Columns()), notes)
    assert (counts.added, counts.faulted) == (5, 1)
    (folder / "deep" / "0.md").write_text("An essay about mountains.", "utf-8")
    counts = run(open_source(folder, Columns()), notes)
    assert (counts.added, counts.replaced, counts.unchanged) == (0, 1, 4)
    assert run.best(notes, "hills and summits") == "deep/0.md"


def test_long_texts_are_cut_where_sentences_end_and_nothing_is_lost(run: Run) -> None:
    text = " ".join(f"Sentence {n} says that item {n * 7} is on shelf {n % 13}." for n in range(400))
    path = run.tmp_path / "long.txt"
    path.write_text(text, "utf-8")
    notes = run.collection()
    cutter = Cutter.of_model(MODEL, 256, 64, 16)
    read = next(iter(open_source(path, Columns()).read(pipeline.START)))
    pieces = cutter.cut(read.found)  # type: ignore[arg-type]
    assert len(pieces) > 60 and all(piece.text.endswith(".") for piece in pieces)
    covered, at = 0, 0
    for piece in pieces:
        found = text.index(piece.text, max(0, at - 400))
        assert found <= covered + 1, "there is a gap between two pieces"
        at, covered = found, found + len(piece.text)
    assert covered == len(text)
    assert run(open_source(path, Columns()), notes).pieces == notes.count() > 10
    assert run.reasons() == {}


def test_transcripts_say_where_to_jump_to(run: Run) -> None:
    segments = [
        {"start": 2.0 * n, "end": 2.0 * n + 1.8, "text": SENTENCES[n % 5], "channel": 0, "words": []} for n in range(20)
    ]
    body = {"schema": "speechlane.transcript", "version": 1, "language": "en", "segments": segments}
    folder = run.tmp_path / "results"
    folder.mkdir()
    (folder / "talk.json").write_text(json.dumps(body), "utf-8")
    (folder / "other.json").write_text("{}", "utf-8")
    talks = run.collection(fields={"file": "text", "language": "text"})
    counts = run(Transcripts.of_files([folder]), talks)
    assert (counts.added, counts.faulted) == (1, 1)
    pieces = [piece for some, _ in talks.rows() for piece in some]
    assert [(piece.start, piece.fields["file"]) for piece in pieces] == [(0.0, "talk"), (20.0, "talk")]
    assert all(piece.end is not None and piece.start is not None and piece.end - piece.start <= 20 for piece in pieces)


def test_an_interrupted_run_goes_on_where_it_was(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pipeline, "BATCH_PIECES", 10)
    path = run.tmp_path / "many.jsonl"
    lines = [json.dumps({"id": str(n), "text": f"{SENTENCES[n % 5]} {n}"}) for n in range(95)]
    path.write_text("\n".join([*lines[:30], "broken", *lines[30:]]), "utf-8")
    notes, source = run.collection(), open_source(path, Columns())

    async def interrupted() -> Counts:
        with Checkpoint(run.tmp_path / "runs", f"{source.name} notes") as checkpoint:
            with pytest.raises(IngestTaken):
                Checkpoint(run.tmp_path / "runs", f"{source.name} notes").__enter__()
            embeds = LocalEmbeds(run.loaded.embedder, notes.space)
            cutter = Cutter.of_model(MODEL, 256)
            ingest = Ingest(source, notes, cutter, embeds, checkpoint, lambda n: FaultFile(run.faults, n))
            ingest._on_progress = lambda standing: ingest.stop.set() if standing.counts.added >= 40 else None
            return await ingest.run()

    first = run.loaded.run(interrupted())
    assert 40 <= first.added < 95
    last = run(source, notes)
    assert (last.added, last.faulted, notes.count()) == (95, 1, 95)
    assert len(run.reasons()) == 1


def test_a_collection_moves_to_another_space_while_it_is_used(
    run: Run, loaded: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = run.tmp_path / "notes.jsonl"
    path.write_text("\n".join(map(json.dumps, records())), "utf-8")
    notes = run.collection()
    run(open_source(path, Columns()), notes)
    wanted = document_space(loaded.embedder, precision="binary")
    embeds = LocalEmbeds(loaded.embedder, wanted)
    migration = Migration(run.store, "notes", embeds)
    late: list[int] = []
    embed = embeds.embed

    async def with_a_write_meanwhile(texts: Any) -> Any:
        made = await embed(texts)
        if not late:
            late.append(1)
            vector = await loaded.embedder.embed(["Bees make honey in summer."])
            piece = replace(next(iter(notes.rows()))[0][0], document="s5", hash="h", text="Bees make honey in summer.")
            notes.put([piece], vector.vectors, notes.space)
            notes.delete(documents=["s0"])
        return made

    monkeypatch.setattr(embeds, "embed", with_a_write_meanwhile)
    moved = loaded.run(migration.run())
    assert moved is not None and moved.size == 5
    now = run.store.collection("notes")
    assert now.space.precision == "binary"
    assert {piece.document for some, _ in now.rows() for piece in some} == {"s1", "s2", "s3", "s4", "s5"}
    assert run.best(now, "insects and flowers") == "s5"
    # Who still has the old one open can neither write to it unseen, nor the new one with old vectors.
    with pytest.raises(Exception, match="moved to another model"):
        notes.delete(documents=["s1"])
    with pytest.raises(SpaceMismatch):
        now.put([], loaded.run(loaded.embedder.embed(["x"])).vectors[:0], notes.space)


def test_pdfs_of_a_folder_go_in_page_by_page_and_pages_without_text_are_named(run: Run) -> None:
    folder = run.tmp_path / "papers"
    folder.mkdir()
    texts = ["A ship crossed the stormy sea at night.", "Fresh bread comes out of the baker's oven."]
    pages = [[Put("Helvetica", 12, 60, 700, text)] for text in texts]
    (folder / "whole.pdf").write_bytes(pdf(pages))
    (folder / "partly.pdf").write_bytes(pdf([pages[0], [Put("Courier", 12, 60, 700, "- 2 -")], pages[1]]))
    (folder / "scanned.pdf").write_bytes(pdf([[Put("Courier", 12, 60, 700, "1")]]))
    (folder / "broken.pdf").write_bytes(pdf(pages)[:300])
    source, papers = open_source(folder, Columns()), run.collection("papers")
    found = [one.found for one in source.read(pipeline.START)]
    documents = {one.id: [part.text for part in one.parts] for one in found if isinstance(one, Document)}
    assert documents == {"whole.pdf": texts, "partly.pdf": texts}
    faults = {one.where: one.reason for one in found if isinstance(one, Fault)}
    assert faults["partly.pdf"] == "Without text, and left out: page 2."
    assert "carries no text" in faults["scanned.pdf"]
    assert "damaged" in faults["broken.pdf"]
    counts = run(source, papers)
    assert (counts.added, counts.faulted) == (2, 3)
    assert run.best(papers, "a loaf of bread") in ("whole.pdf", "partly.pdf")
