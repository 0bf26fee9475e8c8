"""What `speechlane tune` has found of models that hear and of voices on this machine, as an engine uses it.

Without a trial models run as the documents prove (docs/whisper.md, docs/voices.md). A trial has the last word about
what it tried: what it chose serves, and what was not shown to be good does not. That an option is not faster for one
request at a time says nothing about many, so it may stay on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from speech.whisper import profile
from speech.whisper.profile import Precision, Profile
from workers.gate.profile import ProfileDamaged, load_profile

log = logging.getLogger(__name__)

PLAIN = "float32"
SPOKEN = "en"
"""Language of the trials."""


@dataclass(frozen=True, slots=True)
class Tuned:
    """Options by name: `chosen` are what serves, `refused` what may not. Both empty: nothing was tried."""

    chosen: Mapping[str, object] = field(default_factory=dict)
    refused: Sequence[Mapping[str, object]] = ()

    def may(self, **options: object) -> bool:
        """Whether options that serve without a trial may go on doing so."""
        return not any(one.items() <= options.items() for one in self.refused)

    # Of models that hear

    def threads(self, asked: int | None) -> int | None:
        """Of a CPU; `asked` is what somebody wants, None is to be measured."""
        found = self.chosen.get("threads")
        return found if asked is None and isinstance(found, int) else asked

    def probes(self, usual: int) -> int:
        """Of the padding of finals."""
        found = self.chosen.get("probes")
        if isinstance(found, int):
            return found
        return usual if self.may(window="frozen", probes=usual) else 0

    def whole(self, usual: frozenset[str]) -> frozenset[str]:
        """Languages whose finals take the whole window."""
        return usual if self.may(window="frozen") else usual | {SPOKEN}

    def precision(self, fastest: Profile, device: str) -> Profile:
        """The measured profile, in the precision that was chosen, else the fastest that may be had."""
        there = {str(one): one for one in profile.proven(device)}
        if (wanted := there.get(str(self.chosen.get("precision")))) is not None:
            return fastest.taking(wanted)
        if self.may(precision=str(fastest.precision)):
            return fastest
        left: list[Precision] = [one for name, one in there.items() if self.may(precision=name)]
        return min((fastest.taking(one) for one in left), key=lambda one: one.share(1.0, True))

    # Of the voice "heart"

    def voice_precision(self, usual: str) -> str:
        """Of its decoder."""
        found = self.chosen.get("precision")
        if isinstance(found, str):
            return found
        return usual if self.may(precision=usual) else PLAIN


TunedOf = Callable[[str, str], Tuned]
"""What was found of a model; of its kind ("asr" or "tts") and its name."""


def nothing(kind: str, name: str) -> Tuned:
    """As if nothing had been tried."""
    return Tuned()


def found(kind: str, name: str) -> Tuned:
    """What lies in this machine's profiles and still holds. Reads the model's weights to know that."""
    try:
        known = load_profile(name)
    except ProfileDamaged as error:
        log.warning("%s is served as if it had not been tuned: %s", name, error)
        return Tuned()
    if known is None or known.modality != kind:
        return Tuned()
    identity = now(kind, name, known.identity)
    if stale := known.stale(identity):
        log.warning("%s: what was tuned holds no longer (%s); tune it again", name, "; ".join(stale)[:300])
    return Tuned(known.approved(identity), tuple(known.refused(identity)))


def now(kind: str, name: str, then: Mapping[str, str]) -> Mapping[str, str]:
    """The identity of a model as it is now, where `then` is that of its profile."""
    # Imported late: trials know the whole of a model, and a service without profiles needs none of it.
    if kind == "tts":
        from speech.tuning.tts import identity_of as voice_identity

        return voice_identity()
    from speech.tuning.asr import identity_of as whisper_identity

    return whisper_identity(name, then.get("items", ""))
