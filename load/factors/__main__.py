"""What would make live Whisper cheaper still? Each factor beside the engine as it is served here, in one run.

Recordings are decoded as live streams have it: a partial every second as the utterance grows, stable words kept, and
the final. All engines take turns, recording by recording, in an order that changes; one thread; CPU seconds.

  cost         CPU seconds with the factor over those without it, with its bounds (5 and 95 %, over the recordings)
  encode       the same of the encoder's part alone, of partials and of finals; decode likewise
  word errors  of finals, without → with it
  same texts   finals that have the same words
  verdict      on: surely below 0.95 of the cost, and the same words or at most 0.3 points more wrong ones

A factor that is served already is measured the other way: what the engine costs beside itself without it.

    python -m load.factors
    python -m load.factors --only 'redo 1.0 s' --model base --recordings 120
    python -m load.factors --list
"""

from __future__ import annotations

import argparse
import json
import time
import warnings
from pathlib import Path

import torch
from faster_whisper.audio import decode_audio
from rich.progress import Progress

from load import report
from load.factors.factor import Absent, Base, Factor, factors
from load.factors.live import PARTS, Engine
from load.factors.trial import Found, Line, audio, compared, measure, told
from load.service import machine
from load.whisper_window import clips
from speech.asr import SAMPLE_RATE

HEAD = (
    "factor", "cost", "partial: encode", "decode", "final: encode", "decode", "word errors", "same texts", "verdict",
)  # fmt: skip
SERVED = "as served"


def lines(language: str, count: int) -> list[Line]:
    """Recordings with what is said in them, spread over all there are."""
    return [Line(decode_audio(str(clip.path), sampling_rate=SAMPLE_RATE), clip.text) for clip in clips(language, count)]


def row(found: Found) -> tuple[str, ...]:
    on, why = found.verdict
    parts = (f"{found.parts[name]:.2f}" if name in found.parts else "-" for name in PARTS)
    verdict = f"on{', served' if found.factor.served else ''}" if on else f"off: {why}"
    return (
        found.factor.name, f"{found.ratio:.2f} ({found.low:.2f} to {found.high:.2f})", *parts,
        f"{found.errors[0]:.2f} → {found.errors[1]:.2f} %", f"{100 * found.same:.1f} %", verdict,
    )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="names of factors, separated by commas (default: all)")
    parser.add_argument("--side", choices=("encoder", "decoder"), help="of one half alone")
    parser.add_argument("--model", default="tiny.en", help="default %(default)s")
    parser.add_argument("--recordings", type=int, default=40, help="English ones (default %(default)s)")
    parser.add_argument("--rounds", type=int, default=1, help="times each is decoded (default %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="another order (default %(default)s)")
    parser.add_argument("--list", action="store_true", help="only tell what there is")
    parser.add_argument("--json", type=Path, help="write all figures here")
    asked = parser.parse_args()
    wanted = [name.strip() for name in asked.only.split(",") if name.strip()]
    known = list(factors())
    if unknown := set(wanted) - {one.name for one in known}:
        parser.error(f"no factor {', '.join(sorted(unknown))}; there is {', '.join(one.name for one in known)}")
    chosen = [one for one in known if (not wanted or one.name in wanted) and asked.side in (None, one.side)]
    out = report.console()
    if asked.list:
        out.print(report.table("Factors", ("factor", "side", "what"), [(f.name, f.side, f.what) for f in chosen]))
        return 0
    warnings.filterwarnings("ignore")
    torch.set_num_threads(1)
    base = Base.of(asked.model)
    engines: dict[str, Engine] = {SERVED: base.loaded()}
    absent: dict[str, str] = {}
    present: list[Factor] = []
    for factor in chosen:
        with out.status(f"making {factor.name}"):
            try:
                engines[factor.name] = factor.make(base)
                present.append(factor)
            except Absent as reason:
                absent[factor.name] = str(reason)
    spoken, began = lines("en", asked.recordings), time.monotonic()
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task("recordings", total=len(spoken) * asked.rounds)
        rows = measure(engines, spoken, asked.rounds, asked.seed, lambda: progress.advance(task))
    found = [compared(factor, rows[SERVED], rows[factor.name], spoken) for factor in present]
    served, seconds = rows[SERVED], audio(spoken) * asked.rounds
    parts = ", ".join(f"{name} {served.parts[name] / seconds:.3f}" for name in PARTS)
    note = (
        f"{machine()}; {base.name} {base.precision}, {len(spoken)} recordings, {audio(spoken):.0f} s; as served "
        f"{sum(served.cost) / seconds:.3f} CPU s a second of audio ({parts}); {time.monotonic() - began:.0f} s"
    )
    out.print(note, highlight=False, style="dim")
    out.print(report.table("Beside the engine as it is served", HEAD, [row(one) for one in found]))
    for name, why in absent.items():
        out.print(f"[yellow]{name}[/] cannot be had here: {why}", highlight=False)
    if asked.json is not None:
        asked.json.write_text(json.dumps({"note": note, "absent": absent, "factors": [told(one) for one in found]}))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
