"""The file that `serve` reads: what was tried of a model, and what of it may serve."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from workers.gate.evidence import NOT_GOOD, Evidence, differing, fingerprint
from workers.gate.subject import Settings, canonical
from workers.gate.thresholds import thresholds

VERSION = 1
_NAME = re.compile(r"[^\w.-]+")


class ProfileDamaged(ValueError):
    """The file is not what was written; tune again."""


def cache_folder() -> Path:
    """gate/ in the cache directory: `SPEECHLANE_CACHE`, else `speechlane` under `XDG_CACHE_HOME` or `~/.cache`."""
    if own := os.environ.get("SPEECHLANE_CACHE"):
        return Path(own).expanduser().absolute() / "gate"
    xdg = os.environ.get("XDG_CACHE_HOME")
    base = Path(xdg) if xdg and Path(xdg).is_absolute() else Path.home() / ".cache"
    return base / "speechlane" / "gate"


def profile_path(model: str, folder: Path | None = None) -> Path:
    """Of a model, which may be a path or have a slash in its name."""
    return (folder or cache_folder()) / f"{_NAME.sub('--', model.strip('/')) or 'model'}.json"


@dataclass(frozen=True, slots=True)
class Profile:
    """`evidence` of everything that was tried, `chosen` the settings that serve. `forced` settings serve without
    evidence, because somebody has said so. `rolled_back`: chosen once, and taken back by what live requests showed,
    with the reason."""

    model: str
    modality: str
    identity: Mapping[str, str]
    evidence: Sequence[Evidence]
    chosen: Mapping[str, Any]
    together: Sequence[Mapping[str, Any]] = ()
    forced: Sequence[Mapping[str, Any]] = ()
    rolled_back: Sequence[Mapping[str, Any]] = field(default=())

    def stale(self, identity: Mapping[str, str]) -> list[str]:
        """What has changed since; [] while the evidence holds."""
        changed = differing(self.identity, identity)
        digest = thresholds().digest
        if any(one.thresholds != digest for one in self.evidence):
            changed.append("the thresholds")
        return changed

    def proven(self, settings: Settings, identity: Mapping[str, str]) -> bool:
        """Whether these settings may serve: nothing at all, or what has passed together, or a part of that whose
        options have passed alone. Forced ones count as well."""
        wanted = canonical(settings)
        if not wanted:
            return True
        if any(wanted == canonical(one) for one in self.forced):
            return True
        if self.stale(identity) or self._taken_back(wanted):
            return False
        passed = [canonical(one.settings) for one in self.evidence if one.passed and not one.harmful]
        alone = [one for one in passed if len(one) == 1]
        parts = all({name: value} in alone for name, value in wanted.items())
        return any(wanted == one or (parts and _within(wanted, one)) for one in passed)

    def approved(self, identity: Mapping[str, str]) -> dict[str, Any]:
        """The settings to serve with: forced ones, else what was chosen while it holds, else none."""
        for one in reversed(self.forced):
            return dict(one)
        if self.stale(identity) or not self.chosen or self._taken_back(canonical(self.chosen)):
            return {}
        return dict(self.chosen)

    def refused(self, identity: Mapping[str, str]) -> list[dict[str, Any]]:
        """Settings that were tried and not shown to be good, or taken back since. That something is not faster, or no
        better than doing less, is nothing against it."""
        if self.stale(identity):
            return []
        forced = [canonical(one) for one in self.forced]
        against = [
            canonical(one.settings) for one in self.evidence if not one.harmful and one.verdict in NOT_GOOD
        ] + [canonical(one["settings"]) for one in self.rolled_back]  # fmt: skip
        return [one for one in against if one not in forced]

    def roll_back(self, settings: Settings, reason: str, at: float) -> Profile:
        """Without these settings, until it is tuned again."""
        taken = {"settings": canonical(settings), "reason": reason, "at": at}
        return replace(self, rolled_back=(*self.rolled_back, taken))

    def force(self, settings: Settings) -> Profile:
        """With settings that nobody has shown to be good; {} takes all such back."""
        plain = canonical(settings)
        return replace(self, forced=(*(one for one in self.forced if one != plain), plain) if plain else ())

    def _taken_back(self, wanted: Mapping[str, Any]) -> bool:
        return any(_within(canonical(one["settings"]), wanted) for one in self.rolled_back)

    def as_dict(self) -> dict[str, Any]:
        return {
            "version": VERSION, "model": self.model, "modality": self.modality, "identity": dict(self.identity),
            "fingerprint": fingerprint(self.identity), "chosen": dict(self.chosen), "forced": list(self.forced),
            "rolled_back": list(self.rolled_back), "together": list(self.together),
            "evidence": [one.as_dict() for one in self.evidence],
        }  # fmt: skip

    def save(self, folder: Path | None = None) -> Path:
        """Written whole or not at all."""
        path = profile_path(self.model, folder)
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(self.as_dict(), indent=1, sort_keys=True), "utf-8")
        draft.replace(path)
        return path


def _within(part: Mapping[str, Any], whole: Mapping[str, Any]) -> bool:
    return all(name in whole and whole[name] == value for name, value in part.items())


def load_profile(model: str, folder: Path | None = None) -> Profile | None:
    """None when the model was never tuned here. Raises ProfileDamaged."""
    path = profile_path(model, folder)
    try:
        found = json.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise ProfileDamaged(f"{path} cannot be read ({error}); tune {model} again or remove it") from error
    try:
        if found["version"] != VERSION or found["model"] != model:
            raise ValueError(f"version {found['version']} of {found['model']}")
        return Profile(
            found["model"], found["modality"], found["identity"],
            [Evidence.from_dict(one) for one in found["evidence"]],
            found["chosen"], found["together"], found["forced"], found["rolled_back"],
        )  # fmt: skip
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise ProfileDamaged(f"{path} was written by something else ({error}); tune {model} again") from error


def approved(model: str, identity: Mapping[str, str], folder: Path | None = None) -> Mapping[str, object]:
    """The settings that a model may be served with; {} when nothing is proven for it as it is now."""
    profile = load_profile(model, folder)
    return profile.approved(identity) if profile is not None else {}
