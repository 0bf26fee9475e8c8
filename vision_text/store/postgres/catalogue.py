"""All collections of a database, in a schema of their own. Needs PostgreSQL 13 and pgvector 0.8 or later."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from typing import Any

import psycopg
from pgvector.psycopg import register_vector
from psycopg import Connection
from psycopg.errors import UniqueViolation
from psycopg.sql import SQL, Composable, Identifier
from psycopg_pool import ConnectionPool, PoolTimeout

from vision_text.embeddings.space import Space
from vision_text.store.errors import CollectionExists, CollectionNotFound, StoreUnavailable
from vision_text.store.postgres.rows import PostgresRows, answers
from vision_text.store.rows import CollectionInfo, FieldKind
from vision_text.store.scoring import Calibration

CONNECTIONS = 8
CONNECT_SECONDS = 10.0
OLDEST = (0, 8)
"""Of pgvector: with it came filters that find all they should."""
_MAKE = """
    CREATE SCHEMA IF NOT EXISTS speechlane;
    CREATE TABLE IF NOT EXISTS speechlane.collections (
        id bigserial PRIMARY KEY, owner text NOT NULL, name text NOT NULL, created float8 NOT NULL,
        fields jsonb NOT NULL, generation int NOT NULL, last int NOT NULL, space jsonb NOT NULL, ranges jsonb,
        next_generation int, next_space jsonb, next_ranges jsonb, UNIQUE (owner, name))
"""
_ROW = "id, name, owner, created, fields, generation, last, space, ranges, next_generation, next_space, next_ranges"


class PostgresCatalogue:
    """Raises StoreUnavailable when the database cannot be used."""

    def __init__(self, url: str) -> None:
        self._pool: ConnectionPool[Connection[tuple[Any, ...]]] = ConnectionPool(
            url, min_size=1, max_size=CONNECTIONS, timeout=CONNECT_SECONDS, configure=_configure, open=False
        )
        try:
            # At first without the pool, which would try again in silence.
            with psycopg.connect(url, connect_timeout=int(CONNECT_SECONDS)) as connection:
                self._make(connection)
            self._pool.open(wait=True, timeout=CONNECT_SECONDS)
        except (psycopg.Error, PoolTimeout) as error:
            self._pool.close()
            raise StoreUnavailable(f"The database of collections cannot be used: {_line(error)}") from error

    def create(
        self, name: str, owner: str, space: Space, fields: Mapping[str, FieldKind], ranges: Calibration | None
    ) -> CollectionInfo:
        try:
            with self._changing() as connection:
                found = connection.execute(
                    "INSERT INTO speechlane.collections (owner, name, created, fields, generation, last, space, ranges)"
                    " VALUES (%s, %s, %s, %s, 1, 1, %s, %s) RETURNING id",
                    [owner, name, time.time(), json.dumps(dict(fields)), *_described(space, ranges)],
                ).fetchone()
                assert found is not None
                PostgresRows.create(connection, _table(found[0], 1), space)
        except UniqueViolation:
            raise CollectionExists(f"There is a collection {name!r} already.", param="collection") from None
        return self.info(name, owner)

    def info(self, name: str, owner: str) -> CollectionInfo:
        with self._changing() as connection:
            return _info(_find(connection, name, owner))

    def list(self, owner: str | None) -> list[CollectionInfo]:
        with self._changing() as connection:
            rows = connection.execute(f"SELECT {_ROW} FROM speechlane.collections ORDER BY name, owner").fetchall()  # noqa: S608
        found = [_info(row) for row in rows]
        return [one for one in found if owner is None or one.owner == owner]

    def rows(
        self, name: str, owner: str, *, next: bool = False
    ) -> tuple[CollectionInfo, PostgresRows, Calibration | None]:
        with self._changing() as connection:
            row = list(_find(connection, name, owner))
        if next:
            if row[9] is None:
                raise _not_moving(name)
            row[5], row[7], row[8] = row[9:12]
            row[9:12] = [None, None, None]
        info = _info(row)
        ranges = Calibration(tuple(row[8]["low"]), tuple(row[8]["high"])) if row[8] is not None else None
        return info, self._open(row[0], info), ranges

    def drop(self, name: str, owner: str) -> None:
        with self._changing() as connection:
            row = _find(connection, name, owner, lock=True)
            connection.execute("DELETE FROM speechlane.collections WHERE id = %s", [row[0]])
            for generation in range(1, row[6] + 1):
                _remove(connection, row[0], generation)

    def begin(self, name: str, owner: str, space: Space, ranges: Calibration | None) -> None:
        with self._changing() as connection:
            row = _find(connection, name, owner, lock=True)
            if row[9] is not None:
                if row[10] == space.to_dict():
                    return
                _remove(connection, row[0], row[9])
            generation = row[6] + 1
            PostgresRows.create(connection, _table(row[0], generation), space)
            connection.execute(
                "UPDATE speechlane.collections SET last = %s, next_generation = %s, next_space = %s, next_ranges = %s"
                " WHERE id = %s",
                [generation, generation, *_described(space, ranges), row[0]],
            )

    def switch(self, name: str, owner: str) -> None:
        with self._changing() as connection:
            row = _find(connection, name, owner, lock=True)
            if row[9] is None:
                raise _not_moving(name)
            connection.execute(
                "UPDATE speechlane.collections SET generation = next_generation, space = next_space, "
                "ranges = next_ranges, next_generation = NULL, next_space = NULL, next_ranges = NULL WHERE id = %s",
                [row[0]],
            )

    def give_up(self, name: str, owner: str) -> None:
        with self._changing() as connection:
            row = _find(connection, name, owner, lock=True)
            if row[9] is not None:
                _remove(connection, row[0], row[9])
            connection.execute(
                "UPDATE speechlane.collections SET next_generation = NULL, next_space = NULL, next_ranges = NULL"
                " WHERE id = %s",
                [row[0]],
            )

    def sweep(self, name: str, owner: str) -> None:
        with self._changing() as connection:
            row = _find(connection, name, owner, lock=True)
            connection.execute(SQL("SET LOCAL lock_timeout = 1000"))  # searches may still read it
            for generation in range(1, row[5]):
                _remove(connection, row[0], generation)

    def close(self) -> None:
        self._pool.close()

    def _open(self, id: int, info: CollectionInfo) -> PostgresRows:
        def current(connection: Connection[Any]) -> bool:
            query = "SELECT generation, next_generation FROM speechlane.collections WHERE id = %s"
            found = connection.execute(query, [id]).fetchone()
            return found is not None and info.generation in found

        return PostgresRows(self._pool, _table(id, info.generation), info.space, info.fields, current)

    def _make(self, connection: Connection[Any]) -> None:
        connection.execute("SELECT pg_advisory_xact_lock(hashtext('speechlane'))")  # several may begin at once
        connection.execute("CREATE EXTENSION IF NOT EXISTS vector")
        found = connection.execute("SELECT extversion FROM pg_extension WHERE extname = 'vector'").fetchone()
        assert found is not None
        if tuple(int(part) for part in found[0].split(".")[:2]) < OLDEST:
            raise StoreUnavailable(f"The database has pgvector {found[0]}: 0.8 is the oldest to do.")
        connection.execute(_MAKE)

    @contextmanager
    def _changing(self) -> Iterator[Connection[tuple[Any, ...]]]:
        with answers(), self._pool.connection() as connection:
            yield connection


def _configure(connection: Connection[Any]) -> None:
    register_vector(connection)
    connection.commit()


def _table(id: int, generation: int) -> Composable:
    return Identifier("speechlane", f"rows_{int(id)}_{int(generation)}")


def _remove(connection: Connection[Any], id: int, generation: int) -> None:
    connection.execute(SQL("DROP TABLE IF EXISTS {}").format(_table(id, generation)))


def _find(connection: Connection[Any], name: str, owner: str, *, lock: bool = False) -> tuple[Any, ...]:
    query = f"SELECT {_ROW} FROM speechlane.collections WHERE owner = %s AND name = %s"  # noqa: S608
    row = connection.execute(query + (" FOR UPDATE" if lock else ""), [owner, name]).fetchone()
    if row is None:
        raise CollectionNotFound(
            f"There is no collection {name!r}; see which there are with speechlane collections list.",
            param="collection",
        )
    found: tuple[Any, ...] = row
    return found


def _described(space: Space, ranges: Calibration | None) -> list[str | None]:
    return [json.dumps(space.to_dict()), json.dumps(asdict(ranges)) if ranges is not None else None]


def _info(row: Any) -> CollectionInfo:
    _, name, owner, created, fields, generation, _, space, _, _, moving, _ = row
    moving_to = Space.from_dict(moving) if moving is not None else None
    return CollectionInfo(name, owner, Space.from_dict(space), fields, created, generation, moving_to)


def _not_moving(name: str) -> CollectionNotFound:
    return CollectionNotFound(f"The collection {name!r} is not being migrated.", param="collection")


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:300]
