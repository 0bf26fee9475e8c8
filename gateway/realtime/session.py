"""One transcription session: what was said, and nothing else."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from gateway.realtime.adapter import Adapter, Out
from gateway.realtime.config import Shape, audio_format, described, from_beta, includes, merged
from gateway.realtime.items import Items, no_item
from gateway.realtime.live import LiveSession
from gateway.realtime.messages import BetaSessionUpdate, ClientEvent, Delete, Retrieve, Session, SessionUpdate
from gateway.sockets import Connection
from gateway.state import Service
from speech.config import StreamConfig

if TYPE_CHECKING:
    from speech.transcriber import Transcriber


class TranscriptionSession(LiveSession):
    """Deltas while somebody speaks, and one transcript for every turn."""

    def __init__(
        self,
        connection: Connection,
        service: Service,
        transcriber: Transcriber,
        session: Session,
        config: StreamConfig,
        shape: Shape,
        out: Out | None = None,
        items: Items | None = None,
    ) -> None:
        """`out` is where events go if not to the connection; `items` what remembers them, if there is something."""
        self._session = session
        self._items = items if items is not None else Items()
        adapter = Adapter(
            connection if out is None else out, self._items, lambda what: includes(self._session, what), service.metrics
        )
        adapter.shape = shape
        super().__init__(connection, service, transcriber, audio_format(session), config, adapter)

    async def _other(self, event: ClientEvent) -> None:
        match event:
            case SessionUpdate():
                await self._update(event.session, Shape.GA)
            case BetaSessionUpdate():
                await self._update(from_beta(event.session), Shape.BETA)
            case Retrieve():
                item = self._items.get(event.item_id)
                if item is None:
                    raise no_item(event.item_id, "item_retrieve_invalid_item_id")
                self._adapter.send("conversation.item.retrieved", item=item.described())
            case Delete():
                if not self._items.delete(event.item_id):
                    raise no_item(event.item_id, "item_delete_invalid_item_id")
                self._adapter.send("conversation.item.deleted", item_id=event.item_id)

    async def _update(self, patch: Session, shape: Shape) -> None:
        """All of the change or, with an error, nothing of it."""
        session = merged(self._session, patch, self._default_model)
        await self._adopt(session)
        self._session, self._adapter.shape = session, shape
        self._tell("updated")

    def _tell(self, what: str) -> None:
        shape = self._adapter.shape
        prefix = "transcription_session" if shape is Shape.BETA else "session"
        self._adapter.send(f"{prefix}.{what}", session=self._described())

    def _described(self) -> dict[str, Any]:
        return described(self._session, self._adapter.shape, self.id, self._expires_at)
