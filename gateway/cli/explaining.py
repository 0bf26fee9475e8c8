"""`speechlane say --explain`: how a text is read, as a table."""

from __future__ import annotations

from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from gateway.cli.saying import Manner
from gateway.cli.service import ask


def explained(text: str, manner: Manner, url: str | None, key: str | None) -> dict[str, Any]:
    """The explanation, made here or by the service at `url`. Raises ClientError, ServingError, ModelError."""
    if url is not None:
        body = {"input": text, "voice": manner.voice, **({"lexicon": manner.lexicon} if manner.lexicon else {})}
        answer: dict[str, Any] = ask(url, key, "/v1/text/explain", body)
        return answer
    from speech.text.explain import explain
    from speech.text.lexicon import Lexicon
    from speech.voices.load import load_voices

    voice = load_voices((manner.voice or "heart",))[0]
    return explain(text, lexicon=Lexicon(manner.lexicon), voice=voice).as_json()


def show(explanation: dict[str, Any], console: Console) -> None:
    """What is said for what, in the order of the text, with what is left out in its place."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("text", style="bold", overflow="fold")
    table.add_column("characters", style="dim", justify="right")
    table.add_column("rule", style="cyan")
    table.add_column("spoken", overflow="fold")
    table.add_column("phonemes", style="green", overflow="fold")
    rows = [(one["start"], one, True) for one in explanation["tokens"]]
    rows += [(one["start"], one, False) for one in explanation["removed"]]
    for _, one, spoken in sorted(rows, key=lambda row: row[0]):
        where = f"{one['start']}-{one['end']}"
        written = Text(_visible(one["written"]))
        if spoken:
            table.add_row(written, where, one["rule"], Text(one["spoken"]), Text(one["phonemes"]))
        else:
            table.add_row(written, where, f"left out: {one['policy']}", "", "", style="dim")
    console.print(table)
    console.print(Text.assemble(("spoken  ", "dim"), explanation["spoken"] or "(nothing)"))


def _visible(text: str) -> str:
    """Control characters would act on the terminal."""
    return "".join(one if one.isprintable() else f"\\x{ord(one):02x}" for one in text)
