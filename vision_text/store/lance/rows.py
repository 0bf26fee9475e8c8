"""The rows of a collection in a LanceDB table."""

from __future__ import annotations

import errno
import json
import logging
import re
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import lancedb
import numpy as np
from filelock import FileLock, Timeout
from lancedb.index import FTS, BTree, IvfFlat
from lancedb.query import MatchQuery
from lancedb.table import Table
from numpy.typing import NDArray

from vision_text.embeddings.space import Space
from vision_text.store.backing import Block, Scored
from vision_text.store.errors import CollectionBusy, CollectionMoved, CollectionNotFound, StoreFull, StoreUnavailable
from vision_text.store.filters import Compare, Filter, within
from vision_text.store.lance.columns import (
    SPACE,
    bare_pieces,
    pieces_of,
    readable,
    schema,
    table,
    vector_column,
    vectors_of,
)
from vision_text.store.lance.conditions import expression
from vision_text.store.rows import FieldKind, Piece
from vision_text.store.scoring import Vectors
from workers.errors import ServingError

TABLE = "rows"
INDEX_ROWS = 50_000
"""From so many rows on there is an index of the vectors; below, every one of them is looked at."""
REBUILD = 4
"""An index is made anew when there are so many times the rows that it was made for."""
PROBES = 32
"""Parts of the index that a search looks into."""
OLD_VERSIONS = timedelta(minutes=30)
"""What was replaced is kept so long, for searches that have begun."""
WAIT = 60.0
"""Seconds for another writer."""
_FULL = re.compile(r"no space left|quota exceeded", re.IGNORECASE)
_log = logging.getLogger(__name__)


class LanceRows:
    """One generation, in a directory of its own."""

    def __init__(
        self, directory: Path, space: Space, fields: Mapping[str, FieldKind], current: Callable[[], bool]
    ) -> None:
        """`current` tells whether it is still what the catalogue calls the collection, or its next generation."""
        self._directory, self._space, self._fields, self._current = directory, space, fields, current
        self._writer = threading.Lock()
        self._schema = schema(space, fields)
        self._lock = FileLock(directory / "write.lock", timeout=WAIT, thread_local=False)
        with self._answers():
            # What other processes have written is seen at once.
            self._base = lancedb.connect(directory, read_consistency_interval=timedelta(0))
            self._table: Table = self._base.open_table(TABLE)
            written = (self._table.schema.metadata or {}).get(SPACE, b"").decode()
        if written != space.fingerprint:
            raise StoreUnavailable(
                f"The rows in {directory.name} are of the space {written or 'of nobody'}, their catalogue says "
                f"{space.fingerprint}: one of the two was changed by hand. Put the right one back, or drop them."
            )

    @classmethod
    def create(cls, directory: Path, space: Space, fields: Mapping[str, FieldKind]) -> None:
        """An empty one; the indexes of ids and words are there from the beginning."""
        directory.mkdir(parents=True)
        base = lancedb.connect(directory)
        made = base.create_table(TABLE, schema=schema(space, fields))
        for name in ("id", "document", "source"):
            made.create_index(name, config=BTree())
        # Words as they are, in whatever language: no stems, none left out.
        made.create_index("text", config=FTS(stem=False, remove_stop_words=False, ascii_folding=True))

    def known(self, documents: Sequence[str]) -> dict[str, str]:
        with self._answers():
            found = self._plain(within("document", documents), ["document", "hash"]).to_arrow()
        return dict(zip(found.column("document").to_pylist(), found.column("hash").to_pylist(), strict=True))

    def present(self, ids: Sequence[str]) -> dict[str, str]:
        with self._answers():
            found = self._plain(within("id", ids), ["id", "hash"]).to_arrow()
        return dict(zip(found.column("id").to_pylist(), found.column("hash").to_pylist(), strict=True))

    @contextmanager
    def writing(self) -> Iterator[None]:
        busy = CollectionBusy("Somebody else writes to the collection; try again when that has ended.")
        if not self._writer.acquire(timeout=WAIT):  # a thread of this process: the file's lock is one for all of them
            raise busy
        try:
            try:
                self._lock.acquire()
            except Timeout:
                raise busy from None
            except OSError as error:
                if not self._directory.exists():
                    raise _gone() from None
                raise StoreUnavailable(f"The collection cannot be written to: {error.strerror}.") from error
            try:
                if not self._current():
                    raise CollectionMoved
                yield
            finally:
                self._lock.release()
        finally:
            self._writer.release()

    def add(self, block: Block) -> None:
        with self._answers():
            self._table.add(table(block, self._schema, self._fields))

    def replace(self, block: Block, documents: Sequence[str]) -> None:
        with self._answers():
            merge = self._table.merge_insert("id").when_matched_update_all().when_not_matched_insert_all()
            merge = merge.when_not_matched_by_source_delete(expression(within("document", documents), self._fields))
            merge.execute(table(block, self._schema, self._fields))

    def delete(self, where: Filter) -> int:
        before = self.count(where)
        if before:
            with self._answers():
                self._table.delete(expression(where, self._fields))
        return before

    def count(self, where: Filter | None = None) -> int:
        with self._answers():
            if where is None:
                return int(self._table.count_rows())
            if where == Compare("piece", "eq", 0.0):
                return int(self._table.count_rows("piece = 0"))
            return sum(rows.num_rows for rows in self._plain(where, ["piece"]).to_batches())

    def by_vector(self, query: NDArray[np.float32], where: Filter | None, limit: int) -> Scored:
        with self._answers():
            search = self._near(query, "cosine", where, limit).select([*readable(self._fields), "_distance"])
            found = search.to_arrow()
        distances = found.column("_distance").to_pylist()
        return [(piece, 1.0 - far) for piece, far in zip(pieces_of(found, self._fields), distances, strict=True)]

    def by_bits(self, bits: NDArray[np.uint8], where: Filter | None, limit: int) -> tuple[list[Piece], Vectors]:
        with self._answers():
            search = self._near(bits, "hamming", where, limit)
            found = search.select([*readable(self._fields), "vector", "_distance"]).to_arrow()
        return pieces_of(found, self._fields), vectors_of(found)

    def by_words(self, words: str, where: Filter | None, limit: int) -> Scored:
        with self._answers():
            search = self._table.search(MatchQuery(words, "text"), query_type="fts")  # type: ignore[call-arg] # it has defaults.limit(limit)
            if where is not None:
                search = search.where(expression(where, self._fields))
            found = search.select([*readable(self._fields), "_score"]).to_arrow()
        return list(zip(pieces_of(found, self._fields), found.column("_score").to_pylist(), strict=True))

    def scan(self, where: Filter | None, rows: int, *, texts: bool = True) -> Iterator[tuple[list[Piece], Vectors]]:
        columns = [*readable(self._fields), "vector"] if texts else ["document", "piece", "hash", "vector"]
        with self._answers():
            for some in self._plain(where, columns).to_batches(rows):
                if some.num_rows:
                    yield pieces_of(some, self._fields) if texts else bare_pieces(some), vectors_of(some)

    def codes(self, where: Filter | None, rows: int) -> Iterator[tuple[list[str], Vectors]]:
        with self._answers():
            for some in self._plain(where, ["id", "vector"]).to_batches(rows):
                if some.num_rows:
                    yield some.column("id").to_pylist(), vectors_of(some)

    def tidy(self) -> None:
        """Merge small files, bring new rows into the indexes, forget old versions; one process at a time."""
        lock = FileLock(self._directory / "tidy.lock", timeout=0)
        try:
            with lock, self._answers():
                self._table.optimize(cleanup_older_than=OLD_VERSIONS)
                self._index()
        except Timeout:
            return  # somebody else is at it

    def _index(self) -> None:
        rows, note = int(self._table.count_rows()), self._directory / "index.json"
        made_for = json.loads(note.read_text("utf-8"))["rows"] if note.exists() else 0
        if rows < INDEX_ROWS or rows < REBUILD * made_for:
            return
        bits = self._space.precision in ("int8", "binary")
        config = IvfFlat(distance_type="hamming" if bits else "cosine")
        self._table.create_index(vector_column(self._space), config=config, replace=True)
        note.write_text(json.dumps({"rows": rows}), "utf-8")
        _log.info("an index was made for the vectors of %d pieces", rows)

    def _plain(self, where: Filter | None, columns: list[str]) -> Any:
        search = self._table.search().select(columns).limit(None)
        return search.where(expression(where, self._fields)) if where is not None else search

    def _near(self, query: NDArray[Any], metric: str, where: Filter | None, limit: int) -> Any:
        search: Any = self._table.search(query, vector_column_name=vector_column(self._space), query_type="vector")
        search = search.distance_type(metric).nprobes(PROBES).limit(limit)
        return search.where(expression(where, self._fields), prefilter=True) if where is not None else search

    @contextmanager
    def _answers(self) -> Iterator[None]:
        """LanceDB's errors as ours. Their text names files, which is for the log."""
        try:
            yield
        except (ServingError, GeneratorExit, KeyError):
            raise
        except (OSError, RuntimeError, ValueError) as error:
            if not self._directory.exists():
                raise _gone() from None
            if getattr(error, "errno", None) == errno.ENOSPC or _FULL.search(str(error)):
                raise StoreFull("There is no space left for the collection: make room on its disk.") from error
            _log.error("LanceDB failed in %s: %s", self._directory.name, error)
            raise StoreUnavailable("The collection cannot be read or written; the log says why.") from error


def _gone() -> CollectionNotFound:
    return CollectionNotFound("The collection was dropped.", param="collection")
