"""All trials of a subject: each option alone, then what passed together, and the profile that comes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

from workers.gate.evidence import Evidence, Verdict
from workers.gate.profile import Profile
from workers.gate.subject import Option, canonical, label
from workers.gate.trial import Gate


@dataclass(frozen=True, slots=True)
class Pair:
    """Two options together: the table's rule, its reason, and what the trial said, "" when there was none."""

    options: tuple[str, str]
    rule: str
    why: str
    verdict: str = ""

    def as_dict(self) -> dict[str, Any]:
        return {"options": list(self.options), "rule": self.rule, "why": self.why, "verdict": self.verdict}


@dataclass(frozen=True, slots=True)
class Tuned:
    """`chosen`: the fastest settings that passed; {} is the reference."""

    evidence: Sequence[Evidence]
    pairs: Sequence[Pair]
    chosen: Mapping[str, Any]

    def profile(self, gate: Gate) -> Profile:
        subject = gate.subject
        return Profile(
            subject.name, subject.modality, gate.identity, list(self.evidence), self.chosen,
            [pair.as_dict() for pair in self.pairs],
        )  # fmt: skip


def tune(
    gate: Gate,
    options: Sequence[Option] | None = None,
    *,
    done: Callable[[Evidence], None] = lambda evidence: None,
) -> Tuned:
    """Harmful options are judged as well when they are among `options`, so that it shows that the gate can say no;
    they are never chosen, whatever it says."""
    judged: list[Evidence] = []
    for option in gate.subject.options() if options is None else options:
        judged.append(gate.judge(option.settings, harmful=option.harmful, gains=option.gains))
        done(judged[-1])
    singles = _fastest_of_each(judged)
    table: dict[tuple[str, str], Pair] = {}
    together: list[Evidence] = []
    best = singles[0] if singles else None
    for one in singles[1:]:
        assert best is not None
        if not (_allowed(gate, best, one, table)):
            continue
        found = gate.judge({**best.settings, **one.settings})
        done(found)
        together.append(found)
        for pair in _pairs(best, one):
            table[pair] = _ruled(gate, pair, str(found.verdict))
        if found.passed and found.gain > best.gain:
            best = found
    for first, second in combinations(sorted({name for one in judged for name in one.settings}), 2):
        table.setdefault((first, second), _ruled(gate, (first, second)))
    return Tuned(
        [*judged, *together], [table[key] for key in sorted(table)], dict(best.settings) if best is not None else {}
    )


def _fastest_of_each(judged: Sequence[Evidence]) -> list[Evidence]:
    """Of options that passed and are about time, the fastest value of each, fastest first."""
    found: dict[tuple[str, ...], Evidence] = {}
    for one in judged:
        if one.verdict is Verdict.PASSED and not one.harmful and one.gains == "seconds":
            names = tuple(sorted(one.settings))
            if names not in found or one.gain > found[names].gain:
                found[names] = one
    return sorted(found.values(), key=lambda one: (-one.gain, label(one.settings)))


def _pairs(first: Evidence, second: Evidence) -> list[tuple[str, str]]:
    return [
        (min(a, b), max(a, b)) for a in canonical(first.settings) for b in canonical(second.settings) if a != b
    ]  # fmt: skip


def _allowed(gate: Gate, first: Evidence, second: Evidence, table: dict[tuple[str, str], Pair]) -> bool:
    pairs = _pairs(first, second)
    for pair in pairs:
        table.setdefault(pair, _ruled(gate, pair))
    overlap = set(first.settings) & set(second.settings)
    return not overlap and all(table[pair].rule == "test" for pair in pairs)


def _ruled(gate: Gate, pair: tuple[str, str], verdict: str = "") -> Pair:
    rule = gate.bars.rule(*pair)
    return Pair(pair, rule.rule, rule.why, verdict or (str(Verdict.REFUSED) if rule.rule == "refuse" else ""))
