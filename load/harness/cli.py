"""`speechlane load`: many clients at a service, each of which checks what it gets.

Only typer is imported before a command runs: the command line of the service shows this help with its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from load.harness.options import Asked, Recordings, Visit, WordErrors, with_run

if TYPE_CHECKING:
    from pathlib import Path

    from load.corpora import Clip
    from load.harness.trial import Objective, Trial

HELP = """Many clients at a service, over real sockets at the speed of speech, each of which checks what it gets.

Tells latencies as p50, p95 and p99, counted from the moment at which something was due, what was refused, what came
late, broken or wrong, and how the event loops of both sides were meanwhile; and says when the clients themselves are
too slow for the figures to be those of the service. Without --url a service is started for it.

Exits with 1 when a check failed (something was lost, doubled, wrong or, with --objective, late), 2 when the arguments
are wrong.

Examples:

  speechlane load asr --clients 1,2,4,8 --html load.html

  speechlane load tts --url http://127.0.0.1:8700 --clients 10 --seconds 300

  speechlane load asr --clients 6 --arrivals poisson --objective 1.0
"""
ASR = """Streams of live transcription: each says recordings in random order at the speed of speech.

Checked: every utterance ends exactly once, in order, nothing comes behind its end, every recording is heard; the word
error rate of each stream. A recording is late when its last final comes more than the objective (1 s) after its voice
has ended.

Examples:

  speechlane load asr --clients 1,2,4 --seconds 60

  speechlane load asr --recordings calls/ --word-errors 20 --url http://127.0.0.1:8700
"""
TTS = """Listeners: each is spoken to on a socket of its own, without a pause, and plays what comes.

Checked: every sample comes, once and in order, and can be heard. An utterance is late when its first audible sample is
played later than the objective (1 s), or when the sound stops for more than 10 ms (an underrun).

Examples:

  speechlane load tts --clients 1,5,10 --seconds 120

  speechlane load tts --arrivals bursts --burst 8 --clients 6
"""
VOICE = """Conversations: each client says a recording, hears the answer to its end, and says the next.

Checked: every turn is transcribed once and answered once, the answer is heard without a gap, and says what was heard
(with the embedded assistant). A turn is late when the first audible sample of the answer comes more than the objective
(1.5 s) after the last voice, which holds the silence that ends a turn.

Examples:

  speechlane load voice --clients 1,2 --seconds 60

  speechlane load voice --silence 300 --url http://127.0.0.1:8700
"""
EMBED = """Clients of /v1/embeddings: each asks for the vector of a text --rate times a second.

Checked: every vector is that of its text. A question is late when its answer comes more than the objective (0.2 s)
after it was due, even when its client had to wait for the answer before.

Examples:

  speechlane load embed --clients 1,10,50

  speechlane load embed --arrivals poisson --clients 20 --rate 2 --batch 8
"""
JOBS = """Clients of the batch lane: each hands in a recording, watches the job to its end, reads the transcript.

Checked: every job ends once, as done; every second of its audio is accounted for; the word error rate. A job is late
when it ends more than the objective (60 s) after it was handed in. The jobs are removed again.

Examples:

  speechlane load jobs --clients 1,2 --length 120 --seconds 60

  speechlane load jobs --arrivals bursts --clients 4 --objective 120
"""

app = typer.Typer(
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode=None,
    short_help="Many clients at a service, which check what they get.",
    add_completion=False,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.command("asr", help=ASR, short_help="Streams of live transcription.")
@with_run
def asr(run: Asked, recordings: Recordings = None, word_errors: WordErrors = None, visit: Visit = 20.0) -> None:
    from load.harness.asr import USUAL, AsrTrial

    trial = AsrTrial(objective(run, USUAL), run.coming(1.0), visit=visit, most_errors=word_errors)
    trial.recordings = _clips(recordings)
    _measure(trial, run, "--no-batch")


@app.command("tts", help=TTS, short_help="Listeners of speech.")
@with_run
def tts(run: Asked, visit: Visit = 8.0) -> None:
    from load.harness.tts import USUAL, TtsTrial

    _measure(TtsTrial(objective(run, USUAL), run.coming(6.0), visit), run, "--no-batch")


@app.command("voice", help=VOICE, short_help="Conversations.")
@with_run
def voice(
    run: Asked,
    recordings: Recordings = None,
    word_errors: WordErrors = None,
    visit: Visit = 20.0,
    silence: Annotated[int, typer.Option(help="Silence that ends a turn, ms.", min=30, max=20_000)] = 500,
) -> None:
    from load.harness.voice import USUAL, VoiceTrial

    trial = VoiceTrial(objective(run, USUAL), run.coming(4.0), silence=silence, visit=visit)
    trial.recordings, trial.most_errors = _clips(recordings), word_errors
    _measure(trial, run, "--no-batch")


@app.command("embed", help=EMBED, short_help="Clients of the embeddings.")
@with_run
def embed(
    run: Asked,
    rate: Annotated[float, typer.Option(help="Questions of a client in a second.", min=0.001)] = 1.0,
    batch: Annotated[int, typer.Option(help="Texts of a question.", min=1, max=2048)] = 1,
    long: Annotated[bool, typer.Option("--long", help="Whole paragraphs, not what somebody would type.")] = False,
    model: Annotated[str, typer.Option(help="As the service knows it.")] = "text-embedding-3-small",
) -> None:
    from load.harness.embed import USUAL, EmbedTrial

    trial = EmbedTrial(objective(run, USUAL), run.coming(1.0), rate, batch, long, model)
    _measure(trial, run, "--no-batch", "--voices", "")


@app.command("jobs", help=JOBS, short_help="Clients of the batch lane.")
@with_run
def jobs(
    run: Asked,
    recordings: Recordings = None,
    word_errors: WordErrors = None,
    length: Annotated[float, typer.Option(help="Seconds of audio of a job, about.", min=1.0)] = 60.0,
    patience: Annotated[float, typer.Option(help="Seconds in which a job must end.", min=1.0)] = 600.0,
) -> None:
    import tempfile

    from load.harness.jobs import USUAL, JobsTrial

    trial = JobsTrial(objective(run, USUAL), run.coming(1.0), length=length, patience=patience)
    trial.recordings, trial.most_errors = _clips(recordings), word_errors
    with tempfile.TemporaryDirectory(prefix="speechlane-load-") as directory:
        _measure(trial, run, "--batch-dir", directory)


def objective(run: Asked, usual: Objective) -> Objective:
    """What was asked for, else the kind's own."""
    return usual if run.objective is None else replace(usual, seconds=run.objective)


def _clips(folder: Path | None) -> list[Clip]:
    """Raises BadParameter when there are none."""
    from load.corpora import recordings

    try:
        return recordings(folder)
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="--recordings") from error


def _measure(trial: Trial, run: Asked, *flags: str) -> None:
    """Ends the command."""
    from load.harness.run import measure

    raise typer.Exit(measure(trial, run, flags))
