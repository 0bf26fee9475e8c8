"""What tests of the batch routes share: sending a form, reading events, waiting for an end."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import Any

from aiohttp import ClientSession, FormData

JOBS = "/v1/batch/jobs"
NONE: Mapping[str, str] = {}
ENDS = ("done", "partial", "failed", "cancelled")


async def submit(http: ClientSession, content: bytes, filename: str = "talk.flac", **fields: Any) -> tuple[int, Any]:
    """Send a form; status and body of the answer. A list is sent as many times as it is long."""
    form = FormData(quote_fields=False, default_to_multipart=True)
    for field, value in fields.items():
        for item in value if isinstance(value, list) else [value]:
            form.add_field(field, str(item))
    form.add_field("file", content, filename=filename)
    async with http.post(JOBS, data=form) as answer:
        return answer.status, await answer.json()


async def get(http: ClientSession, path: str) -> tuple[int, Any]:
    """Status and JSON of a GET."""
    async with http.get(path) as answer:
        return answer.status, await answer.json()


async def events(http: ClientSession, path: str, headers: Mapping[str, str] = NONE) -> AsyncIterator[tuple[str, Any]]:
    """Events as (name, data), parsed from the bytes of the stream; a comment is ("", text)."""
    async with http.get(path, headers=headers) as answer:
        assert (answer.status, answer.headers["Content-Type"]) == (200, "text/event-stream")
        name = ""
        async for raw in answer.content:
            line = raw.decode("utf-8")
            assert line.endswith("\n")
            field, _, value = line.rstrip("\n").partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)
            elif line.startswith(":"):
                yield "", value


async def ended(http: ClientSession, job: str, seconds: float = 60.0) -> Any:
    """The job, once it has ended."""
    async with asyncio.timeout(seconds):
        while True:
            _, body = await get(http, f"{JOBS}/{job}")
            if body["state"] in ENDS:
                return body
            await asyncio.sleep(0.1)
