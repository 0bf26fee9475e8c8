"""An engine in which nothing runs: it knows its models and voices by name, which is all that requests are read with."""

from __future__ import annotations

from functools import cache
from types import SimpleNamespace
from typing import Any

from speech.engine import Engine
from speech.loading import ModelInfo
from speech.speaking.house import House
from speech.tts import VoiceInfo
from workers.capacity import Capacity

HEART = VoiceInfo("heart", "hibari", ("en",), 24_000, aliases=("alloy", "af_heart"))
MODELS = (
    ModelInfo("tiny.en", "transcribe", ("en",), ("whisper-1", "gpt-4o-transcribe")),
    ModelInfo("base", "transcribe", ("*",), ()),
)


@cache
def names() -> Engine:
    """The engine."""
    engine: Any = Engine.__new__(Engine)
    engine._models = {info.name: SimpleNamespace(info=info) for info in MODELS}
    engine._house = House([], Capacity([]))
    engine._house._residents = [SimpleNamespace(info=HEART, voice=None)]
    return engine  # type: ignore[no-any-return]
