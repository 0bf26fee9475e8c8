"""`speechlane capacity`: measure how many people the service can have, keep the number, prove it.

Only typer is imported before a command runs: the command line of the service shows this help with its own.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from load.harness.options import Cpus, Flags, HtmlFile, JsonFile, Key, Seed, numbers

if TYPE_CHECKING:
    from load.capacity.goal import Goal
    from load.harness.trial import Trial

HELP = """Measure how many live streams this machine carries, and let the service admit by that number.

The number is doubled until one does not meet the objective, bisected, and held until it is shown with --confidence that
the objective is met (exact binomial bounds). It is written where the service reads it at its next start, and is valid
until the model, the device, its precision, the threads, the machine or a version changes. Then it is proven: of a tenth
fewer all are admitted and all are well; of a tenth more the excess is refused at once, and the others are well.

asr: streams that speak all the time. At most --late of the recordings get their last final more than --within seconds
after their voice, none is lost, and the words are not worse than one stream's alone. tts: listeners who are spoken to
all the time. At most --underruns of the utterances have a gap, and at most --late begin more than --within seconds
after their text.

A service is started for it unless --url names one, which has to be started with --admission everybody. Let nothing else
run meanwhile. Exits with 0 when a number was found and proven, 1 when not, 2 when the arguments are wrong.

Examples:

  speechlane capacity asr

  speechlane capacity asr --model base --threads 2 --start 4

  speechlane capacity tts --longest 7200 --html tts.html

  speechlane capacity asr --prove-only     whether what the service promises is true

  speechlane capacity show                 the numbers there are
"""


class Kind(StrEnum):
    """What is measured."""

    ASR = "asr"
    TTS = "tts"
    SHOW = "show"


app = typer.Typer(
    rich_markup_mode=None,
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

Service = Annotated[
    str | None, typer.Option("--url", help="A service that admits everybody, http://HOST:PORT. Unset: one is started.")
]
Model = Annotated[str | None, typer.Option(help="The model, or the voice, of the one that is started.")]


@app.command("capacity", help=HELP, short_help="How many people the service can have; it admits by that.")
def command(
    kind: Annotated[Kind, typer.Argument(help="asr, tts; show: only tell what was found before.")],
    url: Service = None,
    key: Key = None,
    model: Model = None,
    device: Annotated[str, typer.Option(help="cpu, cuda:0; cuda: every GPU.")] = "cpu",
    threads: Annotated[int | None, typer.Option(help="CPU threads. Unset: as the service chooses.", min=1)] = None,
    flags: Flags = "",
    cpus: Cpus = "",
    start: Annotated[int, typer.Option(help="Clients to begin with.", min=1)] = 1,
    most: Annotated[int, typer.Option(help="Clients to end with.", min=1, max=10_000)] = 256,
    seconds: Annotated[float, typer.Option(help="Length of a step of the search.", min=1)] = 60.0,
    hold: Annotated[float, typer.Option(help="Seconds that the number is held at least.", min=1)] = 120.0,
    longest: Annotated[float, typer.Option(help="Seconds that it is held at most.", min=1)] = 3600.0,
    within: Annotated[float, typer.Option(help="Seconds to the final, or to the first sound.", min=0.01)] = 1.0,
    late: Annotated[float, typer.Option(help="Share that may be later; 0.05 is p95.", min=1e-6, max=0.999)] = 0.05,
    underruns: Annotated[
        float, typer.Option(help="Share of utterances that may have a gap.", min=1e-6, max=0.999)
    ] = 0.001,
    word_errors: Annotated[
        float, typer.Option(help="Points of word error rate that may be added to one stream's alone.", min=0)
    ] = 1.0,
    confidence: Annotated[float, typer.Option(help="With which the number is shown.", min=0.5, max=0.9999)] = 0.95,
    seed: Seed = 0,
    keep: Annotated[bool, typer.Option(help="Write the number down, and prove it.")] = True,
    prove_only: Annotated[bool, typer.Option("--prove-only", help="Prove the number that there is.")] = False,
    as_json: JsonFile = None,
    html: HtmlFile = None,
) -> None:
    # Imported late so that --help and wrong arguments answer at once.
    import resource
    import shlex

    from load import report
    from load.capacity.goal import hearing, speaking
    from load.capacity.keeping import HEAD, folder, rows
    from load.capacity.measure import Plan
    from load.capacity.session import Session, Target
    from load.capacity.telling import table, told, write_page
    from load.harness.asr import FINAL, AsrTrial
    from load.harness.run import apart
    from load.harness.trial import Objective
    from load.harness.tts import FIRST, TtsTrial
    from load.service import machine

    out = report.console()
    if kind is Kind.SHOW:
        out.print(report.table(f"measured, in {folder()}", HEAD, rows(folder())))
        return
    if start > most:
        raise typer.BadParameter(f"--start {start} is more than --most {most}")
    if url is not None and not url.startswith(("http://", "https://")):
        raise typer.BadParameter(f"{url!r} does not look like http://127.0.0.1:8700", param_hint="--url")
    trial: Trial
    goal: Goal
    if kind is Kind.ASR:
        trial, goal = AsrTrial(Objective(FINAL, within)), hearing(within, late, word_errors, confidence)
    else:
        trial, goal = TtsTrial(Objective(FIRST, within)), speaking(within, late, underruns, confidence)
    note, own = machine(), numbers(cpus, "--cpus")
    apart(own)
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (files, files))  # the service inherits it
    target = Target(str(kind), url, key, model, device, threads, shlex.split(flags), own, most)
    session = Session(target, trial, goal, Plan(start, most, seconds, hold, longest, seed), out)
    out.print(f"{note}\n{goal.objective}", highlight=False, style="dim")
    try:
        missed = session.prove_only() if prove_only else session.measure(keep=keep)
    except KeyboardInterrupt:
        missed = ["interrupted"]
    if session.runs:
        out.print(table(session))
    if as_json is not None:
        as_json.write_text(json.dumps(told(session, note, missed), indent=1, ensure_ascii=False), encoding="utf-8")
    if html is not None and session.runs:
        write_page(html, session, note)
    raise typer.Exit(report.verdict(out, missed))
