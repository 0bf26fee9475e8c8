"""POST /v1/chat/completions."""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeAlias, cast

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.chat.asking import asked_of
from gateway.chat.messages import turns
from gateway.chat.request import ChatRequest
from gateway.chat.seen import seen
from gateway.chat.views import Completion
from gateway.speak.request import checked
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from gateway.vision.body import TEXT_BYTES, read_object
from gateway.vision.server_sent import EventStream
from workers.errors import Draining, Overloaded
from workers.task import Lane

if TYPE_CHECKING:
    from vision_text.vlm.request import Answered, TextDelta

Answer: TypeAlias = "AsyncGenerator[TextDelta | Answered, None]"

LANES = {"interactive": Lane.INTERACTIVE, "bulk": Lane.BULK}


async def chat_handler(request: web.Request) -> web.StreamResponse:
    """The route. What fails before the first words has its status; later it is the last event of the stream."""
    service = request.app[SERVICE]
    vision, identity = service.vision, request[IDENTITY]
    try:
        vision.chat.resolve(None)  # a service without them says so before it reads the body
        with service.receiving(), vision.chatting.hold(identity.name), vision.in_hand.claim() as claim:
            async with cancelled_when_gone(request):
                most = vision.limits.file_bytes // 3 * 4 + TEXT_BYTES
                asked = checked(
                    ChatRequest, await read_object(request, most, "send fewer or smaller pictures in a request", claim)
                )
                body = claim.size
                model = vision.chat.resolve(asked.model)
                seer = await vision.chat.get(asked.model)
                vision.check(seer, model, "chat", asked.options)
                said = turns(asked.messages)
                wanted = await seen(asked_of(asked, identity.owner or identity.name), said, vision.opener, seer, claim)
                # The pixels are held until the answer has been given, the files are not.
                asked.messages.clear()
                del said
                claim.drop(body)
                # Closing it is what cancels.
                async with aclosing(cast("Answer", seer.answer(wanted, lane=LANES[asked.lane]))) as answer:
                    if asked.stream:
                        return await _stream(request, asked, model, answer)
                    return await _whole(service, model, answer)
    except (Overloaded, Draining) as error:
        service.metrics.refused("chat", error.code)
        raise


async def _whole(service: Service, model: str, answer: Answer) -> web.Response:
    from vision_text.vlm.request import Answered

    began, end = time.monotonic(), None
    async for piece in answer:
        end = piece
    assert isinstance(end, Answered)
    service.metrics.vision.answered(end, time.monotonic() - began)
    return web.json_response(Completion(model).whole(end))


async def _stream(request: web.Request, asked: ChatRequest, model: str, answer: Answer) -> web.StreamResponse:
    """Chunks, then [DONE]. Nothing is sent before there is something to say, so that a refusal still has its status."""
    from vision_text.vlm.request import Answered

    service, began = request.app[SERVICE], time.monotonic()
    completion, counted = Completion(model), asked.stream_options.include_usage
    piece = await anext(answer, None)
    events = await EventStream.open(request)
    try:
        await events.send(completion.first(counted=counted))
        while piece is not None:
            if isinstance(piece, Answered):
                service.metrics.vision.answered(piece, time.monotonic() - began)
                await events.send(completion.last(piece, counted=counted))
                if counted:
                    await events.send(completion.counted(piece))
            elif piece.text:
                await events.send(completion.delta(piece.text, counted=counted))
            piece = await anext(answer, None)
        await events.send("[DONE]")
    except ConnectionError:
        raise
    except Exception as error:
        await events.fail(error, request.path)
    return await events.end()
