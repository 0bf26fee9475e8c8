"""What a store refuses, beside `SpaceMismatch` and `InputInvalid`."""

from __future__ import annotations

from workers.errors import InputInvalid, ServingError


class CollectionNotFound(InputInvalid):
    """There is no such collection, or it is somebody else's: the answer is the same."""

    code = "collection_not_found"
    status = 404


class CollectionExists(InputInvalid):
    """There is one of this name already."""

    code = "collection_exists"
    status = 409


class CollectionBusy(ServingError):
    """Another process writes to the collection, for longer than one waits."""

    code = "collection_busy"
    status = 423


class CollectionMoved(ServingError):
    """It was moved to another model, or dropped, while somebody was writing to it."""

    code = "collection_moved"
    status = 409

    def __init__(self) -> None:
        super().__init__(
            "The collection has moved to another model meanwhile; do the same again to write to the new one."
        )


class StoreUnavailable(ServingError):
    """What keeps the collections cannot be reached; the message says what to do."""

    code = "store_unavailable"
    status = 503


class StoreFull(ServingError):
    """There is no room on the disk of the collections; nothing of the batch was kept."""

    code = "storage_full"
    status = 507
