"""A Piper voice by the path of its .onnx file, spoken by the Python of an environment that has piper-tts."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path

from speech.models.errors import ModelCorrupt, ModelNotFound
from speech.text.spoken import Spoken
from speech.tts import Phonemes, VoiceInfo
from speech.voices.joined import has_sound
from speech.voices.piper import worker
from speech.voices.piper.backend import PiperBackend
from speech.voices.piper.text import written


class PiperVoice:
    """`path` is the voice's .onnx file with its .onnx.json beside it; `python` has piper-tts, this one by default.

    `processes` speak side by side, each with `threads`; `speaker` is the number of one in a voice of several. Noise is
    Piper's own, so the same text and seed do not give the same samples. Raises ModelNotFound, ModelCorrupt.
    """

    apart = True

    def __init__(
        self,
        path: str | Path,
        *,
        name: str = "",
        python: str = sys.executable,
        processes: int = 1,
        threads: int = 1,
        speaker: int | None = None,
    ) -> None:
        file = Path(path).expanduser().absolute()
        config = Path(f"{file}.json")
        if not file.is_file() or not config.is_file():
            raise ModelNotFound(f"a Piper voice is a file NAME.onnx with NAME.onnx.json beside it: {file} is not")
        try:
            read = json.loads(config.read_text("utf-8"))
            rate, language = int(read["audio"]["sample_rate"]), str(read["espeak"]["voice"])
            speakers = int(read.get("num_speakers", 1))
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise ModelCorrupt(f"{config} is not the configuration of a Piper voice: {error!r}") from error
        if speaker is not None and not 0 <= speaker < speakers:
            raise ModelNotFound(f"{file.name} has speakers 0 to {speakers - 1}, no {speaker}")
        self.info = VoiceInfo(
            name=name or file.stem,
            model=f"piper/{file.stem}",
            languages=(language.split("-")[0],),
            rate=rate,
            exact=False,
            description="Piper, in a process of its own; a segment at once, word times are estimated.",
        )
        self._command = [python, "-I", worker.__file__, str(file), str(threads)]
        self._processes, self._speaker = processes, speaker

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        """The code points of the text: Piper makes its own phonemes of it."""
        if not any(has_sound(token) for token in tokens):
            return Phonemes((), (), ("",) * len(tokens))
        text, owners = written(tokens)
        shown = tuple(token.phonemes or token.text if has_sound(token) else "" for token in tokens)
        return Phonemes(tuple(map(ord, text)), tuple(owners), shown)

    def backend(self) -> PiperBackend:
        """Processes of its own for one device."""
        return PiperBackend(
            self.info.model, self._command, self.info.rate, processes=self._processes, speaker=self._speaker
        )
