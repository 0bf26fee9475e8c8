"""Inspection and repair over transcripts that went wrong for real, and over repetitions that are true.

Prints how many loops and inventions are found, how many of those are repaired, how many true repetitions are harmed,
false alarms and decodes, for the tuning half of the cases and for the half held out.

    python -m load.batch_repair [--seed 1] [--family "tiled"] [--show]
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import jiwer
from rich.console import Console
from rich.progress import track
from rich.table import Table

from batch_jobs.inspect.inspection import inspect
from batch_jobs.inspect.loops import loops
from batch_jobs.inspect.units import units
from batch_jobs.repair.plan import apply, plan
from batch_jobs.repair.repairing import repair
from batch_jobs.transcript import Repair, Segment, Suspicion
from load.batch_cases import Case, normal, wrong
from load.batch_models import bare, voice
from load.batch_repeats import ordinary, repeated
from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples, Transcript

SMALL_ERROR = 0.1
"""Word error rate up to which a text counts as the truth: a letter of a name, not a sentence."""
MORE_OFTEN = 1.35
"""Nobody can spell a scrap of a word, but its number is known: so much more often, or half as often (two may be heard
as one word), still counts as that number. The loops that go in say it two to seven times as often."""


@dataclass(frozen=True, slots=True)
class Outcome:
    case: Case
    suspicions: tuple[Suspicion, ...]
    repairs: tuple[Repair, ...]
    after: tuple[Segment, ...]
    decodes: int
    decoded: float
    seconds: float

    @property
    def text(self) -> str:
        return " ".join(s.text for s in self.after).strip()


def mend(case: Case, other: str | None = None) -> Outcome:
    """Inspect and repair one transcript, as the batch lane does with a file."""
    begun = time.perf_counter()
    samples = case.sound.samples
    seconds = len(samples) / SAMPLE_RATE
    speech = {0: voice(samples)}
    spent: list[float] = []

    def audio(channel: int, start: float, end: float) -> Samples:
        return samples[max(round(start * SAMPLE_RATE), 0) : max(round(end * SAMPLE_RATE), 0)]

    def counted(model: str) -> Callable[[FinalRequest], asyncio.Future[Transcript]]:
        async def decode(request: FinalRequest) -> Transcript:
            spent.append(len(request.samples) / SAMPLE_RATE)
            return bare(model)(request)

        return decode  # type: ignore[return-value]

    suspicions = inspect(case.segments, speech, audio)
    repairs = []
    for task in plan(suspicions, case.segments, speech, seconds):
        part = audio(0, task.start, task.end)
        again = counted(other) if other else None
        repairs.append(asyncio.run(repair(task, part, counted(case.sound.model), DecodeOptions(), again)))
    after = apply(case.segments, [(r.start, r.end, r.channel, r.after) for r in repairs if r.kept])
    return Outcome(case, tuple(suspicions), tuple(repairs), after, len(spent), sum(spent),
                   time.perf_counter() - begun)  # fmt: skip


def right(case: Case, after: Sequence[Segment]) -> bool:
    """Whether the text is what was said."""
    sound = case.sound
    text = " ".join(s.text for s in after).strip()
    heard, truth = normal(text, sound.language), normal(sound.truth, sound.language)
    if sound.said:
        return 0.5 <= turns(after) / sound.said <= MORE_OFTEN
    if not truth:
        return not text.strip(" .")
    if sound.scraps:
        kept = heard.split()[: len(truth.split())]
        rest = heard.split()[len(truth.split()) :]
        return jiwer.wer(truth, " ".join(kept)) <= SMALL_ERROR and len(rest) <= 3 * sound.scraps
    return float(jiwer.wer(truth, heard)) <= SMALL_ERROR


def turns(segments: Sequence[Segment]) -> float:
    """How often a text says what it repeats, all its loops together."""
    return sum(loop.times for loop in loops(units([word for s in segments for word in s.words])))


def left(case: Case, segments: Sequence[Segment]) -> list[Suspicion]:
    """What still looks wrong."""
    samples = case.sound.samples

    def audio(channel: int, start: float, end: float) -> Samples:
        return samples[max(round(start * SAMPLE_RATE), 0) : max(round(end * SAMPLE_RATE), 0)]

    return inspect(segments, {0: voice(samples)}, audio)


def errors(case: Case, text: str) -> float:
    truth = normal(case.sound.truth, case.sound.language)
    return float(jiwer.wer(truth, normal(text, case.sound.language)))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--family", help="only the cases of one family")
    parser.add_argument("--model", help="only the cases of one model")
    parser.add_argument("--seed", type=int, default=0, help="another set of sounds: 0 is the one that was tuned on")
    parser.add_argument("--show", action="store_true", help="print every case that went wrong")
    parser.add_argument("--all", action="store_true", help="print every case")
    args = parser.parse_args()
    console = Console(width=150, soft_wrap=True)
    cases, tried = wrong(args.seed)
    true, plain = repeated(args.seed), ordinary(args.seed)

    def chosen(case: Case) -> bool:
        return args.family in (None, case.sound.family) and args.model in (None, case.sound.model)

    work = [c for c in [*cases, *true, *plain] if chosen(c)]
    done = [mend(c, "base" if c.sound.family == "other language" else None) for c in track(work, console=console)]
    kept = [o for o in done if any(o.case is c for c in true)]
    usual = [o for o in done if any(o.case is c for c in plain)]
    broken = [o for o in done if o not in kept and o not in usual]
    table = Table(title=f"{len(cases)} cases of {tried} sounds, {len(true)} true repetitions")
    for name in ("cases", "of", "found", "repaired", "decodes", "decoded / audio", "CPU s"):
        table.add_column(name, justify="left" if name == "cases" else "right")
    for half, held in (("tuning", False), ("held out", True)):
        rows = [o for o in broken if o.case.held_out == held]
        for family in [*dict.fromkeys(o.case.sound.family for o in rows), None]:
            _row(table, f"{half}: {family or 'all'}", [o for o in rows if family in (None, o.case.sound.family)])
        table.add_section()
    _row(table, "all cases", broken)
    console.print(table)
    harmed = [o for o in kept if errors(o.case, o.text) > errors(o.case, o.case.text) + 1e-9]
    good = [o for o in kept if errors(o.case, o.case.text) <= SMALL_ERROR]
    alarms = [o for o in good if o.suspicions]
    better = [o for o in kept if errors(o.case, o.text) < errors(o.case, o.case.text) - 1e-9]
    console.print(
        f"true repetitions: {len(kept)}, harmed {len(harmed)}; of the {len(good)} transcribed rightly {len(alarms)} "
        f"suspected; of the {len(kept) - len(good)} others {len(better)} made better; "
        f"{sum(o.decodes for o in kept)} decodes"
    )
    _usual(console, usual)
    if args.show or args.all:
        for o in broken:
            if args.all or not o.suspicions or not right(o.case, o.after):
                _show(console, o)
        for o in [*kept, *usual]:
            if args.all or o in harmed or o in alarms or o in usual:
                _show(console, o)


def _usual(console: Console, rows: Sequence[Outcome]) -> None:
    """What inspection and repair do to speech in which nothing is wrong but the model's hearing."""
    for model in dict.fromkeys(o.case.sound.model for o in rows):
        own = [o for o in rows if o.case.sound.model == model]
        truth = [normal(o.case.sound.truth, "en") for o in own]
        before, after = (float(jiwer.wer(truth, [normal(text, "en") for text in texts]))
                         for texts in ([o.case.text for o in own], [o.text for o in own]))  # fmt: skip
        seconds = sum(len(o.case.sound.samples) for o in own) / SAMPLE_RATE
        console.print(
            f"ordinary speech, {model}, {seconds:.0f} s: word error rate {100 * before:.2f} % -> {100 * after:.2f} %; "
            f"{sum(len(o.repairs) for o in own)} spans suspected, "
            f"{sum(r.kept for o in own for r in o.repairs)} changed; "
            f"decoded again {100 * sum(o.decoded for o in own) / seconds:.1f} % of the audio"
        )


def _row(table: Table, name: str, rows: Sequence[Outcome]) -> None:
    found = [o for o in rows if o.suspicions]
    mended = [o for o in found if right(o.case, o.after)]
    audio = sum(len(o.case.sound.samples) for o in rows) / SAMPLE_RATE
    table.add_row(
        name,
        str(len(rows)),
        f"{len(found)} ({100 * len(found) / max(len(rows), 1):.1f} %)",
        f"{len(mended)} ({100 * len(mended) / max(len(found), 1):.1f} %)",
        str(sum(o.decodes for o in rows)),
        f"{sum(o.decoded for o in rows) / max(audio, 1e-3):.2f}",
        f"{sum(o.seconds for o in rows):.0f}",
    )


def _show(console: Console, o: Outcome) -> None:
    sound = o.case.sound
    notes = [f"{len(sound.samples) / SAMPLE_RATE:.0f} s", "held out" if o.case.held_out else "tuning"]
    notes.append("right" if right(o.case, o.after) else "WRONG")
    if sound.said:
        notes.append(f"{sound.said} times")
    console.print(f"[bold]{sound.model} {sound.family}: {sound.name}[/bold] ({', '.join(notes)})")
    for name, text in (("truth", sound.truth), ("before", o.case.text), ("after", o.text)):
        console.print(f"  {name}: {text[:240]!r} ({len(text)})", markup=False, highlight=False)
    for s in o.suspicions:
        console.print(f"  {s.rule} {s.start:.2f}-{s.end:.2f} {s.value} {s.detail}", markup=False, highlight=False)
    for s in left(o.case, o.after):
        console.print(f"  left: {s.rule} {s.start:.2f}-{s.end:.2f} {s.value} {s.detail}", markup=False, highlight=False)
    for r in o.repairs:
        after = " ".join(s.text for s in r.after)
        console.print(
            f"  {r.start:.2f}-{r.end:.2f} {r.score_before:.3f} -> {r.score_after:.3f} kept={r.kept} "
            f"{r.attempts} decodes: {r.how}: {after[:160]!r}",
            markup=False,
            highlight=False,
        )


if __name__ == "__main__":
    main()
