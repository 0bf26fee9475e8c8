"""Does the gate say no to what does harm and not to what does none, run after run, on real models?

For each model of --models and each of --runs seeds (of the items it is judged by): the trial of every option that is
made to do harm, and of options that by their arithmetic can do none or hardly any:

  image, video  another kernel of attention (the same sums in another order)
  vlm           the prefix cache, guesses by look-up (checked token by token), keys and values in int8
  asr           the frozen padding in float32, which whisper.md measures
  tts           segments rendered together, bitwise the same by construction
  embeddings    vectors kept in float16

Bars: no harmful option passes; no harmless one is found harmful, leaking or failing. That one is found not faster, or
beaten by doing less, is no refusal of its quality. Exit status 1 when one is missed.

    python -m load.gate_runs
    python -m load.gate_runs --models shapes-vlm,heart --runs 1 --json gate.json
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from load import report
from load.service import machine
from speech.tuning.asr import WhisperSubject
from speech.tuning.tts import VoiceSubject
from vision_text.embeddings.tuning import EmbeddingSubject
from vision_text.tuning.drawing import ImageSubject, VideoSubject
from vision_text.tuning.seeing import SeeingSubject
from workers.gate.evidence import Evidence, Verdict
from workers.gate.subject import Option, Subject, canonical
from workers.gate.trial import Gate

SUBJECTS: dict[str, Callable[[], Subject]] = {
    "shapes-vlm": lambda: SeeingSubject("shapes-vlm"),
    "all-MiniLM-L6-v2": lambda: EmbeddingSubject("all-MiniLM-L6-v2"),
    "heart": VoiceSubject,
    "tiny.en": lambda: WhisperSubject("tiny.en"),
    "shapes-image": lambda: ImageSubject("shapes-image"),
    "shapes-video": lambda: VideoSubject("shapes-video"),
}
HARMLESS: dict[str, tuple[dict[str, object], ...]] = {
    "image": ({"attention": "math"},),
    "video": ({"attention": "math"},),
    "vlm": ({"prefix_cache": True}, {"speculative": ("lookup", 4)}, {"kv": "int8"}),
    "asr": ({"window": "frozen"},),
    "tts": ({"rows": "together"},),
    "embeddings": ({"precision": "float16"},),
}
REFUSALS = (Verdict.HARMFUL, Verdict.LEAKS, Verdict.FAILED)
HEAD = ("model", "seed", "option", "made to", "verdict", "speed", "seconds", "why")


@dataclass(frozen=True, slots=True)
class Trial:
    """One option's, with one seed."""

    model: str
    seed: int
    evidence: Evidence
    seconds: float

    @property
    def wrong(self) -> str:
        """How the gate was wrong; "" when it was not."""
        one = self.evidence
        if one.harmful and one.passed:
            return "does harm, and passed"
        if not one.harmful and one.verdict in REFUSALS:
            return f"does no harm, and was found {one.verdict}"
        return ""

    def row(self) -> tuple[str, ...]:
        one = self.evidence
        speed = f"{one.gain:.2f}x" if one.speed else "-"
        made = "do harm" if one.harmful else "do none"
        return (
            self.model, str(self.seed), one.label, made, str(one.verdict), speed, f"{self.seconds:.0f}",
            self.wrong or "; ".join(one.reasons)[:90],
        )  # fmt: skip


def tried(subject: Subject) -> list[Option]:
    """The options of a subject that are made to do harm, and those that can do none, as far as it has them here."""
    known = list(subject.options())
    harmless = [canonical(one) for one in HARMLESS[subject.modality]]
    return [one for one in known if one.harmful or canonical(one.settings) in harmless]


def runs(name: str, seeds: Sequence[int], tell: Callable[[str], None]) -> Iterator[Trial]:
    """All trials of a model, one after the other."""
    subject = SUBJECTS[name]()
    options = tried(subject)
    for seed in seeds:
        gate = Gate(subject, seed=seed, tell=lambda line, seed=seed: tell(f"{name}, seed {seed}: {line}"))  # type: ignore[misc]
        for option in options:
            began = time.monotonic()
            evidence = gate.judge(option.settings, harmful=option.harmful, gains=option.gains)
            yield Trial(name, seed, evidence, time.monotonic() - began)
    if (close := getattr(subject, "close", None)) is not None:
        close()


def told(trials: Sequence[Trial]) -> list[dict[str, Any]]:
    return [{"model": one.model, "seed": one.seed, "seconds": one.seconds, "wrong": one.wrong,
             **one.evidence.as_dict()} for one in trials]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", default=",".join(SUBJECTS), help="separated by commas (default: all)")
    parser.add_argument("--runs", type=int, default=3, help="seeds, from --seed on (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="the first (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write all evidence here, after each trial")
    asked = parser.parse_args()
    names = [name.strip() for name in asked.models.split(",") if name.strip()]
    if unknown := [name for name in names if name not in SUBJECTS]:
        parser.error(f"no model {', '.join(unknown)}; there is {', '.join(SUBJECTS)}")
    out, found = report.console(), list[Trial]()
    began = time.monotonic()

    def tell(line: str) -> None:
        out.print(f"{time.monotonic() - began:7.0f} s  {line}", markup=False, highlight=False)

    for name in names:
        for trial in runs(name, range(asked.seed, asked.seed + asked.runs), tell):
            found.append(trial)
            if asked.json is not None:
                asked.json.write_text(json.dumps({"machine": machine(), "trials": told(found)}, indent=1))
    out.print(report.table("The gate on trial", HEAD, [one.row() for one in found]))
    out.print(machine())
    return report.verdict(
        out, [f"{one.model}, seed {one.seed}: {one.evidence.label} {one.wrong}" for one in found if one.wrong]
    )


if __name__ == "__main__":
    raise SystemExit(main())
