"""A small OpenAI-compatible endpoint: real HTTP, real server-sent events, answers as scripted."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

Chunk = dict[str, Any] | str | float
"""A delta of a choice; text that is sent as it is; or seconds to wait."""
Script = Callable[[dict[str, Any]], list[Chunk]]


def says(text: str, reason: str = "stop") -> list[Chunk]:
    """An answer word by word."""
    words = [{"content": word + " "} for word in text.split()]
    return [*words, {"finish_reason": reason}]


def calls(call_id: str, name: str, *arguments: str) -> list[Chunk]:
    """A function call whose arguments come in pieces."""
    head = {"index": 0, "id": call_id, "type": "function", "function": {"name": name, "arguments": ""}}
    pieces = [{"tool_calls": [{"index": 0, "function": {"arguments": piece}}]} for piece in arguments]
    return [{"tool_calls": [head]}, *pieces, {"finish_reason": "tool_calls"}]


@dataclass
class ChatServer:
    """Where it is, and what it was asked."""

    url: str
    asked: list[dict[str, Any]] = field(default_factory=list)
    headers: list[dict[str, str]] = field(default_factory=list)
    gone: int = 0


@asynccontextmanager
async def chat_server(script: Script, status: int = 200) -> AsyncIterator[ChatServer]:
    """Serve on a free port of this loop."""
    server = ChatServer("")

    async def answer(request: web.Request) -> web.StreamResponse:
        body = await request.json()
        server.asked.append(body)
        server.headers.append(dict(request.headers))
        if status != 200:
            shown = request.headers.get("Authorization", "")
            return web.json_response({"error": {"message": f"no: {shown}"}}, status=status)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        try:
            for chunk in script(body):
                if isinstance(chunk, float):
                    await asyncio.sleep(chunk)
                    continue
                await response.write(chunk.encode() if isinstance(chunk, str) else event(chunk))
            usage = {"choices": [], "usage": {"prompt_tokens": 7, "completion_tokens": 3}}
            await response.write(f"data: {json.dumps(usage)}\n\ndata: [DONE]\n\n".encode())
        except (ConnectionError, asyncio.CancelledError):
            server.gone += 1
            raise
        return response

    app = web.Application()
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.2, handler_cancellation=True)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}/v1"
    try:
        yield server
    finally:
        await runner.cleanup()


def event(delta: dict[str, Any]) -> bytes:
    """One chunk of a completion."""
    reason = delta.get("finish_reason")
    rest = {name: value for name, value in delta.items() if name != "finish_reason"}
    chunk = {"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": rest, "finish_reason": reason}]}
    return f"data: {json.dumps(chunk)}\n\n".encode()
