"""Seconds of one thread for a second of the embedded voice's sound, beside its own package's, in turns.

In this process, one thread each, on the texts of load/spoken_sentences.toml:

  package     hibari's own synthesis, a sentence at once
  together n  the voice as it is served: --together sentences at once, planned one by one, rendered window by window,
              all of a step in one batch

Bar: with 16 together a second of sound costs no more than the package's. Exit status 1 when it is missed.

    python -m load.voice_cost
    python -m load.voice_cost --rounds 2 --together 1,4
"""

from __future__ import annotations

import argparse
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from hibari import Hibari
from rich.progress import track

from load import report
from load.service import machine
from load.spoken import sentences
from speech.text.lexicon import Lexicon
from speech.text.normaliser import normalise
from speech.text.options import TextOptions
from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Voicing
from speech.voices.hibari.voice import HibariVoice
from speech.voices.hibari.wave import RATE
from workers.backend import Backend, Done, More

JUDGED = 16
HEAD = ("", "seconds for a second of sound", "times real time", "of the package's")


class Served:
    """The voice on one thread, without a scheduler around it."""

    def __init__(self) -> None:
        self._voice = HibariVoice()
        self._backend: Backend = self._voice.backend()
        self._backend.load("cpu")

    def speak(self, texts: Sequence[str], seed: int) -> tuple[float, float]:
        """(seconds of making, seconds of sound) of sentences that are spoken at once."""
        said = [tuple(normalise(text, TextOptions(), Lexicon())) for text in texts]
        voicings = [
            Voicing(SegmentText(tokens, self._voice.phonemes(tokens), seed=seed + n)) for n, tokens in enumerate(said)
        ]
        began, samples = time.perf_counter(), 0
        plans: list[Planned] = [self._run([PlanRequest(one)])[0] for one in voicings]
        counts = [len(plan.windows or ()) for plan in plans]
        for number in range(max(counts)):
            asked = [RenderRequest(one, number) for one, count in zip(voicings, counts, strict=True) if number < count]
            made: list[Rendered] = self._run(asked)
            samples += sum(len(one.samples) for one in made)
        seconds = time.perf_counter() - began
        for one in voicings:
            one.release()
        return seconds, samples / RATE

    def _run(self, requests: Sequence[PlanRequest | RenderRequest]) -> list[Any]:
        """The answers. Those of one bucket go through a step together, as the scheduler has it."""
        jobs = [self._backend.open(request) for request in requests]
        waiting, answers = list(range(len(jobs))), dict[int, Any]()
        while waiting:
            bucket = self._backend.demand(jobs[waiting[0]]).bucket
            step = [n for n in waiting if self._backend.demand(jobs[n]).bucket == bucket]
            for n, result in zip(step, self._backend.step([jobs[n] for n in step]), strict=True):
                if isinstance(result, More):
                    continue
                if not isinstance(result, Done):
                    raise RuntimeError(f"the voice failed: {result}")
                answers[n] = result.output
            waiting = [n for n in waiting if n not in answers]
        for job in jobs:
            self._backend.discard(job)
        return [answers[n] for n in range(len(jobs))]


def package(voice: Hibari, texts: Sequence[str], seed: int) -> tuple[float, float]:
    """The same of the voice's own package, one sentence after the other."""
    began = time.perf_counter()
    samples = sum(len(voice(text, 1.0, seed + n)) for n, text in enumerate(texts))
    return time.perf_counter() - began, samples / RATE


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--together", default="1,4,16,32", help="sentences at once (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=8, help="turns of each (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    asked = parser.parse_args()
    counts = [int(part) for part in asked.together.split(",")]
    torch.set_num_threads(1)
    served, theirs = Served(), Hibari(threads=1)
    texts, chance = [one.written for one in sentences()], random.Random(0)
    costs: dict[str, list[float]] = {"package": [], **{f"together {count}": [] for count in counts}}
    out = report.console()
    for number in track(range(asked.rounds + 1), "speaking", console=out):  # the first round warms up
        chosen = [chance.choice(texts) for _ in range(max(counts))]
        spent = {"package": package(theirs, chosen[:8], number)}
        spent |= {f"together {count}": served.speak(chosen[:count], number) for count in counts}
        if number:
            for name, (seconds, sound) in spent.items():
                costs[name].append(seconds / sound)
    medians = {name: float(np.median(values)) for name, values in costs.items()}
    rows = [
        (name, f"{cost:.4f}", f"{1 / cost:.0f}", f"{cost / medians['package']:.2f}") for name, cost in medians.items()
    ]
    out.print(report.table(f"one thread each, {asked.rounds} rounds in turns, medians", HEAD, rows))
    out.print(machine(), highlight=False, style="dim")
    if asked.json is not None:
        asked.json.write_text(json.dumps({"machine": machine(), "costs": costs}, indent=1))
    missed = []
    if JUDGED in counts and (share := medians[f"together {JUDGED}"] / medians["package"]) > 1:
        missed.append(f"{JUDGED} together cost {share:.2f} of the package's")
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
