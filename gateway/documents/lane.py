"""The reader of documents of a service: loaded when the first document comes, for most services never see one."""

from __future__ import annotations

import asyncio
import importlib
from importlib.util import find_spec
from typing import TYPE_CHECKING

from gateway.settings import Settings
from workers.errors import ServingError

if TYPE_CHECKING:
    from vision_text.documents.chain import Documents

REMEDY = "pip install 'speechlane[documents]'"
_NEEDED = ("rapidocr", "pypdfium2", "PIL")


class NotServed(ServingError):
    """This service reads no documents: what it takes was not installed, or is not wanted."""

    code = "documents_unavailable"
    status = 501


class DocumentLane:
    """Holds the one reader of the process."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loading = asyncio.Lock()
        self._documents: Documents | None = None

    @property
    def loaded(self) -> Documents | None:
        """The reader, or None while nobody has asked for it."""
        return self._documents

    async def reader(self) -> Documents:
        """The reader; the first call takes seconds. Raises `NotServed`."""
        settings = self._settings
        if not settings.documents:
            raise NotServed("This service was started without documents (SPEECHLANE_DOCUMENTS is 0).")
        if not all(find_spec(name) for name in _NEEDED):
            raise NotServed(f"Documents cannot be read here. Whoever runs this service adds that with: {REMEDY}")
        async with self._loading:
            if self._documents is None:
                module = await asyncio.to_thread(importlib.import_module, "vision_text.documents.chain")
                self._documents = await module.Documents.start(
                    module.DocumentSettings(
                        replicas=settings.document_replicas,
                        documents=settings.documents,
                        file_bytes=settings.max_upload_bytes,
                    )
                )
        assert self._documents is not None
        return self._documents

    async def close(self) -> None:
        """Free the models."""
        if self._documents is not None:
            await self._documents.close()
