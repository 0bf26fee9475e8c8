"""The projection onto the vocabulary, whose weights are most of what a token step reads."""

from __future__ import annotations

from load.factors.factor import Absent, Base, Factor
from speech.dense import Plain, Scanned
from speech.whisper.backend import WhisperBackend


def _plain(base: Base) -> WhisperBackend:
    made = base.loaded()
    if not isinstance(made._decoder._dense["decoder/projection"], Scanned):
        raise Absent("the processor has byte dot products, for which the whole decoder is int8")
    made._decoder._dense["decoder/projection"] = Plain(base.checkpoint.tensors["decoder/projection/weight"], None)
    return made


FACTORS = (
    Factor(
        "scanned vocabulary",
        "decoder",
        "all words from int8 weights, the first sixteen from float32",
        _plain,
        served=True,
    ),
)
