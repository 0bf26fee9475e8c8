"""Voices by their names in the settings."""

from __future__ import annotations

from collections.abc import Iterable

from speech.models import ModelNotFound
from speech.tts import Voice


def load_voices(names: Iterable[str], *, allow_download: bool = False) -> list[Voice]:
    """The voices that `names` stand for: "heart", or the folder or hub name of a codec language model, whose speakers
    are a voice each. Empty names stand for none.

    Raises ModelNotFound, ModelCorrupt.
    """
    voices: list[Voice] = []
    for name in filter(None, dict.fromkeys(names)):
        voices += _load(name, allow_download)
    return voices


def _load(name: str, allow_download: bool) -> Iterable[Voice]:
    # Imported when they are asked for: each brings libraries that a service without such voices does not need.
    if name == "heart":
        from speech.voices.hibari.voice import HibariVoice

        return [HibariVoice()]
    if "/" in name:
        from speech.voices.codec.voice import load_voices as load_codec_voices

        return load_codec_voices(name, allow_download=allow_download)
    raise ModelNotFound(
        f'there is no voice {name!r}; there is "heart", and any codec language model by folder or hub name'
    )
