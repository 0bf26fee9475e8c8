"""`speechlane say`: text spoken here or by a service, into a file, a pipe or the loudspeaker."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Annotated

import typer

from gateway.cli.console import err, fail, out

HELP = """Speak a text: the argument, a file, or - for standard input, which is spoken while it comes.

With -o the sound goes to a file whose ending chooses the format (wav, flac, mp3, opus, aac); -o - or a pipe takes a
WAV stream, or what --format names (pcm16 for raw samples). In a terminal without -o it is played.

The voice speaks in this process, unless --url names a running service. --explain shows how the text is read instead
of speaking it: each word of the text, what is said for it, the rule that decided so, and its phonemes.

Exits with 0 when all was spoken, 1 when it could not be, 2 when the arguments are wrong, 130 when interrupted.

Examples:

  speechlane say 'Dr. Smith paid $3.50 on 10/12/2019.' -o smith.wav

  speechlane say --file chapter.txt -o chapter.mp3 --speed 1.2

  tail -f notes.txt | speechlane say - --play

  speechlane say "Good morning." --format pcm16 --rate 16000 | aplay -f S16_LE -r 16000

  speechlane say "The answer is no. 3,497 people left." --explain

  speechlane say "Hello." --url http://127.0.0.1:8700 -o hello.opus
"""


def command(
    text: Annotated[str | None, typer.Argument(metavar="TEXT|-", help="What to say; - reads standard input.")] = None,
    file: Annotated[Path | None, typer.Option("--file", "-f", help="Text file to speak, UTF-8.")] = None,
    output: Annotated[str | None, typer.Option("--out", "-o", metavar="FILE|-", help="Where the sound goes.")] = None,
    play: Annotated[bool, typer.Option("--play", help="Play it on the default loudspeaker.")] = False,
    explain: Annotated[bool, typer.Option("--explain", help="Show how the text is read; make no sound.")] = False,
    voice: Annotated[str, typer.Option(help="Voice; unset: the default. speechlane voices lists them.")] = "",
    speed: Annotated[float, typer.Option(help="Pace as a factor, 0.25 to 4.", min=0.25, max=4.0)] = 1.0,
    seed: Annotated[int, typer.Option(help="Another one is another take of the same text.", min=0)] = 0,
    kind: Annotated[
        str | None, typer.Option("--format", metavar="wav,mp3,pcm16...", help="Format; unset: by the file's ending.")
    ] = None,
    rate: Annotated[int | None, typer.Option(help="Sample rate of the sound, Hz; unset: the voice's own.")] = None,
    lexicon: Annotated[
        Path | None, typer.Option(help="JSON or TOML table: word = respelling, or phonemes between slashes.")
    ] = None,
    url: Annotated[
        str | None, typer.Option(help="Let this service speak; unset: this process.", envvar="SPEECHLANE_URL")
    ] = None,
    key: Annotated[
        str | None, typer.Option(help="API key; better given in the variable.", envvar="SPEECHLANE_API_KEY")
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress.")] = False,
) -> None:
    if (text is None) == (file is None):
        fail("give a text, - for standard input, or --file: one of them", 2)
    if explain and (output or play):
        fail("--explain makes no sound; leave out -o and --play", 2)
    if play and output:
        fail("--play and -o exclude each other", 2)
    # Imported late so that --help and wrong arguments answer at once.
    from gateway.cli.explaining import explained, show
    from gateway.cli.saying import Manner, SayError, read_lexicon, said, speak
    from gateway.cli.sound_out import sink_for
    from speech.models import ModelError
    from speechlane.client.errors import ClientError, SourceError
    from workers.errors import ServingError

    try:
        manner = Manner(voice=voice, speed=speed, seed=seed, lexicon=read_lexicon(lexicon))
        if explain:
            show(explained(said(text, file), manner, url, key), out)
            return
        sink = sink_for(output, play, kind, rate, terminal=sys.stdout.isatty())
        progress = None if quiet or not err.is_terminal else err.status("Loading the voice" if url is None else "")
        asyncio.run(speak(text, file, manner, sink, url=url, key=key, progress=progress))
    except (SayError, ClientError, SourceError, ModelError) as error:
        fail(str(error))
    except ServingError as error:
        fail(error.message, 2 if error.status == 422 else 1)
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(130) from None
