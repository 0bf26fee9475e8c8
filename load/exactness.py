"""Is speech made in windows the speech made at once, and is a listener's among many what it is alone?

In this process, on the texts that the tests of the voice use, from two letters to 300 words:

  at once   the package's own graph, de-quantised, run over the whole text by onnxruntime, with the package's synthesis
            behind it; it is given this plan's pitch, since the pulses count on over the whole text and one unit in the
            last place of every pitch puts the package 40 to 80 dB away from itself
  windows   the voice as it is served: window by window, with the state carried on

Bars: at least 100 dB between the two for every text, with as many samples; the samples of --together segments spoken
together, in steps of random company, bitwise those of each alone. Exit status 1 when one is missed.

    python -m load.exactness
    python -m load.exactness --texts 6 --together 8
"""

from __future__ import annotations

import argparse
import json
import random
from pathlib import Path
from typing import Any

import numpy as np

from load import report
from load.service import machine
from load.spoken import sentences
from speech.tts import SegmentText, Voicing
from speech.voices.hibari.wave import HOP, RATE
from tests.speech.voices import hibari_voices as voices

BAR = 100.0


def against_at_once(text: str) -> tuple[float, int, float]:
    """(decibels between windows and the whole text at once, windows, seconds of sound)."""
    said = voices.segment(text, seed=7, index=3)
    voicing = Voicing(said)
    planned = voices.plan(voices.backend(), voicing)
    pitch = voicing.cache.plan.pitch
    windows = len(planned.windows or ())
    sound = np.concatenate([voices.render(voices.backend(), voicing, window) for window in range(windows)])
    spectra, whole_pitch, _ = voices.reference(said)
    if len(sound) != HOP * len(whole_pitch):
        return -np.inf, windows, len(sound) / RATE
    return voices.snr(voices.reference_sound(spectra, pitch, said), sound), windows, len(sound) / RATE


def some_segments(count: int, chance: random.Random) -> list[SegmentText]:
    """Segments of many lengths, speeds and seeds."""
    texts = [one.spoken for one in sentences()]
    return [
        voices.segment(
            chance.choice(texts),
            speed=chance.choice((0.7, 1.0, 1.0, 1.5)),
            seed=chance.randrange(1 << 60),
            index=chance.randrange(4),
            first=chance.random() < 0.5,
        )
        for _ in range(count)
    ]


def different(count: int, chance: random.Random, tell: Any) -> int:
    """How many of `count` segments are not bitwise the same together as alone."""
    said = some_segments(count, chance)
    tell(f"{count} segments together")
    together = voices.speak_together(voices.backend(), said, chance)
    wrong = 0
    for number, (one, sound) in enumerate(zip(said, together, strict=True)):
        tell(f"segment {number + 1} of {count} alone")
        wrong += not np.array_equal(voices.speak(voices.backend(), one)[1], sound)
    return wrong


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, help="only so many (default: all)")
    parser.add_argument("--together", type=int, default=64, help="segments in a batch (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    texts = voices.TEXTS[: options.texts]
    with out.status("loading the voice") as status:
        found = []
        for number, text in enumerate(texts):
            status.update(f"text {number + 1} of {len(texts)}")
            found.append(against_at_once(text))
        wrong = different(options.together, random.Random(0), status.update)
    rows = [
        (
            text if len(text) < 60 else f"{text[:57]}…",
            f"{len(text.split())}",
            f"{seconds:.2f}",
            str(windows),
            f"{db:.1f}",
        )
        for text, (db, windows, seconds) in zip(texts, found, strict=True)
    ]
    out.print(note, highlight=False, style="dim")
    out.print(report.table("windows against the whole at once", ("text", "words", "seconds", "windows", "dB"), rows))
    same = options.together - wrong
    out.print(f"{same} of {options.together} segments spoken together are bitwise what they are alone", highlight=False)
    missed = [f"{text[:40]!r}: {db:.1f} dB" for text, (db, _, _) in zip(texts, found, strict=True) if db < BAR]
    if wrong:
        missed.append(f"{wrong} of {options.together} segments are not the same together as alone")
    if options.json:
        told = {"machine": note, "decibels": [db for db, _, _ in found], "together": options.together,
                "different": wrong, "missed": missed}  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
