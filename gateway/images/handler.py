"""POST /v1/images/generations: pictures side by side, each a task of its own, whole or as they become clearer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, cast

from aiohttp import web

from gateway.auth import IDENTITY
from gateway.chat.handler import LANES
from gateway.images.request import ImageRequest
from gateway.images.views import completed, generated, partial
from gateway.speak.request import checked
from gateway.state import SERVICE, Service
from gateway.transcriptions import cancelled_when_gone
from gateway.vision.asked import asked_of, new_seed
from gateway.vision.body import TEXT_BYTES, read_object
from gateway.vision.names import on_the_wire
from gateway.vision.server_sent import EventStream
from vision_text.denoise.request import Asked, Made, Preview
from vision_text.media.encode import picture_file
from workers.errors import Cancelled, Draining, Overloaded, ServingError
from workers.task import Lane

if TYPE_CHECKING:
    from vision_text.images.painter import Painter


async def image_handler(request: web.Request) -> web.StreamResponse:
    """The route. What fails before the first picture, whole or partial, has its status."""
    service = request.app[SERVICE]
    vision, identity = service.vision, request[IDENTITY]
    try:
        vision.images.resolve(None)  # a service without them says so before it reads the body
        with service.receiving(), vision.drawing.hold(identity.name):
            async with cancelled_when_gone(request):
                asked = checked(ImageRequest, await read_object(request, TEXT_BYTES, "send a shorter prompt"))
                model = vision.images.resolve(asked.model)
                painter = await vision.images.get(asked.model)
                vision.check(painter, model, "image", asked.options)
                seed = asked.seed if asked.seed is not None else new_seed()
                previews = asked.partial_images if asked.stream else 0
                # One seed and the number of the picture: the same request is the same pictures.
                wanted = [
                    asked_of(painter.info, asked, asked.size, seed + n, previews=previews) for n in range(asked.n)
                ]
                drawing = Drawing(service, painter, wanted, LANES[asked.lane])
                if asked.stream:
                    return await _stream(request, asked, model, drawing)
                made = await drawing.all()
                files = await asyncio.to_thread(lambda: [_file(one.frames[0], asked) for one in made])
                body = await asyncio.to_thread(generated, asked, model, made, files)
                return web.Response(body=body, content_type="application/json")
    except (Overloaded, Draining) as error:
        service.metrics.refused("image", error.code)
        raise


class Drawing:
    """The pictures of one request, in the making."""

    def __init__(self, service: Service, painter: Painter, wanted: Sequence[Asked], lane: Lane) -> None:
        self._service, self._painter, self._wanted, self._lane = service, painter, wanted, lane

    async def all(self) -> list[Made]:
        """All of them, in order. One that cannot be made ends the others."""
        try:
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(self._one(n)) for n in range(len(self._wanted))]
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        return [task.result() for task in tasks]

    async def parts(self) -> AsyncGenerator[tuple[int, Preview | Made], None]:
        """Previews and pictures with their number, as they are there."""
        # As many as there are pictures and previews of them, at most.
        queue: asyncio.Queue[tuple[int, Preview | Made] | None] = asyncio.Queue()

        async def tell(n: int) -> None:
            async with aclosing(self._making(n)) as making:
                async for part in making:
                    queue.put_nowait((n, part))

        async def everything() -> None:
            try:
                async with asyncio.TaskGroup() as group:
                    for n in range(len(self._wanted)):
                        group.create_task(tell(n))
            finally:
                queue.put_nowait(None)

        task = asyncio.create_task(everything())
        try:
            while (part := await queue.get()) is not None:
                yield part
            await task
        except BaseExceptionGroup as errors:
            raise _first(errors) from None
        finally:
            task.cancel()
            await asyncio.wait([task])

    async def _one(self, n: int) -> Made:
        async with aclosing(self._making(n)) as making:
            parts = [part async for part in making]
        return cast(Made, parts[-1])

    async def _making(self, n: int) -> AsyncGenerator[Preview | Made, None]:
        metrics, began = self._service.metrics.vision, time.monotonic()
        try:
            async with aclosing(self._painter.make(self._wanted[n], lane=self._lane)) as making:
                async for part in making:
                    if isinstance(part, Made):
                        metrics.made("image", part, time.monotonic() - began)
                    yield part
        except (GeneratorExit, asyncio.CancelledError, Cancelled):
            metrics.not_made("image", "cancelled")
            raise
        except ServingError as error:
            if error.status >= 500:
                metrics.not_made("image", "failed")
            raise on_the_wire(error) from None


def _first(errors: BaseExceptionGroup[BaseException]) -> BaseException:
    """Of several the one that says most: what is wrong with the request."""
    flat = list(_flat(errors))
    said = [error for error in flat if isinstance(error, ServingError) and not isinstance(error, Cancelled)]
    return min(said, key=lambda error: error.status) if said else flat[0]


def _flat(errors: BaseExceptionGroup[BaseException]) -> Iterator[BaseException]:
    for error in errors.exceptions:
        if isinstance(error, BaseExceptionGroup):
            yield from _flat(error)
        else:
            yield error


def _file(pixels: object, asked: ImageRequest) -> bytes:
    return picture_file(pixels, asked.output_format, asked.output_compression)  # type: ignore[arg-type]


async def _stream(request: web.Request, asked: ImageRequest, model: str, drawing: Drawing) -> web.StreamResponse:
    counts = [0] * asked.n
    async with aclosing(drawing.parts()) as parts:
        part = await anext(parts, None)
        events = await EventStream.open(request)
        try:
            while part is not None:
                n, found = part
                file = await asyncio.to_thread(_file, found.frames[0], asked)
                if isinstance(found, Made):
                    event = completed(asked, model, n, found, file)
                else:
                    event = partial(asked, n, counts[n], found, file)
                    counts[n] += 1
                await events.send(event, event["type"])
                part = await anext(parts, None)
        except ConnectionError:
            raise
        except Exception as error:
            await events.fail(error, request.path)
    return await events.end()
