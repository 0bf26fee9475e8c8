"""POST /v1/documents and /v1/documents/ask."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

from aiohttp import web

from gateway.documents.answering import answer
from gateway.documents.request import DocumentRequest
from gateway.documents.views import page_view, source_view, unread_view
from gateway.http_errors import error_fields
from gateway.state import SERVICE
from gateway.transcriptions import cancelled_when_gone
from gateway.uploads import Form, read_form
from workers.errors import Draining, Overloaded, ServingError

if TYPE_CHECKING:
    from vision_text.documents.chain import Documents, Unread
    from vision_text.documents.page import Page


async def read_handler(request: web.Request) -> web.StreamResponse:
    """The pages of a PDF or a picture with their text and where it is; with `stream`, each as soon as it is read."""
    service = request.app[SERVICE]
    try:
        with service.receiving():
            documents = await service.documents.reader()
            async with (
                cancelled_when_gone(request),
                read_form(request, max_file_bytes=service.settings.max_upload_bytes) as form,
            ):
                asked = DocumentRequest.parse(form.fields, asking=False)
                async with aclosing(_read(documents, await _bytes(form), asked)) as pages:
                    if asked.stream:
                        return await _stream(request, pages, asked)
                    read, unread = await _collected(pages)
            views = await asyncio.to_thread(lambda: [page_view(page, lines=asked.lines) for page in read])
            body = {"object": "document", "pages": views, "unread": [unread_view(page) for page in unread]}
            return web.json_response(text=await asyncio.to_thread(json.dumps, body))
    except (Overloaded, Draining) as error:
        service.metrics.refused("document", error.code)
        raise


async def ask_handler(request: web.Request) -> web.StreamResponse:
    """An answer with the pages and regions that it comes from."""
    service = request.app[SERVICE]
    try:
        with service.receiving():
            embedder = service.embeddings.embedder
            documents = await service.documents.reader()
            async with (
                cancelled_when_gone(request),
                read_form(request, max_file_bytes=service.settings.max_upload_bytes) as form,
            ):
                asked = DocumentRequest.parse(form.fields, asking=True)
                assert asked.question is not None
                from vision_text.documents.passages import nearest, passages_of

                async with aclosing(_read(documents, await _bytes(form), asked)) as pages:
                    read, unread = await _collected(pages)
                passages = await asyncio.to_thread(passages_of, read)
                found = await nearest(asked.question, passages, embedder, asked.sources)
                made = await answer(asked.question, found, service.assistant)
            return web.json_response(
                {
                    "object": "document.answer",
                    "answer": made.text,
                    "model": made.model,
                    "sources": [source_view(found[n - 1], n) for n in made.sources],
                    "unread": [unread_view(page) for page in unread],
                }
            )
    except (Overloaded, Draining) as error:
        service.metrics.refused("document", error.code)
        raise


async def _bytes(form: Form) -> bytes:
    return await asyncio.to_thread(form.file.read)


def _read(documents: Documents, data: bytes, asked: DocumentRequest) -> Any:
    return documents.read(data, asked.options)


async def _collected(pages: AsyncIterator[Page | Unread]) -> tuple[list[Page], list[Unread]]:
    from vision_text.documents.page import Page

    read: list[Page] = []
    unread: list[Unread] = []
    async for page in pages:
        if isinstance(page, Page):
            read.append(page)
        else:
            unread.append(page)
    return read, unread


async def _stream(
    request: web.Request, pages: AsyncIterator[Page | Unread], asked: DocumentRequest
) -> web.StreamResponse:
    """Server-sent events: document.page and document.unread, then document.done; an error ends it as its last event."""
    from vision_text.documents.page import Page

    first = await anext(pages, None)  # what is wrong with the file as a whole is a status, not an event
    response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-cache"})
    await response.prepare(request)

    async def send(event: dict[str, Any]) -> None:
        await response.write(b"data: " + json.dumps(event).encode() + b"\n\n")

    async def tell(page: Page | Unread) -> None:
        if isinstance(page, Page):
            await send({"type": "document.page", "page": page_view(page, lines=asked.lines)})
        else:
            await send({"type": "document.unread", **unread_view(page)})

    try:
        if first is not None:
            await tell(first)
            async for page in pages:
                await tell(page)
        await send({"type": "document.done"})
    except ServingError as error:
        await send({"type": "error", "error": error_fields(error)})
    await response.write_eof()
    return response
