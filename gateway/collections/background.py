"""What collections do beside requests: transcripts come in, files are brought in order."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress

from aiohttp import web

from gateway.collections.transcripts import Transcripts
from gateway.state import SERVICE


async def keep_collections(app: web.Application) -> AsyncIterator[None]:
    """For the life of the application."""
    service = app[SERVICE]
    tasks = [asyncio.create_task(service.collections.run())]
    if service.settings.search_transcripts:
        following = Transcripts(service.batch, service.collections)
        tasks.append(asyncio.create_task(following.run(service.embeddings.when_loaded)))
    yield
    for task in tasks:
        task.cancel()
    for task in tasks:
        with suppress(asyncio.CancelledError):
            await task
