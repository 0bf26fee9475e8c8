"""Something between clients and a service that hands everything on, but for what a fault makes of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from aiohttp import ClientSession, WSMsgType, web

from load.service import Running

Message = str | bytes
Spoil = Callable[[Message], Awaitable[list[Message]]]
"""What becomes of a message of the service, or of the body of an answer."""
_KEPT = ("authorization", "content-type")


async def untouched(message: Message) -> list[Message]:
    """No fault."""
    return [message]


@asynccontextmanager
async def faulty(upstream: str, spoil: Spoil = untouched) -> AsyncIterator[Running]:
    """A service that is `upstream` with a fault in it."""
    async with ClientSession() as http:

        async def handle(request: web.Request) -> web.StreamResponse:
            target = f"{upstream}{request.rel_url}"
            if request.headers.get("upgrade", "").lower() == "websocket":
                return await _socket(http, request, target, spoil)
            headers = {name: value for name, value in request.headers.items() if name.lower() in _KEPT}
            async with http.request(request.method, target, data=await request.read(), headers=headers) as answer:
                parts = await spoil(await answer.read())
                body = b"".join(part if isinstance(part, bytes) else part.encode() for part in parts)
                return web.Response(body=body, status=answer.status, content_type=answer.content_type)

        app = web.Application(client_max_size=1 << 28)
        app.router.add_route("*", "/{path:.*}", handle)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0).start()
        host, port = runner.addresses[0][:2]
        try:
            yield Running(f"http://{host}:{port}", None)
        finally:
            await runner.cleanup()


async def _socket(http: ClientSession, request: web.Request, target: str, spoil: Spoil) -> web.WebSocketResponse:
    ours = web.WebSocketResponse(max_msg_size=1 << 25, compress=False)
    await ours.prepare(request)
    async with http.ws_connect(target, max_msg_size=1 << 25) as theirs:

        async def up() -> None:
            async for message in ours:
                await (theirs.send_str if message.type is WSMsgType.TEXT else theirs.send_bytes)(message.data)
            await theirs.close()

        sending = asyncio.create_task(up())
        try:
            async for message in theirs:
                for part in await spoil(message.data):
                    await (ours.send_str if isinstance(part, str) else ours.send_bytes)(part)
        finally:
            sending.cancel()
    await ours.close()
    return ours
