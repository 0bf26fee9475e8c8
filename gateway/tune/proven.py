"""What was shown of the models of a service: with which options they start, and which ones a request may have."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from workers.gate.evidence import Evidence
from workers.gate.profile import Profile, ProfileDamaged, load_profile
from workers.gate.subject import Settings, canonical, label

log = logging.getLogger("speechlane.tune")

Identify = Callable[[str, Mapping[str, str], str], Mapping[str, str]]
"""The identity as it is now of a model that a profile was made for; of (its kind, the profile's, the model's name)."""


@dataclass(frozen=True, slots=True)
class Known:
    """A model's profile as it was read, what the model is now, and with what it was started. `problem` says why there
    is nothing proven, for people."""

    kind: str
    name: str
    profile: Profile | None
    identity: Mapping[str, str]
    serving: Mapping[str, Any]
    problem: str = ""


class ProvenOptions:
    """Of one service. Reads a model's profile when the model is loaded; from any thread."""

    def __init__(self, device: str, *, folder: Path | None = None, identify: Identify | None = None) -> None:
        self._device, self._folder = device, folder
        self._identify = identify or self._identity
        self._known: dict[str, Known] = {}
        self._withdrawn: dict[str, Mapping[str, Any]] = {}
        self._lock = threading.Lock()
        self.reruns: Counter[tuple[str, str]] = Counter()
        """Requests that were made again exactly, by model and outcome."""
        self.drift: dict[tuple[str, str], float] = {}
        """Running sums by model and measure; the alarm is in thresholds.toml."""

    def options(self, kind: str, name: str) -> Mapping[str, object]:
        """Those that a model is started with. Blocks. A profile that cannot be used is none, said in the log."""
        known = self._read(kind, name)
        with self._lock:
            self._known[name] = known
        if known.problem:
            log.warning("%s is served without options: %s", name, known.problem)
        elif known.serving:
            log.info("%s is served with %s", name, label(known.serving))
        return _as_taken(kind, known.serving)

    def note(self, kind: str, name: str) -> None:
        """Know of a model that the engine has loaded by itself (speech/tuned.py), if it was ever tried. Blocks."""
        known = self._read(kind, name)
        if known.profile is not None or known.problem:
            with self._lock:
                self._known[name] = known

    def proven(self, kind: str, name: str, model: object, options: Mapping[str, object]) -> bool:
        """Whether a request may have these, over those that the model was started with."""
        with self._lock:
            known = self._known.get(name)
        if known is None or known.profile is None:
            return False
        try:
            wanted = canonical({**known.serving, **options})
        except (TypeError, ValueError):
            return False
        return known.profile.proven(wanted, known.identity)

    def evidence(self, name: str) -> Evidence | None:
        """That of the settings which serve now; None when nothing does, or nothing that was shown."""
        with self._lock:
            known = self._known.get(name)
        if known is None or known.profile is None or not known.serving:
            return None
        wanted = canonical(known.serving)
        return next((one for one in known.profile.evidence if canonical(one.settings) == wanted), None)

    def roll_back(self, name: str, reason: str) -> None:
        """Serve without the options from now on, and after a restart. Blocks."""
        with self._lock:
            known = self._known[name]
            if known.profile is None or not known.serving:
                return
            profile = known.profile.roll_back(known.serving, reason, time.time())
            self._known[name] = Known(known.kind, name, profile, known.identity, {}, reason)
            self._withdrawn[name] = known.serving
        log.error("%s: %s is taken back: %s", name, label(known.serving), reason)
        try:
            profile.save(self._folder)
        except OSError as error:
            log.error("that %s was taken back from %s could not be kept: %s", label(known.serving), name, error)

    def serving(self, name: str) -> Mapping[str, Any]:
        """What a model runs with; {} for the reference."""
        with self._lock:
            known = self._known.get(name)
        return known.serving if known is not None else {}

    def withdrawn(self, name: str) -> Mapping[str, Any]:
        """What a model was started with and may not run with any more; {} as long as nothing was taken back."""
        with self._lock:
            return self._withdrawn.get(name, {})

    def report(self) -> list[dict[str, Any]]:
        """Of every model that was asked for, for the page and the metrics."""
        with self._lock:
            models = list(self._known.values())
        return [
            {
                "model": known.name,
                "kind": known.kind,
                "serving": label(known.serving) if known.serving else None,
                "problem": known.problem or None,
                "options": _options(known),
                "reruns": {outcome: count for (name, outcome), count in self.reruns.items() if name == known.name},
                "drift": {
                    measure: round(sum_, 3) for (name, measure), sum_ in self.drift.items() if name == known.name
                },
            }
            for known in models
        ]

    def _read(self, kind: str, name: str) -> Known:
        try:
            profile = load_profile(name, self._folder)
        except ProfileDamaged as error:
            return Known(kind, name, None, {}, {}, str(error))
        if profile is None:
            return Known(kind, name, None, {}, {})
        try:
            identity = self._identify(kind, profile.identity, name)
        except (ValueError, OSError) as error:
            return Known(kind, name, None, {}, {}, f"it cannot be told what it is now: {error}")
        serving = profile.approved(identity)
        stale = profile.stale(identity)
        problem = f"what was proven holds no longer ({'; '.join(stale)[:300]}); tune {name} again" if stale else ""
        return Known(kind, name, profile, identity, serving, "" if serving else problem)

    def _identity(self, kind: str, then: Mapping[str, str], name: str) -> Mapping[str, str]:
        if kind in ("asr", "tts"):
            from speech.tuned import now

            return now(kind, name, then)
        if kind == "embeddings":
            from vision_text.embeddings.tuning import identity_of

            return identity_of(name)
        from vision_text.tuning.identity import same_model

        return same_model(then, name, then.get("device", self._device) if self._device == "cuda" else self._device)


def _options(known: Known) -> Sequence[dict[str, Any]]:
    if known.profile is None:
        return []
    stale = bool(known.profile.stale(known.identity))
    forced = [canonical(one) for one in known.profile.forced]
    taken = [canonical(one["settings"]) for one in known.profile.rolled_back]
    rows = []
    for one in known.profile.evidence:
        settings = canonical(one.settings)
        state = "taken back" if settings in taken else "stale" if stale else "proven" if one.passed else "unproven"
        rows.append(
            _row(one.label, state, str(one.verdict), one.gain, settings == known.serving, "; ".join(one.reasons))
        )
    shown = {row["option"] for row in rows}
    rows += [_row(label(one), "forced", "", 1.0, one == known.serving, "") for one in forced if label(one) not in shown]
    for row in rows:
        if row["option"] in {label(one) for one in forced}:
            row["state"] = "forced"
    return rows


def _row(option: str, state: str, verdict: str, gain: float, serving: bool, why: str) -> dict[str, Any]:
    return {
        "option": option,
        "state": state,
        "verdict": verdict,
        "gain": round(gain, 3),
        "serving": serving,
        "why": why,
    }


def _as_taken(kind: str, settings: Settings) -> Mapping[str, object]:
    if kind == "chat":
        from vision_text.tuning.budgets import seeing_options

        return seeing_options(settings)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in settings.items()}
