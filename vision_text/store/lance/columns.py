"""Pieces as Arrow columns and back."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from vision_text.embeddings.space import Space
from vision_text.store.backing import Block
from vision_text.store.rows import FieldKind, Piece
from vision_text.store.scoring import Vectors, width

SPACE = b"speechlane.space"
"""Key of the table's own metadata that holds the fingerprint of its space."""
_NUMBERS = {"float32": pa.float32(), "float16": pa.float16(), "int8": pa.int8(), "binary": pa.uint8()}
_KINDS = {"text": pa.string(), "number": pa.float64(), "boolean": pa.bool_()}
_PLAIN = ("document", "piece", "hash", "text", "source", "start", "end", "extra")


def column(field: str) -> str:
    """The column of a declared field; what every piece has is called as it is."""
    return f"f_{field}"


def vector_column(space: Space) -> str:
    """The column that is searched: bits of binary vectors are the vectors."""
    return "vector" if space.precision != "int8" else "bits"


def schema(space: Space, fields: Mapping[str, FieldKind]) -> pa.Schema:
    """`has` names the fields that a piece has, since no expression of LanceDB asks for what is null."""
    columns = [
        pa.field("id", pa.string(), nullable=False),
        pa.field("document", pa.string(), nullable=False),
        pa.field("piece", pa.int32(), nullable=False),
        pa.field("hash", pa.string(), nullable=False),
        pa.field("source", pa.string(), nullable=False),
        pa.field("text", pa.string(), nullable=False),
        pa.field("start", pa.float64()),
        pa.field("end", pa.float64()),
        pa.field("has", pa.string(), nullable=False),
        pa.field("extra", pa.string(), nullable=False),
        *(pa.field(column(name), _KINDS[kind]) for name, kind in fields.items()),
        pa.field("vector", pa.list_(_NUMBERS[space.precision], width(space)), nullable=False),
    ]
    if space.precision == "int8":
        columns.append(pa.field("bits", pa.list_(pa.uint8(), (space.dimensions + 7) // 8), nullable=False))
    return pa.schema(columns, metadata={SPACE: space.fingerprint.encode()})


def readable(fields: Mapping[str, FieldKind]) -> list[str]:
    """The columns that a piece is made of."""
    return [*_PLAIN, *(column(name) for name in fields)]


def table(block: Block, shape: pa.Schema, fields: Mapping[str, FieldKind]) -> pa.Table:
    """Rows to write."""
    pieces = block.pieces
    arrays: dict[str, Any] = {
        "id": [piece.id for piece in pieces],
        "document": [piece.document for piece in pieces],
        "piece": [piece.piece for piece in pieces],
        "hash": [piece.hash for piece in pieces],
        "source": [piece.source for piece in pieces],
        "text": [piece.text for piece in pieces],
        "start": [piece.start for piece in pieces],
        "end": [piece.end for piece in pieces],
        "has": [_has(piece) for piece in pieces],
        "extra": [json.dumps(dict(piece.extra), ensure_ascii=False) if piece.extra else "" for piece in pieces],
        "vector": _lists(block.vectors, shape.field("vector").type),
    }
    for name in fields:
        arrays[column(name)] = [piece.fields.get(name) for piece in pieces]
    if block.bits is not None:
        arrays["bits"] = _lists(block.bits, shape.field("bits").type)
    return pa.table({name: arrays[name] for name in shape.names}, schema=shape)


def pieces_of(rows: pa.RecordBatch | pa.Table, fields: Mapping[str, FieldKind]) -> list[Piece]:
    """The pieces of rows that have the `readable` columns."""
    return [_piece(row, fields) for row in rows.select(readable(fields)).to_pylist()]


def vectors_of(rows: pa.RecordBatch | pa.Table) -> Vectors:
    """The stored vectors of rows."""
    found = rows.column("vector")
    if isinstance(found, pa.ChunkedArray):
        found = found.combine_chunks()
    flat: Vectors = found.flatten().to_numpy(zero_copy_only=False)
    return flat.reshape(len(found), -1) if len(found) else flat.reshape(0, found.type.list_size)


def _has(piece: Piece) -> str:
    names = [name for name, value in (("start", piece.start), ("end", piece.end)) if value is not None]
    return f",{','.join([*names, *piece.fields])},"


def _lists(values: np.ndarray[Any, Any], kind: Any) -> pa.Array:
    return pa.FixedSizeListArray.from_arrays(pa.array(values.reshape(-1)), type=kind)


def _piece(row: dict[str, Any], fields: Mapping[str, FieldKind]) -> Piece:
    return Piece(
        row["document"],
        row["piece"],
        row["hash"],
        row["text"],
        row["source"],
        row["start"],
        row["end"],
        {name: value for name in fields if (value := row[column(name)]) is not None},
        json.loads(row["extra"]) if row["extra"] else {},
    )


def bare_pieces(rows: pa.RecordBatch) -> list[Piece]:
    """Pieces with their ids and hashes only."""
    columns: Sequence[list[Any]] = [rows.column(name).to_pylist() for name in ("document", "piece", "hash")]
    return [Piece(document, piece, hash, "") for document, piece, hash in zip(*columns, strict=True)]
