"""A collection holds each document once, in one space, and finds it by vector, by words and by filter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from vision_text.embeddings.space import Precision, Space, SpaceMismatch
from vision_text.store.errors import CollectionExists, CollectionNotFound
from vision_text.store.filters import Compare, parse_filter, parse_where
from vision_text.store.rows import Piece, Written
from vision_text.store.scoring import Calibration, signs, similarities
from vision_text.store.store import Store
from workers.errors import InputInvalid

DIMENSIONS = 64
SPACE = Space("one", "r1", "mean", "", True, DIMENSIONS, "float32")
HOSTILE = ("x' OR '1'='1", "\\' OR 1=1 --", 'a"b`c', "'; DROP TABLE rows; --", "\\", "%s", "é😀")


def vectors(rows: int, seed: int = 0) -> NDArray[np.float32]:
    """Unit vectors around a few centres, as embeddings lie."""
    random = np.random.default_rng(seed)
    centres = random.normal(size=(8, DIMENSIONS))
    found = centres[random.integers(0, 8, rows)] + 0.6 * random.normal(size=(rows, DIMENSIONS))
    return (found / np.linalg.norm(found, axis=1, keepdims=True)).astype(np.float32)


def pieces(ids: Sequence[str], hash: str = "h1", **more: object) -> list[Piece]:
    return [Piece(id, 0, hash, f"text of {id}", **more) for id in ids]  # type: ignore[arg-type]


def stored_as(
    floats: NDArray[np.float32], precision: Precision
) -> tuple[NDArray[np.generic], Space, Calibration | None]:
    space = replace(SPACE, precision=precision, ranges="r" if precision == "int8" else "")
    if precision == "binary":
        return signs(floats), space, None
    if precision == "int8":
        low, high = floats.min(0), floats.max(0)
        codes = np.clip(np.round((floats - low) / (high - low) * 255 - 128), -128, 127).astype(np.int8)
        return codes, space, Calibration(tuple(map(float, low)), tuple(map(float, high)))
    return floats.astype(precision), space, None


def test_documents_are_stored_once_found_and_removed(store: Store, name: str) -> None:
    notes = store.create(name, SPACE, {"year": "number"})
    found = vectors(300)
    ids = [f"d{n}" for n in range(300)]
    first = [replace(piece, fields={"year": float(n)}) for n, piece in enumerate(pieces(ids))]
    assert notes.put(first, found, SPACE) == Written(added=300)
    # The same again changes nothing, a part of it changed replaces that part.
    assert notes.put(first, found, SPACE) == Written(unchanged=300)
    changed = [replace(first[7], hash="h2", text="now of zebras"), *first[8:20]]
    assert notes.put(changed, found[7:20], SPACE) == Written(replaced=1, unchanged=12)
    assert (notes.count(), notes.documents()) == (300, 300)
    assert notes.known(["d7", "d8", "nobody"]) == {"d7": "h2", "d8": "h1"}

    hits = notes.search(vector=found[42], space=SPACE, limit=3)
    assert hits[0].piece.id == "d42#0" and hits[0].score == pytest.approx(1.0, abs=1e-3)
    exact = [f"d{n}#0" for n in np.argsort(-similarities(found[42], found))[:3]]
    assert [hit.piece.id for hit in hits] == exact
    assert [hit.piece.document for hit in notes.search(words="zebras", limit=3)] == ["d7"]
    assert notes.search(vector=found[42], space=SPACE, where=Compare("year", "gte", 299.0))[0].piece.document == "d299"
    assert store.collection(name).search(words="zebras")[0].piece.fields == {"year": 7.0}

    assert notes.delete(documents=["d1", "d2", "nobody"]) == 2
    assert notes.delete(where=Compare("year", "lt", 10.0)) == 8
    with pytest.raises(InputInvalid):
        notes.delete()
    assert notes.count() == 290
    scanned = {piece.document for some, _ in notes.rows(size=64) for piece in some}
    assert scanned == set(ids[10:])


def test_a_document_that_becomes_shorter_leaves_no_piece_behind(store: Store, name: str) -> None:
    notes, found = store.create(name, SPACE), vectors(6)
    long = [Piece("book", n, "long", f"page {n}") for n in range(5)]
    assert notes.put([*long, Piece("other", 0, "o", "other")], found, SPACE) == Written(added=2)
    short = [Piece("book", n, "short", f"leaf {n}") for n in range(2)]
    assert notes.put(short, found[:2], SPACE) == Written(replaced=1)
    assert sorted(piece.text for some, _ in notes.rows() for piece in some) == ["leaf 0", "leaf 1", "other"]
    assert (notes.count(), notes.documents()) == (3, 2)


@pytest.mark.parametrize("precision", ["float32", "float16", "int8", "binary"])
def test_vectors_of_another_space_are_refused_at_every_door(store: Store, name: str, precision: Precision) -> None:
    found = vectors(20)
    kept, space, ranges = stored_as(found, precision)
    notes = store.create(name, space, ranges=ranges)
    notes.put(pieces([f"d{n}" for n in range(20)]), kept, space)
    other = replace(space, model="two")  # as long, and of another world
    with pytest.raises(SpaceMismatch, match='odel is "two"'):
        notes.put(pieces(["x"]), kept[:1], other)
    with pytest.raises(SpaceMismatch, match="cannot be compared"):
        notes.search(vector=found[0], space=replace(SPACE, model="two"))
    with pytest.raises(SpaceMismatch, match="evision is"):
        notes.search(vector=found[0], space=replace(SPACE, revision="r2"), words="text")
    with pytest.raises(InputInvalid):
        notes.search(vector=found[0])  # of a space that nobody names
    with pytest.raises(InputInvalid):
        notes.put(pieces(["x"]), kept[:1, :-1], space)
    assert notes.count() == 20
    # The same at float32 is of the same space.
    assert notes.search(vector=found[3], space=SPACE, limit=1)[0].piece.document == "d3"


@pytest.mark.parametrize("precision", ["float16", "int8", "binary"])
def test_quantised_vectors_find_nearly_what_exact_ones_find(store: Store, name: str, precision: Precision) -> None:
    found = vectors(800)
    queries = found[:20] + 0.1 * np.random.default_rng(1).normal(size=(20, DIMENSIONS)).astype(np.float32)
    kept, space, ranges = stored_as(found, precision)
    notes = store.create(name, space, ranges=ranges)
    notes.put(pieces([str(n) for n in range(800)]), kept, space)
    hit = 0
    for query in queries:
        exact = {str(n) for n in np.argsort(-similarities(query, found))[:10]}
        hit += len(exact & {one.piece.document for one in notes.search(vector=query, space=SPACE, limit=10)})
    assert hit / 200 >= {"float16": 0.98, "int8": 0.9, "binary": 0.25}[precision]


def test_hybrid_search_finds_what_either_part_finds(store: Store, name: str) -> None:
    found = vectors(50)
    notes = store.create(name, SPACE)
    notes.put([*pieces([f"d{n}" for n in range(49)]), Piece("rare", 0, "h", "an okapi in the garden")], found, SPACE)
    hits = notes.search(vector=found[0], space=SPACE, words="okapi", limit=5)
    assert {"d0", "rare"} <= {hit.piece.document for hit in hits[:2]}
    by_words = next(hit for hit in hits if hit.piece.document == "rare")
    assert by_words.words is not None and hits[0].score >= hits[-1].score


def test_vectors_that_are_of_no_use_are_named(store: Store, name: str) -> None:
    notes, found = store.create(name, SPACE), vectors(3)
    found[1] = 0
    with pytest.raises(InputInvalid, match="Vector 1 is zero"):
        notes.put(pieces(["a", "b", "c"]), found, SPACE)
    found[1] = np.nan
    with pytest.raises(InputInvalid, match="Vector 1"):
        notes.put(pieces(["a", "b", "c"]), found, SPACE)
    with pytest.raises(InputInvalid, match="twice"):
        notes.put(pieces(["a", "a"]), vectors(2), SPACE)
    assert notes.count() == 0


def test_collections_belong_to_owners(store: Store, name: str) -> None:
    store.create(name, SPACE, owner="key-1")
    store.create(name, SPACE, {"year": "number"}, owner="key-2")
    with pytest.raises(CollectionExists):
        store.create(name, SPACE, owner="key-1")
    with pytest.raises(CollectionNotFound):
        store.collection(name)
    assert [info.owner for info in store.list("key-1")] == ["key-1"]
    assert {info.owner for info in store.list(None)} == {"key-1", "key-2"}
    opened = store.collection(name, owner="key-1")
    store.drop(name, owner="key-1")
    with pytest.raises(CollectionNotFound):
        opened.count()
    assert store.info(name, owner="key-2").fields == {"year": "number"}


def test_hostile_values_are_values(store: Store, name: str) -> None:
    notes = store.create(name, SPACE, {"author": "text"})
    ids = [*HOSTILE, "plain"]
    notes.put(
        [Piece(id, 0, "h", f"words {id}", source=id, fields={"author": id}) for id in ids], vectors(len(ids)), SPACE
    )
    fields = notes.info.filterable
    for id in HOSTILE:
        where = parse_filter({"author": id}, fields)
        assert [piece.document for some, _ in notes.rows(where) for piece in some] == [id]
        assert notes.count(parse_filter({"source": {"in": [id, "nobody"]}}, fields)) == 1
        assert notes.count(parse_filter({"not": {"author": id}}, fields)) == len(HOSTILE)
        notes.search(words=id)
        notes.search(vector=vectors(1)[0], space=SPACE, where=where, words=f'{id} "AND (')
        assert notes.known([id]) == {id: "h"}
    assert notes.delete(documents=[HOSTILE[0]]) == 1
    assert notes.delete(source=HOSTILE[1]) == 1
    assert notes.put([Piece(HOSTILE[2], 0, "new", "other")], vectors(1), SPACE) == Written(replaced=1)
    assert notes.count() == len(ids) - 2


def test_filters_mean_what_they_say(store: Store, name: str) -> None:
    notes = store.create(name, SPACE, {"year": "number", "kind": "text", "read": "boolean"})
    rows = [
        Piece("a", 0, "h", "a", fields={"year": 1811.0, "kind": "novel", "read": True}),
        Piece("b", 0, "h", "b", fields={"year": 1813.0, "kind": "novel", "read": False}, start=1.5, end=2.5),
        Piece("c", 0, "h", "c", fields={"year": 1859.0}),
        Piece("d", 0, "h", "d", fields={"kind": "letter"}),
    ]
    notes.put(rows, vectors(4), SPACE)

    def found(given: object) -> str:
        where = parse_filter(given, notes.info.filterable)
        return "".join(sorted(piece.document for some, _ in notes.rows(where) for piece in some))

    assert found({"year": {"gte": 1811, "lt": 1859}}) == "ab"
    assert found({"kind": "novel", "read": True}) == "a"
    assert found({"or": [{"kind": "letter"}, {"year": {"gt": 1850}}]}) == "cd"
    assert found({"kind": {"exists": False}}) == "c"
    assert found({"start": {"exists": True}}) == found({"start": {"gte": 1.0}}) == "b"
    assert found({"kind": {"ne": "novel"}}) == "d"  # what has none is neither
    assert found({"document": {"in": ["a", "d"]}}) == "ad"
    assert found({"and": [{"not": {"kind": "novel"}}, {"document": {"ne": "x"}}]}) == "d"
    typed = parse_where(["year >= 1811", "kind = novel", 'read="false"'], notes.info.filterable)
    assert notes.count(typed) == 1


@pytest.mark.parametrize(
    "given",
    [
        {"nobody": 1},
        {"year": "1811"},
        {"year": {"like": 1}},
        {"year": {"in": []}},
        {"year": float("nan")},
        {"read": {"gt": True}},
        {"kind": "a\0b"},
        {"kind": "\ud800"},
        {"or": []},
        {"and": {}},
        "year = 1",
        ["x"],
        {"year) OR (1=1": 1},
        {"or": [{"year": n} for n in range(100)]},
        {"kind": {"in": ["x"] * 1001}},
    ],
)
def test_filters_of_no_use_are_refused(given: object) -> None:
    with pytest.raises(InputInvalid) as refused:
        parse_filter(given, {"year": "number", "kind": "text", "read": "boolean"})
    assert refused.value.param == "filter"


def test_a_filter_is_not_deeper_than_anybody_needs() -> None:
    given: object = {"year": 1}
    for _ in range(10_000):
        given = {"not": given}
    with pytest.raises(InputInvalid, match="deep"):
        parse_filter(given, {"year": "number"})


def test_a_collection_moves_to_another_space_at_once(store: Store, name: str) -> None:
    found, other = vectors(30), replace(SPACE, model="two")
    notes = store.create(name, SPACE)
    notes.put(pieces([f"d{n}" for n in range(30)]), found, SPACE)
    moving = store.begin_migration(name, other)
    moving.copy(pieces([f"d{n}" for n in range(10)]), found[:10], other)
    # An interrupted one goes on, and meanwhile nobody sees it.
    again = store.begin_migration(name, other)
    again.copy(pieces([f"d{n}" for n in range(30)]), found, other)
    assert again.count() == 30
    assert store.info(name).moving_to == other
    assert store.collection(name).search(vector=found[3], space=SPACE, limit=1)[0].piece.document == "d3"
    before = store.collection(name)
    store.finish_migration(name)
    after = store.collection(name)
    assert (after.space, store.info(name).moving_to, after.count()) == (other, None, 30)
    with pytest.raises(SpaceMismatch):
        after.search(vector=found[3], space=SPACE)
    assert after.search(vector=found[3], space=other, limit=1)[0].piece.document == "d3"
    assert before.space == SPACE  # who had it open sees what it was, or that it is gone
    store.begin_migration(name, SPACE)
    store.give_up_migration(name)
    assert store.info(name).moving_to is None
