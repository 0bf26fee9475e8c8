"""Voices by their names in the settings."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from speech.models import ModelNotFound
from speech.tts import Voice
from speech.tuned import TunedOf, nothing


def load_voices(
    names: Iterable[str], *, allow_download: bool = False, piper_python: str = "", tuned: TunedOf = nothing
) -> list[Voice]:
    """The voices that `names` stand for: "heart"; the file NAME.onnx of a Piper voice; or the folder or hub name of a
    codec language model, whose speakers are a voice each. Empty names stand for none. `piper_python` is the Python
    that has piper-tts, "" this one; `tuned` what trials on this machine have found.

    Raises ModelNotFound, ModelCorrupt.
    """
    voices: list[Voice] = []
    for name in filter(None, dict.fromkeys(names)):
        voices += _load(name, allow_download, piper_python, tuned)
    return voices


def _load(name: str, allow_download: bool, piper_python: str, tuned: TunedOf) -> Iterable[Voice]:
    # Imported when they are asked for: each brings libraries that a service without such voices does not need.
    if name == "heart":
        from speech.voices.hibari.voice import HibariVoice, fastest_precision

        return [HibariVoice(precision=tuned("tts", name).voice_precision(fastest_precision()))]
    if name.endswith(".onnx"):
        from speech.voices.piper.voice import PiperVoice

        return [PiperVoice(name, python=piper_python or sys.executable)]
    if "/" in name:
        from speech.voices.codec.voice import load_voices as load_codec_voices

        return load_codec_voices(name, allow_download=allow_download)
    raise ModelNotFound(
        f'there is no voice {name!r}; there is "heart", a Piper voice by its file NAME.onnx, and any codec '
        "language model by folder or hub name"
    )
