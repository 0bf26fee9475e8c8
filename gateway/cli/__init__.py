"""The command `speechlane`."""

from __future__ import annotations

import typer

from gateway.cli import (
    collections,
    doctor,
    documents,
    embed,
    embed_worker,
    film,
    imagine,
    jobs,
    keys,
    listen,
    look,
    models,
    say,
    search,
    serve,
    transcribe,
    tune,
    voices,
    worker,
)
from gateway.cli.brought import Commands

app = typer.Typer(
    name="speechlane",
    cls=Commands,
    help="""Speech to text while it is spoken, and text to speech while it is written, on your own machine.

    Start with:

    \b
      speechlane serve                  the service and its pages
      speechlane listen talk.wav        stream a recording to it, at its speed
      speechlane transcribe talk.mp3    files and folders, without a service
      speechlane jobs submit talk.mp3   long recordings, for workers
      speechlane say "Good morning."    speech, played or into a file (-o)
      speechlane look shapes.png "how many circles are there"
      speechlane imagine "a red circle top left" -o shapes.png
      speechlane embed texts/ --into my   documents, to be found by meaning
      speechlane search my "a question"
      speechlane doctor                 when something does not work
    """,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command(name="serve", help=serve.HELP, short_help="The service and its pages.")(serve.command)
app.command(name="listen", help=listen.HELP, short_help="Stream speech to a service, see the words.")(listen.command)
app.command(name="transcribe", help=transcribe.HELP, short_help="Transcribe files here, without a service.")(
    transcribe.command
)
app.add_typer(jobs.app, name="jobs", short_help="Hand recordings to workers, watch them.")
app.add_typer(keys.app, name="keys", short_help="API keys of a running service.")
app.command(name="worker", help=worker.HELP, short_help="Work on jobs.")(worker.command)
app.command(name="embed", help=embed.HELP, short_help="Documents into a collection.")(embed.command)
app.command(name="search", help=search.HELP, short_help="Search a collection.")(search.command)
app.add_typer(collections.app, name="collections", short_help="Collections of texts that can be searched.")
app.command(name="embed-worker", help=embed_worker.HELP, short_help="Embed for others.")(embed_worker.command)
app.add_typer(documents.app, name="documents", short_help="Read PDFs and pictures, ask about them.")
app.command(name="look", help=look.HELP, short_help="Ask about pictures and clips.")(look.command)
app.command(name="imagine", help=imagine.HELP, short_help="Pictures out of a text.")(imagine.command)
app.command(name="film", help=film.HELP, short_help="A clip out of a text.")(film.command)
app.command(name="say", help=say.HELP, short_help="Speak a text, here or at a service.")(say.command)
app.command(name="voices", help=voices.HELP, short_help="The voices there are.")(voices.command)
app.command(name="tune", help=tune.HELP, short_help="Try a model's options on this machine.")(tune.command)
app.command(name="models", help=models.HELP, short_help="The models that Speechlane knows.")(models.command)
app.command(name="doctor", help=doctor.HELP, short_help="Check this machine, say how to mend it.")(doctor.command)
