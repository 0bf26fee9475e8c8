"""Everything of a service that sees or draws: its three kinds of models, and how many requests may use them at once."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from gateway.batch.places import Places, share
from gateway.settings import Settings
from gateway.vision.in_hand import InHand
from gateway.vision.media import AT_ONCE, Opener
from gateway.vision.remote import PictureHosts
from gateway.vision.room import Engines, Kind, Room
from vision_text.media.limits import MediaLimits
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from vision_text.images.painter import Painter
    from vision_text.videos.filmer import Filmer
    from vision_text.vlm.seer import Seer

CHAT = Kind(
    "chat",
    "chat_models",
    "vision_text.vlm.seer:Seer",
    ("transformers", "safetensors", "PIL"),
    ("gpt-4o", "gpt-4o-mini", "gpt-4.1", "gpt-4.1-mini", "gpt-4.1-nano", "gpt-5", "gpt-5-mini", "gpt-5-nano"),
)
IMAGES = Kind(
    "image",
    "image_models",
    "vision_text.images.painter:Painter",
    ("diffusers", "transformers", "safetensors", "PIL"),
    ("gpt-image-1", "gpt-image-1-mini", "gpt-image-1.5", "dall-e-2", "dall-e-3"),
)
VIDEOS = Kind(
    "video",
    "video_models",
    "vision_text.videos.filmer:Filmer",
    ("diffusers", "transformers", "safetensors", "av"),
    ("sora-2", "sora-2-pro"),
    one=False,
)
CHATS_AT_ONCE, IMAGES_AT_ONCE = 64, 16
IN_HAND_BYTES = 512 * 1024 * 1024
"""Of bodies and pixels of all chats together."""
BUSY_RETRY = 5.0

Rooms: TypeAlias = "tuple[Room[Seer], Room[Painter], Room[Filmer]]"


class OptionUnproven(InputInvalid):
    """An approximation that nobody has shown to be good on this model and machine."""

    code = "option_unproven"


class Gate(Protocol):
    """What was shown of a model's options."""

    def options(self, kind: str, name: str) -> Mapping[str, object]:
        """Those that a model of this kind and name is started with. Blocks. Raises nothing."""

    def proven(self, kind: str, name: str, model: object, options: Mapping[str, object]) -> bool:
        """Whether a request may have these. Cheap."""

    def watched(self, kind: str, name: str, model: Any) -> Any:
        """The model as requests get it: the same, or one that looks at what it makes."""


class NothingProven:
    """Of a service whose models were never tuned."""

    def options(self, kind: str, name: str) -> Mapping[str, object]:
        return {}

    def proven(self, kind: str, name: str, model: object, options: Mapping[str, object]) -> bool:
        return False

    def watched(self, kind: str, name: str, model: Any) -> Any:
        return model


class Vision:
    """`chat`, `images` and `videos` are the models, `chatting` and `drawing` the places for requests, `in_hand` what
    chats hold. `gate` knows which of their options are proven."""

    def __init__(self, settings: Settings) -> None:
        self._now, self._unproven = settings.vision_load == "start", settings.unproven_options
        self.gate: Gate = NothingProven()
        self.limits = MediaLimits(
            file_bytes=settings.max_media_bytes,
            pixels=settings.max_picture_pixels,
            clip_seconds=settings.max_clip_seconds,
        )
        self.opener = Opener(self.limits, PictureHosts(settings.picture_hosts), asyncio.Semaphore(AT_ONCE))
        download = settings.download
        options, watched = self._options, self._watched
        self.chat: Room[Seer] = Room(CHAT, settings.chat_models, download=download, options=options, watched=watched)
        self.images: Room[Painter] = Room(
            IMAGES, settings.image_models, download=download, options=options, watched=watched
        )
        self.videos: Room[Filmer] = Room(
            VIDEOS, settings.video_models, download=download, options=options, watched=watched
        )
        self.in_hand = InHand(IN_HAND_BYTES)
        keys = settings.key_count()
        self.chatting = Places(CHATS_AT_ONCE, share(CHATS_AT_ONCE, keys), "chats are being answered", BUSY_RETRY)
        self.drawing = Places(IMAGES_AT_ONCE, share(IMAGES_AT_ONCE, keys), "images are being made", BUSY_RETRY)

    @property
    def rooms(self) -> Rooms:
        """All kinds."""
        return self.chat, self.images, self.videos

    def check(self, model: object, name: str, kind: str, options: Mapping[str, object]) -> None:
        """Raises `OptionUnproven` when a request asks for approximations that it may not have."""
        if options and not self._unproven and not self.gate.proven(kind, name, model, options):
            raise OptionUnproven(
                f"options {', '.join(sorted(options))[:200]} are not proven for {name} here. Leave them out. Whoever "
                "runs this service tries them with speechlane tune, or lets everybody have them with unproven_options.",
                param="options",
            )

    def _options(self, kind: str, name: str) -> Mapping[str, object]:
        return self.gate.options(kind, name)

    def _watched(self, kind: str, name: str, model: Any) -> Any:
        return self.gate.watched(kind, name, model)

    async def run(self, engine: Engines) -> None:
        """Load behind the engine what is to be loaded at the start; then until cancelled."""
        try:
            for room in self.rooms:
                room.begin(engine, now=self._now)
            await asyncio.Event().wait()
        finally:
            for room in self.rooms:
                await room.close()
