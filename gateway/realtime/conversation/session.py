"""One conversation session: the floor, the history and the live stream behind one connection."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.realtime.adapter import TRANSCRIPTION, Adapter
from gateway.realtime.config import PCM_RATE, SERVER_VAD, Shape, audio_format, merged_format, merged_input
from gateway.realtime.conversation import shapes
from gateway.realtime.conversation.floor import Floor
from gateway.realtime.conversation.history import History
from gateway.realtime.conversation.items import made
from gateway.realtime.conversation.messages import (
    CONVERSATION,
    ConversationAudio,
    ItemCreate,
    Output,
    OutputClear,
    Played,
    ResponseCancel,
    ResponseCreate,
    Session,
    SessionUpdate,
    Truncate,
)
from gateway.realtime.conversation.plan import OUTPUT, chosen_tool
from gateway.realtime.conversation.turn import Room
from gateway.realtime.items import new_id, no_item
from gateway.realtime.live import LiveSession
from gateway.realtime.messages import AudioInput, ClientEvent, Delete, Format, Retrieve
from gateway.realtime.parse import Events, RequestError
from gateway.sockets import Connection
from gateway.state import Service
from speech.config import StreamConfig
from speech.events import Event
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from speech.engine import Engine
    from speech.transcriber import Transcriber

INSTRUCTIONS = (
    "You are talking with somebody by voice. Answer in one to three short sentences of plain spoken language, without "
    "lists, markdown or emoji. What you read of their words was transcribed and may hold mistakes."
)
"""For a language model that is told nothing else."""
MOST_SESSION = 1024 * 1024
"""Bytes of JSON. Some fields take anything, functions above all, and a session is told whole with each change."""


class ConversationSession(LiveSession):
    """Somebody speaks, the assistant of the service answers."""

    events: Events = CONVERSATION

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Transcriber,
        session: Session,
        config: StreamConfig,
        shape: Shape,
    ) -> None:
        self._session = session
        self._history = History()
        adapter = Adapter(
            _Transcripts(connection, lambda: self._session),
            self._history,
            lambda what: what in (self._session.include or ()),
            service.metrics,
        )
        adapter.shape = shape
        super().__init__(connection, service, transcriber, audio_format(session), config, adapter)
        room = Room(
            service.engine,
            service.assistant,
            self._history,
            connection,
            service.metrics,
            self._send,
            new_id("conv"),
        )
        self._floor = Floor(room, adapter, lambda: self._session, lambda: self._config.vad)

    async def close(self) -> None:
        """End every answer, and free the stream."""
        try:
            await self._floor.close()
        finally:
            await super().close()

    def _said(self, event: Event) -> None:
        super()._said(event)
        self._floor.heard(event)

    async def _finalise(self) -> None:
        await super()._finalise()
        await self._floor.finish(self._connection.limits.finish_seconds)

    async def _other(self, event: ClientEvent) -> None:
        match event:
            case SessionUpdate():
                await self._update(event)
            case ItemCreate():
                item = made(event.item)
                previous = self._history.insert(item, event.previous_item_id)
                for kind in ("conversation.item.added", "conversation.item.done"):
                    self._send(kind, previous_item_id=previous, item=item.described())
            case Retrieve():
                known = self._history.get(event.item_id)
                if known is None:
                    raise no_item(event.item_id, "item_retrieve_invalid_item_id")
                self._send("conversation.item.retrieved", item=known.described())
            case Delete():
                if not self._history.delete(event.item_id):
                    raise no_item(event.item_id, "item_delete_invalid_item_id")
                self._send("conversation.item.deleted", item_id=event.item_id)
            case Truncate():
                self._floor.truncate(event)
            case ResponseCreate():
                wish = shapes.response_wish(event.response, self._adapter.shape)
                wanted = wish.audio.output.voice
                if wanted is not None:
                    _check_voice(self._engine, wanted, "response.audio.output.voice")
                self._floor.create(wish)
            case ResponseCancel():
                self._floor.cancel(event.response_id)
            case OutputClear():
                self._floor.clear_output()
            case Played():
                self._floor.played(event)

    async def _update(self, event: SessionUpdate) -> None:
        """All of the change or, with an error, nothing of it."""
        patch, shape = shapes.session_patch(event.session, self._adapter.shape)
        session = _merged(self._session, patch, self._default_model)
        chosen_tool(session.tool_choice, session.tools, "session.tool_choice")
        if "voice" in patch.audio.output.model_fields_set and session.audio.output.voice is not None:
            _check_voice(self._engine, session.audio.output.voice, f"{OUTPUT}.voice")
        _check_size(session)
        await self._adopt(session)
        self._session, self._adapter.shape = session, shape
        self._tell("updated")

    def _tell(self, what: str) -> None:
        fields = shapes.described(self._session, self._adapter.shape, self.id, self._expires_at)
        self._adapter.send(f"session.{what}", session=fields)

    def _send(self, kind: str, /, **fields: Any) -> None:
        """An event named and formed as the client's shape has it."""
        shape = self._adapter.shape
        if shape is Shape.BETA:
            if kind in shapes.UNKNOWN_TO_BETA:
                return
            kind = shapes.BETA_NAMES.get(kind, kind)
        if "item" in fields:
            fields["item"] = shapes.in_shape(fields["item"], shape)
        if "response" in fields:
            response = fields["response"]
            output = [shapes.in_shape(item, shape) for item in response["output"]]
            fields["response"] = {**response, "output": output}
        self._adapter.send(kind, **fields)


class _Transcripts:
    """The way out of what was heard. Transcripts are always made here, but told only to who asked for them."""

    def __init__(self, connection: Connection, session: Any) -> None:
        self._connection, self._session = connection, session

    def _wanted(self, event: dict[str, Any]) -> bool:
        if self._session().audio.input.transcription is not None:
            return True
        return not event["type"].startswith((TRANSCRIPTION, "x.transcription"))

    def send(self, event: dict[str, Any]) -> None:
        if self._wanted(event):
            self._connection.send(event)

    def send_text(self, key: object, event: dict[str, Any], field: str) -> None:
        if self._wanted(event):
            self._connection.send_text(key, event, field)

    def send_latest(self, key: object, event: dict[str, Any]) -> None:
        if self._wanted(event):
            self._connection.send_latest(key, event)


def open_conversation(engine: Engine, model: str, include: list[Any]) -> Session:
    """A session before its client has said anything: sound both ways as 24 kHz PCM, server_vad, the first voice."""
    voices = engine.voices()
    turn_detection = SERVER_VAD.model_copy(update={"create_response": True, "interrupt_response": True})
    pcm = Format(type="audio/pcm", rate=PCM_RATE)
    return Session(
        model=model,
        output_modalities=["audio"] if voices else ["text"],
        instructions=INSTRUCTIONS,
        include=include or None,
        audio=ConversationAudio(
            input=AudioInput(format=pcm, turn_detection=turn_detection),
            output=Output(format=pcm, voice=voices[0].name if voices else None),
        ),
    )


def begun(engine: Engine, session: Session, fields: dict[str, Any]) -> Session:
    """`session` with what `fields` set, before anybody has said anything. Raises `RequestError`, `InputInvalid`."""
    # The model was chosen by whoever connects: all names that are served here mean the same one.
    patch, _ = shapes.session_patch(fields, Shape.GA)
    session = _merged(session, patch.model_copy(update={"model": None}), engine.resolve(None))
    chosen_tool(session.tool_choice, session.tools, "session.tool_choice")
    if "voice" in patch.audio.output.model_fields_set and session.audio.output.voice is not None:
        _check_voice(engine, session.audio.output.voice, f"{OUTPUT}.voice")
    return session


def _merged(current: Session, patch: Session, default_model: str) -> Session:
    """`current` with what `patch` sets: an absent field keeps, null clears. Raises `RequestError`."""
    given = {name: getattr(patch, name) for name in patch.model_fields_set if name not in ("audio", "model", "type")}
    if patch.model not in (None, current.model):
        raise RequestError(
            f"The model of this session is {current.model}; connect anew to talk to another one.",
            code="invalid_value",
            param="session.model",
        )
    now, new = current.audio, patch.audio
    spoken = now.output.updated(new.output)
    if "format" in new.output.model_fields_set:
        wanted = merged_format(now.output.format, new.output.format, f"{OUTPUT}.format")
        spoken = spoken.model_copy(update={"format": wanted})
    listened = merged_input(now.input, new.input, default_model)
    if listened.turn_detection is not None:
        unset = {
            name: True
            for name in ("create_response", "interrupt_response")
            if getattr(listened.turn_detection, name) is None
        }
        listened = listened.model_copy(update={"turn_detection": listened.turn_detection.model_copy(update=unset)})
    return current.model_copy(update={**given, "audio": ConversationAudio(input=listened, output=spoken)})


def _check_size(session: Session) -> None:
    """Raises RequestError for one that is too large to be told to its client, with all that it holds."""
    size = len(session.model_dump_json())
    if size > MOST_SESSION:
        raise RequestError(
            f"The session has {size} bytes of JSON; {MOST_SESSION} are taken.", code="input_too_large", param="session"
        )


def _check_voice(engine: Engine, voice: str, path: str) -> None:
    """Raises InputInvalid for a voice that nobody has."""
    known = [name for info in engine.voices() for name in (info.name, *info.aliases)]
    if voice not in known:
        raise InputInvalid(f"There is no voice {voice[:60]!r}; there is: {', '.join(known)}.", param=path)
