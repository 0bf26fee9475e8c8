"""What is kept of one session: fields of a hash in Redis, changed here first and there a moment later."""

from __future__ import annotations

from collections.abc import Iterator

OVERHEAD = 64
"""Bytes that a field takes beside its name and value, about."""


class Image:
    """The fields as they should be, and which of them are not so in Redis yet."""

    def __init__(self, fields: dict[str, bytes] | None = None) -> None:
        """`fields` are there already."""
        self.size = 0
        self._fields: dict[str, bytes] = {}
        self._put: set[str] = set()
        self._dropped: set[str] = set()
        for name, data in (fields or {}).items():
            self._set(name, data)

    def get(self, name: str) -> bytes | None:
        """The value of a field."""
        return self._fields.get(name)

    def names(self) -> Iterator[str]:
        """Of all fields."""
        return iter(list(self._fields))

    def put(self, name: str, data: bytes) -> None:
        """Set a field; what it is already costs nothing."""
        if self._fields.get(name) != data:
            self._set(name, data)
            self._put.add(name)
            self._dropped.discard(name)

    def drop(self, name: str) -> None:
        """Remove a field, if there is one."""
        data = self._fields.pop(name, None)
        if data is not None:
            self.size -= len(name) + len(data) + OVERHEAD
            self._put.discard(name)
            self._dropped.add(name)

    def changes(self, *, whole: bool = False) -> tuple[list[tuple[str, bytes]], list[str]]:
        """(fields to set, fields to remove) since this was last asked; `whole`: everything."""
        put = [(name, self._fields[name]) for name in (self._fields if whole else self._put)]
        dropped = [] if whole else list(self._dropped)
        self._put.clear()
        self._dropped.clear()
        return put, dropped

    def _set(self, name: str, data: bytes) -> None:
        before = self._fields.get(name)
        self.size += len(data) - len(before) if before is not None else len(name) + len(data) + OVERHEAD
        self._fields[name] = data
