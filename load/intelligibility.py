"""Is what the voice says understood? Sentences are spoken by the service and transcribed by the service.

Each of the sentences of load/spoken_sentences.toml (numbers, dates, times, money, units, abbreviations, addresses, each
with the words that a person would say, written by hand) and of the repository's recordings goes to /v1/audio/speech
and what comes back to /v1/audio/transcriptions with the model base. Word errors are counted against the words by hand,
after Whisper's English normaliser on both sides, which writes spoken numbers as digits. Letters that are spelled and
digits that are cut by the marks of a clock or a phone number are joined on both sides: "b b c" and "BBC" are the same.
Sentences with errors are shown.

Bar: at most 5 % word errors over all. Exit status 1 when it is missed. A service is started unless --url names one,
which must have the model.

    python -m load.intelligibility
    python -m load.intelligibility --sentences 10 --json intelligibility.json
"""

from __future__ import annotations

import asyncio
import json
import re
import shlex
from collections.abc import Sequence
from typing import Any

from aiohttp import ClientSession, FormData

from load import report
from load.scoring import normal, word_errors
from load.service import arguments, machine, service
from load.spoken import Sentence, sentences


async def hear(url: str, key: str | None, said: Sequence[Sentence], model: str, seed: int, tell: Any) -> list[str]:
    """What is understood of each."""
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    heard = []
    async with ClientSession(url, headers=headers) as http:
        for number, sentence in enumerate(said):
            tell(f"sentence {number + 1} of {len(said)}")
            body = {"model": "tts-1", "voice": "alloy", "input": sentence.written, "response_format": "wav",
                    "seed": seed}  # fmt: skip
            async with http.post("/v1/audio/speech", json=body) as answer:
                answer.raise_for_status()
                sound = await answer.read()
            form = FormData({"model": model, "language": "en", "response_format": "json"})
            form.add_field("file", sound, filename="speech.wav", content_type="audio/wav")
            async with http.post("/v1/audio/transcriptions", data=form) as answer:
                answer.raise_for_status()
                heard.append((await answer.json())["text"].strip())
    return heard


def folded(text: str) -> str:
    """Words as they are compared."""
    words = normal(re.sub(r"(?<=\d)[-:](?=\d)", "", text))
    words = re.sub(r"\b(\d{1,2})\.(\d\d)\b", r"\1\2", words)
    return re.sub(r"\b[a-z](?: [a-z])+\b", lambda found: found.group().replace(" ", ""), words)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--model", default="base", help="that transcribes (default %(default)s)")
    parser.add_argument("--sentences", type=int, help="only so many, spread over all (default: all)")
    parser.add_argument("--seed", type=int, default=0, help="another take of the voice (default %(default)s)")
    parser.add_argument("--bar", type=float, default=5.0, help="word errors in percent (default %(default)g)")
    options = parser.parse_args()
    out, note, said = report.console(), machine(), sentences()
    if options.sentences:
        said = said[:: max(1, len(said) // options.sentences)][: options.sentences]
    flags = ["--no-batch", "--models", options.model, *shlex.split(options.flags)]
    with service(options.url, flags) as running, out.status("speaking and listening") as status:
        heard = asyncio.run(hear(running.url, options.key, said, options.model, options.seed, status.update))
    kinds: dict[str, list[tuple[str, str]]] = {}
    for sentence, text in zip(said, heard, strict=True):
        pair = folded(sentence.spoken), folded(text)
        kinds.setdefault(sentence.kind, []).append(pair)
        if (error := word_errors([pair])) > 0:
            out.print(f"[dim]{sentence.kind}, {error:.0f} %[/]", highlight=False)
            out.print(f"    written  {sentence.written}\n    expected {pair[0]}\n    heard    "
                      f"{pair[1]}\n             {text}", highlight=False, markup=False)  # fmt: skip
    whole = word_errors(pair for pairs in kinds.values() for pair in pairs)
    rows = [(kind, str(len(pairs)), f"{word_errors(pairs):.1f} %") for kind, pairs in kinds.items()]
    rows.append(("all", str(len(said)), f"{whole:.2f} %"))
    out.print(note, highlight=False, style="dim")
    out.print(report.table(f"word errors, heard by {options.model}", ("kind", "sentences", "word errors"), rows))
    missed = [f"{whole:.2f} % word errors; the bar is {options.bar:g} %"] if whole > options.bar else []
    if options.json:
        told = {
            "machine": note,
            "model": options.model,
            "word_error_rate": whole,
            "kinds": {kind: word_errors(pairs) for kind, pairs in kinds.items()},
            "sentences": [
                {"kind": one.kind, "written": one.written, "expected": one.spoken, "heard": text}
                for one, text in zip(said, heard, strict=True)
            ],
            "missed": missed,
        }
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
