"""Pieces and vectors as PostgreSQL has them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from pgvector import Bit, HalfVector
from psycopg.sql import SQL, Composable

from vision_text.embeddings.space import Space
from vision_text.store.backing import Block
from vision_text.store.rows import Piece
from vision_text.store.scoring import Vectors

PIECE = SQL('document, piece, hash, text, source, "start", "end", fields, extra')
COLUMNS = SQL('id, document, piece, hash, text, source, "start", "end", fields, extra, vector, bits')


def vector_type(space: Space) -> tuple[str, str]:
    """The types of the columns `vector` and `bits`, of which the second is that of an unused column but for int8."""
    return {
        "float32": (f"vector({space.dimensions})", "boolean"),
        "float16": (f"halfvec({space.dimensions})", "boolean"),
        "int8": ("bytea", f"bit({space.dimensions})"),
        "binary": (f"bit({space.dimensions})", "boolean"),
    }[space.precision]


def copied_types(space: Space) -> list[str]:
    """Of a row as `copied` gives it."""
    vector = {"float32": "vector", "float16": "halfvec", "int8": "bytea", "binary": "bit"}[space.precision]
    bits = "bit" if space.precision == "int8" else "bool"
    plain = ["text", "text", "int4", "text", "text", "text", "float8", "float8", "jsonb", "jsonb"]
    return [*plain, vector, bits]


def copied(block: Block, space: Space) -> Iterator[list[Any]]:
    """Rows to write."""
    for n, piece in enumerate(block.pieces):
        yield [
            piece.id,
            piece.document,
            piece.piece,
            piece.hash,
            piece.text,
            piece.source,
            piece.start,
            piece.end,
            dict(piece.fields),
            dict(piece.extra),
            stored(block.vectors[n], space),
            bit_string(block.bits[n], space) if block.bits is not None else None,
        ]


def stored(vector: Vectors, space: Space) -> Any:
    """A vector as its column takes it."""
    match space.precision:
        case "float16":
            return HalfVector(vector)
        case "int8":
            return vector.tobytes()
        case "binary":
            return bit_string(vector, space)
        case _:
            return vector


def bit_string(packed: Vectors, space: Space) -> Bit:
    return Bit(np.unpackbits(packed)[: space.dimensions].astype(bool))


def vectors_of(values: Sequence[Any], space: Space) -> Vectors:
    """What `stored` made, as it was given."""
    match space.precision:
        case "int8":
            rows: list[Vectors] = [np.frombuffer(value, np.int8) for value in values]
        case "binary":
            rows = [np.packbits(np.frombuffer(value.encode(), np.uint8) == ord("1")) for value in values]
        case "float16":
            rows = [np.asarray(value.to_numpy(), np.float16) for value in values]
        case _:
            rows = [np.asarray(value.to_numpy(), np.float32) for value in values]
    return np.stack(rows)


def piece_of(row: Sequence[Any]) -> Piece:
    """A piece of the columns PIECE."""
    return Piece(*row[:9])


def searched(space: Space) -> tuple[Composable, str]:
    """The column with an index, and the kind of the index."""
    return {
        "float32": (SQL("vector"), "vector_cosine_ops"),
        "float16": (SQL("vector"), "halfvec_cosine_ops"),
        "int8": (SQL("bits"), "bit_hamming_ops"),
        "binary": (SQL("vector"), "bit_hamming_ops"),
    }[space.precision]
