"""Drafts: tokens that are guessed and checked together, in place of one after the other."""

from __future__ import annotations

from load.factors.factor import Base, Factor
from speech.whisper.backend import WhisperBackend
from speech.whisper.generation import Generation
from speech.whisper.states import Job


class Undrafted(WhisperBackend):
    """Token by token."""

    def _generation(self, job: Job) -> Generation:
        made = super()._generation(job)
        made._source = made._draft = []
        return made


def _undrafted(base: Base) -> WhisperBackend:
    made = Undrafted(base.name, base.checkpoint, base.folder, base.precision, base.probes)
    made.load("cpu")
    return made


FACTORS = (
    Factor(
        "own draft",
        "decoder",
        "a partial's text is the draft of the next, and of the final",
        _undrafted,
        served=True,
    ),
)
