"""The command `speechlane`."""

from __future__ import annotations

import typer

from gateway.cli import doctor, jobs, keys, listen, models, say, serve, transcribe, voices, worker

app = typer.Typer(
    name="speechlane",
    help="""Speech to text while it is spoken, and text to speech while it is written, on your own machine.

    Start with:

      speechlane serve                      the service and its page, on http://127.0.0.1:8700

      speechlane listen talk.wav            stream a recording to it and watch the words come

      speechlane transcribe talk.mp3        files and folders, without a service

      speechlane jobs submit talk.mp3       hand long recordings to workers (speechlane worker), watch them

      speechlane say "Good morning."        text to speech, played or into a file (-o hello.mp3)

      speechlane doctor                     when something does not work
    """,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="serve", help=serve.HELP)(serve.command)
app.command(name="listen", help=listen.HELP)(listen.command)
app.command(name="transcribe", help=transcribe.HELP)(transcribe.command)
app.add_typer(jobs.app, name="jobs")
app.add_typer(keys.app, name="keys")
app.command(name="worker", help=worker.HELP)(worker.command)
app.command(name="say", help=say.HELP)(say.command)
app.command(name="voices", help=voices.HELP)(voices.command)
app.command(name="models", help=models.HELP)(models.command)
app.command(name="doctor", help=doctor.HELP)(doctor.command)
