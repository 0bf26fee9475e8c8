"""How soon is the first audible sound of a sentence heard, beside the time that the whole sentence takes to make?

A sentence of 25 words, one listener, nobody else. In turn, so that all meet the same machine:

  streaming   the context created on /v1/speak -> the first audible sample has come (20 ms over -45 dBFS)
  package     hibari's own synthesis of the sentence in one call, in this process
  whole       text posted to /v1/audio/speech -> the last byte of its answer

Each is also told as it is heard: a player that begins with the first sound plays the silence at its head first.

Bar: p50 of streaming is at most half of p50 of the package's one call. Exit status 1 when it is missed.

    python -m load.first_sound
    python -m load.first_sound --rounds 10
"""

from __future__ import annotations

import asyncio
import json
import shlex
import time
from typing import Any

import numpy as np
from aiohttp import ClientSession
from hibari import Hibari
from numpy.typing import NDArray

from load import report
from load.playing import Audible
from load.scoring import quantiles
from load.service import arguments, machine, service
from load.speak_client import dial, speak

SENTENCE = (
    "The captain stood on the bridge for a while and watched the grey water, and he turned to the young officer "
    "beside him and smiled."
)
"""25 words, one clause border."""
PAUSE = 0.3
NAMES = ("streaming", "package", "whole", "streaming, heard", "package, heard", "whole, heard")


async def rounds(url: str, key: str | None, package: Hibari, count: int, tell: Any) -> dict[str, list[float]]:
    """Seconds of each way, once a round."""
    found: dict[str, list[float]] = {name: [] for name in NAMES}
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    body = {"model": "tts-1", "voice": "alloy", "input": SENTENCE, "response_format": "pcm"}
    socket = await dial(url, key)
    async with ClientSession(headers=headers) as http:
        for number in range(count + 1):  # the first one warms up
            tell(f"round {number} of {count}")
            one = await speak(socket, f"r{number}", [SENTENCE], at_once=True)
            if one.problem or one.arrived is None or one.heard is None:
                raise SystemExit(f"nothing was heard: {one.problem}")
            took = {"streaming": one.arrived - one.asked, "streaming, heard": one.heard - one.asked}
            await asyncio.sleep(PAUSE)
            began = time.perf_counter()
            sound = await asyncio.to_thread(package, SENTENCE, 1.0, number)
            took["package"] = time.perf_counter() - began
            took["package, heard"] = took["package"] + head(sound)
            began = time.perf_counter()
            async with http.post(f"{url}/v1/audio/speech", json=body) as answer:
                answer.raise_for_status()
                pcm = await answer.read()
            took["whole"] = time.perf_counter() - began
            took["whole, heard"] = took["whole"] + head(
                np.frombuffer(pcm, "<i2").astype(np.float32) / np.float32(32768)
            )
            await asyncio.sleep(PAUSE)
            if number:
                for name, seconds in took.items():
                    found[name].append(seconds)
    await socket.close()
    return found


def head(sound: NDArray[np.float32]) -> float:
    """Seconds before the first audible frame of a sound at 24 kHz."""
    audible = Audible(24_000)
    audible.feed(sound)
    return audible.at or 0.0


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--rounds", type=int, default=60, help="(default %(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of both models (default %(default)s)")
    parser.add_argument("--share", type=float, default=0.5, help="bar: of the one call's time (default %(default)g)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    flags = ["--no-batch", "--threads", str(options.threads), *shlex.split(options.flags)]
    package = Hibari(threads=options.threads)
    with service(options.url, flags) as running, out.status("warming up") as status:
        found = asyncio.run(rounds(running.url, options.key, package, options.rounds, status.update))
    figures = {name: quantiles(seconds) for name, seconds in found.items()}
    medians = {name: float(one["p50"] or 0) for name, one in figures.items()}
    rows = [
        (name, f"{one['p50']:.0f}", f"{one['p95']:.0f}", f"{one['max']:.0f}",
         f"{medians['streaming, heard' if 'heard' in name else 'streaming'] / medians[name]:.2f}")
        for name, one in figures.items()
    ]  # fmt: skip
    out.print(note, highlight=False, style="dim")
    columns = ("milliseconds", "p50", "p95", "most", "streaming / this, p50")
    out.print(report.table(f"one sentence of {len(SENTENCE.split())} words, {options.rounds} rounds", columns, rows))
    share = medians["streaming"] / medians["package"]
    missed = []
    if share > options.share:
        missed.append(f"the first sound takes {share:.2f} of the one call; the bar is {options.share:g}")
    if options.json:
        told = {"machine": note, "milliseconds": figures, "share": share, "missed": missed}
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
