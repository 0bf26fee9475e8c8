"""The rows of a collection in a table of PostgreSQL."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import psycopg
from numpy.typing import NDArray
from psycopg import Connection
from psycopg.errors import DiskFull, LockNotAvailable, UndefinedTable
from psycopg.sql import SQL, Composable, Composed, Identifier
from psycopg_pool import ConnectionPool, PoolTimeout

from vision_text.embeddings.space import Space
from vision_text.store.backing import Block, Scored
from vision_text.store.errors import CollectionBusy, CollectionMoved, CollectionNotFound, StoreFull, StoreUnavailable
from vision_text.store.filters import Filter
from vision_text.store.postgres.conditions import condition
from vision_text.store.postgres.values import (
    COLUMNS,
    PIECE,
    bit_string,
    copied,
    copied_types,
    piece_of,
    searched,
    stored,
    vector_type,
    vectors_of,
)
from vision_text.store.rows import FieldKind, Piece
from vision_text.store.scoring import Vectors

INDEX_ROWS = 100_000
"""From so many rows on there is an index of the vectors; below, every one of them is looked at."""
WAIT_MILLISECONDS = 60_000
"""For another writer."""
MAX_INDEXED = {"float32": 2000, "float16": 4000, "int8": 64_000, "binary": 64_000}
"""Dimensions that pgvector makes an index for."""

Pool = ConnectionPool[Connection[tuple[Any, ...]]]


class PostgresRows:
    """One generation, in a table of its own."""

    def __init__(
        self,
        pool: Pool,
        name: Composable,
        space: Space,
        fields: Mapping[str, FieldKind],
        current: Callable[[Connection[Any]], bool],
    ) -> None:
        """`current` tells whether it is still what the catalogue calls the collection, or its next generation."""
        self._pool, self._name, self._space, self._fields, self._current = pool, name, space, fields, current
        self._writing = threading.local()

    @classmethod
    def create(cls, connection: Connection[Any], name: Composable, space: Space) -> None:
        """An empty table, in the transaction of the connection."""
        vector, bits = (SQL(kind) for kind in vector_type(space))  # made of a number and words of ours
        connection.execute(
            SQL(
                "CREATE TABLE {} (id text PRIMARY KEY, document text NOT NULL, piece int NOT NULL, hash text NOT NULL, "
                'text text NOT NULL, source text NOT NULL, "start" float8, "end" float8, fields jsonb NOT NULL, '
                "extra jsonb NOT NULL, vector {} NOT NULL, bits {}, "
                "words tsvector GENERATED ALWAYS AS (to_tsvector('simple', text)) STORED)"
            ).format(name, vector, bits)
        )
        for column in (SQL("(document)"), SQL("(source)"), SQL("USING gin (words)")):
            connection.execute(SQL("CREATE INDEX ON {} {}").format(name, column))

    def known(self, documents: Sequence[str]) -> dict[str, str]:
        query = SQL("SELECT DISTINCT document, hash FROM {} WHERE document = ANY(%s)").format(self._name)
        return dict(self._all(query, [list(documents)]))

    def present(self, ids: Sequence[str]) -> dict[str, str]:
        return dict(self._all(SQL("SELECT id, hash FROM {} WHERE id = ANY(%s)").format(self._name), [list(ids)]))

    @contextmanager
    def writing(self) -> Iterator[None]:
        with answers(), self._pool.connection() as connection, connection.transaction():
            connection.execute(SQL("SET LOCAL lock_timeout = {}").format(WAIT_MILLISECONDS))
            # Searches go on beside this; writers do not.
            connection.execute(SQL("LOCK TABLE {} IN SHARE ROW EXCLUSIVE MODE").format(self._name))
            if not self._current(connection):
                raise CollectionMoved
            self._writing.connection = connection
            try:
                yield
            finally:
                del self._writing.connection

    def add(self, block: Block) -> None:
        into = SQL("COPY {} ({}) FROM STDIN (FORMAT BINARY)").format(self._name, COLUMNS)
        with self._connection() as connection, connection.cursor().copy(into) as copy:
            copy.set_types(copied_types(self._space))
            for row in copied(block, self._space):
                copy.write_row(row)

    def replace(self, block: Block, documents: Sequence[str]) -> None:
        with self._connection() as connection:
            query = SQL("DELETE FROM {} WHERE document = ANY(%s)").format(self._name)
            connection.execute(query, [list(documents)])
            self.add(block)

    def delete(self, where: Filter) -> int:
        clause, given = condition(where, self._fields)
        with self._connection() as connection:
            return connection.execute(SQL("DELETE FROM {} WHERE {}").format(self._name, clause), given).rowcount

    def count(self, where: Filter | None = None) -> int:
        clause, given = condition(where, self._fields)
        return int(self._all(SQL("SELECT count(*) FROM {} WHERE {}").format(self._name, clause), given)[0][0])

    def by_vector(self, query: NDArray[np.float32], where: Filter | None, limit: int) -> Scored:
        clause, given = condition(where, self._fields)
        asked = SQL("SELECT {}, vector <=> %s AS far FROM {} WHERE {} ORDER BY far LIMIT %s")
        value = stored(query.astype(np.float16) if self._space.precision == "float16" else query, self._space)
        rows = self._all(asked.format(PIECE, self._name, clause), [value, *given, limit], near=True)
        return [(piece_of(row), 1.0 - row[9]) for row in rows]

    def by_bits(self, bits: NDArray[np.uint8], where: Filter | None, limit: int) -> tuple[list[Piece], Vectors]:
        clause, given = condition(where, self._fields)
        column, _ = searched(self._space)
        asked = SQL("SELECT {}, vector FROM {} WHERE {} ORDER BY {} <~> %s LIMIT %s")
        value = bit_string(bits, self._space)
        rows = self._all(asked.format(PIECE, self._name, clause, column), [*given, value, limit], near=True)
        return self._read(rows)

    def by_words(self, words: str, where: Filter | None, limit: int) -> Scored:
        clause, given = condition(where, self._fields)
        # Any of the words: PostgreSQL has made lexemes of them before the sign between them is changed.
        asked = SQL(
            "SELECT {}, ts_rank_cd(words, asked, 1) AS rank FROM {}, "
            "CAST(replace(plainto_tsquery('simple', %s)::text, ' & ', ' | ') AS tsquery) AS asked "
            "WHERE words @@ asked AND ({}) ORDER BY rank DESC LIMIT %s"
        )
        rows = self._all(asked.format(PIECE, self._name, clause), [words.replace("\0", " "), *given, limit])
        return [(piece_of(row), float(row[9])) for row in rows]

    def scan(self, where: Filter | None, rows: int, *, texts: bool = True) -> Iterator[tuple[list[Piece], Vectors]]:
        clause, given = condition(where, self._fields)
        columns = PIECE if texts else SQL("document, piece, hash, '', '', NULL, NULL, NULL, NULL")
        asked = SQL("SELECT {}, vector FROM {} WHERE {}").format(columns, self._name, clause)
        with (
            answers(),
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor("scan") as cursor,
        ):
            cursor.execute(asked, given)
            while some := cursor.fetchmany(rows):
                yield self._read(some)

    def codes(self, where: Filter | None, rows: int) -> Iterator[tuple[list[str], Vectors]]:
        clause, given = condition(where, self._fields)
        asked = SQL("SELECT id, vector FROM {} WHERE {}").format(self._name, clause)
        with (
            answers(),
            self._pool.connection() as connection,
            connection.transaction(),
            connection.cursor("codes") as cursor,
        ):
            cursor.execute(asked, given)
            while some := cursor.fetchmany(rows):
                yield [row[0] for row in some], vectors_of([row[1] for row in some], self._space)

    def tidy(self) -> None:
        """PostgreSQL cleans up by itself; what is left is an index of the vectors, once there are many."""
        space = self._space
        if space.dimensions > MAX_INDEXED[space.precision] or self.count() < INDEX_ROWS:
            return
        column, kind = searched(space)
        name = Identifier(f"near_{self._name.as_string().strip(chr(34)).rpartition('.')[2].strip(chr(34))}")
        asked = SQL("CREATE INDEX CONCURRENTLY IF NOT EXISTS {} ON {} USING hnsw ({} {})")
        with answers(), self._pool.connection() as connection:
            connection.autocommit = True
            try:
                connection.execute(asked.format(name, self._name, column, SQL(kind)))
            finally:
                connection.autocommit = False

    def _read(self, rows: Sequence[Sequence[Any]]) -> tuple[list[Piece], Vectors]:
        if not rows:
            return [], np.zeros((0, 0), np.float32)
        return [piece_of(row) for row in rows], vectors_of([row[9] for row in rows], self._space)

    def _all(self, query: Composed, given: Sequence[object], *, near: bool = False) -> list[tuple[Any, ...]]:
        with self._connection() as connection, connection.transaction():
            if near:
                # Of an index as many as asked for are wanted, and with a filter more than it would find at first.
                connection.execute("SET LOCAL hnsw.ef_search = 200")
                connection.execute("SET LOCAL hnsw.iterative_scan = relaxed_order")
            return list(connection.execute(query, given))

    @contextmanager
    def _connection(self) -> Iterator[Connection[tuple[Any, ...]]]:
        """That of the write that is going on in this thread, else one of the pool."""
        own = getattr(self._writing, "connection", None)
        if own is not None:
            yield own
            return
        with answers(), self._pool.connection() as connection:
            yield connection


@contextmanager
def answers() -> Iterator[None]:
    """PostgreSQL's errors as ours. Their text may name hosts and users, and is for the log."""
    try:
        yield
    except UndefinedTable as error:
        raise CollectionNotFound("The collection was dropped.", param="collection") from error
    except LockNotAvailable:
        raise CollectionBusy("Somebody else writes to the collection; try again when that has ended.") from None
    except DiskFull as error:
        raise StoreFull("There is no space left for the collection: make room on the database's disk.") from error
    except (psycopg.OperationalError, PoolTimeout) as error:
        raise StoreUnavailable("The database of collections does not answer; try again in a while.") from error
