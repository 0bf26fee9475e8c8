"""A store: where collections are made, opened, moved to another model and dropped.

with Store.open("/var/lib/speechlane/collections") as store:      # or postgresql://HOST/DATABASE
    notes = store.create("notes", space, {"year": "number"})
    notes.put(pieces, vectors, space)
    notes.search(vector=query, space=asked, words="pride", limit=5)
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from vision_text.embeddings.space import Space
from vision_text.store.backing import Catalogue
from vision_text.store.collection import Collection
from vision_text.store.rows import CollectionInfo, check_fields, check_name
from vision_text.store.scoring import Calibration
from workers.errors import InputInvalid

POSTGRES = ("postgresql://", "postgres://")


class Store:
    """Blocking and thread-safe. A collection belongs to an owner ("" on the own machine), who alone finds it."""

    def __init__(self, catalogue: Catalogue) -> None:
        self._catalogue = catalogue

    @classmethod
    def open(cls, place: str | os.PathLike[str]) -> Self:
        """`place` is a folder (LanceDB), or postgresql://USER@HOST/DATABASE (pgvector). Raises StoreUnavailable."""
        if str(place).startswith(POSTGRES):
            from vision_text.store.postgres.catalogue import PostgresCatalogue

            return cls(PostgresCatalogue(str(place)))
        # Imported late: it takes a second, and whoever has the other kind does not need it.
        from vision_text.store.lance.catalogue import LanceCatalogue

        return cls(LanceCatalogue(Path(place)))

    def create(
        self,
        name: str,
        space: Space,
        fields: Mapping[str, str] | None = None,
        *,
        owner: str = "",
        ranges: Calibration | None = None,
    ) -> Collection:
        """An empty collection for vectors of one space, with the fields that filters may name.

        `ranges` belong to int8. Raises CollectionExists, InputInvalid.
        """
        if (space.precision == "int8") != (ranges is not None):
            raise InputInvalid("int8 vectors come with the ranges that they were calibrated with, others do not.")
        if space.precision == "binary" and space.dimensions % 8:
            raise InputInvalid(f"Binary vectors have a multiple of 8 dimensions, not {space.dimensions}.")
        self._catalogue.create(check_name(name), owner, space, check_fields(fields or {}), ranges)
        return self.collection(name, owner=owner)

    def collection(self, name: str, *, owner: str = "") -> Collection:
        """Raises CollectionNotFound."""
        return Collection(*self._catalogue.rows(check_name(name), owner))

    def info(self, name: str, *, owner: str = "") -> CollectionInfo:
        """Raises CollectionNotFound."""
        return self._catalogue.info(check_name(name), owner)

    def list(self, owner: str | None = "") -> list[CollectionInfo]:
        """By name; None: everybody's."""
        return self._catalogue.list(owner)

    def drop(self, name: str, *, owner: str = "") -> None:
        """Raises CollectionNotFound."""
        self._catalogue.drop(check_name(name), owner)

    def begin_migration(
        self, name: str, space: Space, *, owner: str = "", ranges: Calibration | None = None
    ) -> Collection:
        """The next generation of a collection, in another space; what an earlier migration to it has made is in it.

        The collection itself stays as it is. Raises CollectionNotFound.
        """
        self._catalogue.begin(check_name(name), owner, space, ranges)
        return Collection(*self._catalogue.rows(name, owner, next=True))

    def finish_migration(self, name: str, *, owner: str = "") -> None:
        """From now on the next generation is the collection."""
        self._catalogue.switch(check_name(name), owner)

    def give_up_migration(self, name: str, *, owner: str = "") -> None:
        """Forget the next generation."""
        self._catalogue.give_up(check_name(name), owner)

    def tidy(self, name: str, *, owner: str = "") -> None:
        """Bring files and indexes of a collection in order: seconds to minutes, beside searches and writes."""
        self.collection(name, owner=owner).tidy()
        self._catalogue.sweep(name, owner)

    def close(self) -> None:
        self._catalogue.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()
