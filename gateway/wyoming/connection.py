"""One connection: events in, one request at a time, and what becomes of it when its client goes."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

from gateway.closing import every
from gateway.speak.fields import FieldInvalid
from gateway.state import Service
from gateway.wyoming import fields
from gateway.wyoming.events import Broken, Event, read_event
from gateway.wyoming.info import info
from gateway.wyoming.synthesis import Synthesis
from gateway.wyoming.transcription import Transcription
from gateway.wyoming.wire import Wire
from workers.errors import BackendFailed, Draining, Expired, ServingError

log = logging.getLogger("speechlane.wyoming")

IDLE_SECONDS = 600.0
"""A connection without a request is closed after so long."""
INPUT_SECONDS = 120.0
"""Nor is a request kept longer for which nothing comes."""


class Ended(Exception):
    """The connection cannot go on; the client has been told why, if it can be."""


class Drain:
    """The service goes down. `begun`; and `late`, when who is in the middle of a request has had the time to end it."""

    def __init__(self, service: Service) -> None:
        self.begun: asyncio.Task[Any] = asyncio.create_task(service.draining.wait(), name="wyoming drain")
        self.late: asyncio.Task[Any] = asyncio.create_task(self._late(service.settings.drain_seconds / 2))

    async def _late(self, seconds: float) -> None:
        await asyncio.wait({self.begun})
        await asyncio.sleep(seconds)

    def close(self) -> None:
        """Watch no more."""
        self.begun.cancel()
        self.late.cancel()


class WyomingConnection:
    """`run` it until it ends; everything it holds is free then."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, service: Service) -> None:
        self._reader, self._service = reader, service
        self._wire = Wire(writer)
        self._synthesis: Synthesis | None = None
        self._transcription: Transcription | None = None

    async def run(self) -> None:
        """Take events until the client has no more, or has gone; then let what it has asked for come to its end."""
        drain = Drain(self._service)
        try:
            while (event := await self._next(drain)) is not None:
                await self._take(event)
            # A client may close its side once it has said everything.
            if self._synthesis is not None and self._synthesis.ended:
                await self._synthesis.finished()
        except Ended:
            pass
        except ConnectionError as error:
            log.debug("a client went away: %s", error)
        finally:
            drain.close()
            await self._free()

    async def _next(self, drain: Drain) -> Event | None:
        """The next event that can be read; None when there is none. Raises Ended."""
        while True:
            reading = asyncio.create_task(read_event(self._reader), name="wyoming event")
            try:
                await self._await(reading, drain)
                return reading.result()
            except Broken as error:
                await self._end(FieldInvalid(str(error), code="invalid_event"))
            except ServingError as error:
                await self._wire.fail(error)
            finally:
                reading.cancel()

    async def _await(self, reading: asyncio.Task[Event | None], drain: Drain) -> None:
        """Wait for it as long as there is reason to. Raises Ended."""
        while not reading.done():
            synthesis, transcription = self._synthesis, self._transcription
            if synthesis is not None and synthesis.ended:
                # It is the service that is at work; what the client asks meanwhile is answered.
                finished = asyncio.create_task(synthesis.finished())
                try:
                    await asyncio.wait({reading, finished}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    finished.cancel()
                if synthesis.over:
                    await self._free()
                continue
            begun = synthesis is not None or transcription is not None
            patience = INPUT_SECONDS if begun else IDLE_SECONDS
            down = drain.late if begun else drain.begun
            done, _ = await asyncio.wait({reading, down}, timeout=patience, return_when=asyncio.FIRST_COMPLETED)
            if not done:
                await self._end(Expired(f"Nothing came for {patience:g} s."))
            elif down in done and reading not in done:
                # What a client has not come to the end of is ended for it.
                if transcription is not None:
                    await self._take(Event("audio-stop"))
                elif synthesis is not None:
                    await self._take(Event("synthesize-stop"))
                else:
                    await self._end(Draining("The service is shutting down; try again in a few seconds."))

    async def _take(self, event: Event) -> None:
        """Do what an event asks. Raises Ended."""
        try:
            if event.type in ("transcribe", "audio-start", "audio-chunk", "audio-stop"):
                await self._hear(event)
            else:
                await self._answer(event)
        except (ConnectionError, Ended):
            raise
        except ServingError as error:
            await self._wire.fail(error)
        except Exception as error:
            log.exception("an event failed")
            await self._wire.fail(BackendFailed(f"The service failed on this event: {type(error).__name__}."))

    async def _answer(self, event: Event) -> None:
        match event.type:
            case "describe":
                await self._wire.send(info(self._service.engine))
            case "ping":
                await self._wire.send(Event("pong", {"text": fields.optional_text(event.data, "text")}))
            case "synthesize":
                if not self._said_already(event):
                    synthesis = await self._begin(event, streaming=False)
                    try:
                        await synthesis.say(event.data)
                        await synthesis.end()
                    except ServingError as error:
                        await synthesis.give_up(error)
            case "synthesize-start":
                await self._begin(event, streaming=True)
            case "synthesize-chunk":
                await self._open().say(event.data)
            case "synthesize-stop":
                await self._open().end()
            case _:
                log.debug("an event of type %.60s has no meaning here", event.type)

    async def _hear(self, event: Event) -> None:
        """Events of speech to text. A client waits for the transcript alone, so one that cannot be had ends it all."""
        try:
            if self._transcription is None or event.type == "transcribe":
                await self._rest()
                await self._free()
                self._transcription = Transcription(
                    self._service, self._wire, event.data if event.type == "transcribe" else {}
                )
            match event.type:
                case "audio-start":
                    self._transcription.start(event.data)
                case "audio-chunk":
                    await self._transcription.audio(event.data, event.payload)
                case "audio-stop":
                    await self._transcription.stop()
                    await self._free()
        except ServingError as error:
            await self._end(error)

    async def _begin(self, event: Event, *, streaming: bool) -> Synthesis:
        """A new request, once the one before it has been answered."""
        await self._rest()
        await self._free()
        self._synthesis = Synthesis(self._service, self._wire, streaming=streaming)
        await self._synthesis.begin(event.data)
        return self._synthesis

    def _open(self) -> Synthesis:
        if self._synthesis is None or not self._synthesis.streaming or self._synthesis.ended:
            raise FieldInvalid("Send synthesize-start first.", code="no_request", param="synthesize-chunk")
        return self._synthesis

    def _said_already(self, event: Event) -> bool:
        """Clients that stream send the whole text as well, for servers that do not."""
        streamed = self._synthesis
        if streamed is None or not streamed.streaming:
            return False
        text = event.data.get("text")
        return not streamed.ended or (isinstance(text, str) and text.strip() == streamed.text.strip())

    async def _rest(self) -> None:
        """Let the request at hand come to its end; one that is not complete is given up for the next."""
        if self._synthesis is not None and self._synthesis.ended:
            await self._synthesis.finished()

    async def _free(self) -> None:
        open_ = [one for one in (self._synthesis, self._transcription) if one is not None]
        self._synthesis = self._transcription = None
        await every(*(one.close for one in open_))

    async def _end(self, error: ServingError) -> None:
        log.info("a connection ends: %s: %s", error.code, error.message)
        await self._wire.fail(error)
        raise Ended
