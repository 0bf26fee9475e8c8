"""Whether the event loop still answers at once while texts of a megabyte are thrown at the service.

One process posts texts, of several kinds of characters, to /v1/text/explain and /v1/audio/speech, and streams them into
contexts of /v1/speak, as long as the limits let them and as one message of all, which they do not. This process pings a
socket every 10 ms: what a pong takes is how late the event loop is. The same is told for a time in which nothing is
sent, and how late this process's own timers are; when that is much, the machine is too full to tell.

Bar: the longest pong 50 ms. Exit status 1 when it is missed.

    python -m load.long_texts
"""

from __future__ import annotations

import asyncio
import json
import multiprocessing
import time
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Any

import numpy as np
from aiohttp import ClientError, ClientSession
from websockets.exceptions import ConnectionClosed

from load import report
from load.service import arguments, machine, service
from load.speak_client import dial, send

BAR = 0.050
EVERY = 0.01
SIZE = 1_000_000
"""Characters of a text."""
EXPLAINED, MESSAGE, CONTEXT = 16_384, 65_536, 131_072
"""Characters that explain, a message and a context take."""
KINDS = {
    "prose": "The train leaves at 9:15, costs $29.95, and Dr. Smith of the U.S. Army is on it. ",
    "no spaces": "abcdefghij",
    "digits": "1234567890",
    "another script": "你好世界",
    "emoji": "🙂👩‍👩‍👧",
    "markup": "**[x](https://a.b/c)** `<b>` &amp; ",
}


def text(kind: str) -> str:
    """A text of SIZE characters."""
    unit = KINDS[kind]
    return (unit * (SIZE // len(unit) + 1))[:SIZE]


async def explain(url: str, key: str | None, kind: str, told: Counter[str]) -> None:
    """All of it, and the longest part of it that is taken."""
    whole = text(kind)
    async with ClientSession(headers=_headers(key)) as session:
        for part in (whole, whole[:EXPLAINED]):
            try:
                async with session.post(f"{url}/v1/text/explain", data=_body(input=part)) as answer:
                    await answer.read()
                    told[f"explain {answer.status}"] += 1
            except ClientError as error:
                told[f"explain {type(error).__name__}"] += 1


async def speech(url: str, key: str | None, kind: str, told: Counter[str]) -> None:
    """All of it as one request for speech."""
    async with ClientSession(headers=_headers(key)) as session:
        asked = _body(model="tts-1", voice="alloy", input=text(kind))
        async with session.post(f"{url}/v1/audio/speech", data=asked) as answer:
            await answer.read()
            told[f"speech {answer.status}"] += 1


async def speak(url: str, key: str | None, kind: str, told: Counter[str]) -> None:
    """All of it in contexts, as much as each takes, and then as one message."""
    whole = text(kind)
    socket = await dial(url, key)
    try:
        for first in range(0, len(whole), CONTEXT):
            context = f"c{first}"
            await send(socket, "create", context, lead=1.0)
            for at in range(first, min(first + CONTEXT, len(whole)), MESSAGE):
                part = {"type": "text", "context": context, "text": whole[at : at + MESSAGE]}
                await socket.send(json.dumps(part, ensure_ascii=False))
            await send(socket, "cancel", context)
        await send(socket, "create", "whole", lead=1.0)
        await socket.send(json.dumps({"type": "text", "context": "whole", "text": whole}, ensure_ascii=False))
        async with asyncio.timeout(2):
            while True:
                answer = await socket.recv()
                if isinstance(answer, str):
                    told[f"speak {json.loads(answer)['type']}"] += 1
    except TimeoutError:
        told["speak sockets"] += 1
    except ConnectionClosed as error:
        told[f"speak closed with {error.rcvd.code if error.rcvd else 1006}"] += 1
    finally:
        await socket.close()


SENDERS: dict[str, Callable[[str, str | None, str, Counter[str]], Awaitable[None]]] = {
    "explain": explain,
    "speech": speech,
    "speak": speak,
}


def _body(**fields: str) -> bytes:
    return json.dumps(fields, ensure_ascii=False).encode()


def _headers(key: str | None) -> dict[str, str]:
    return {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})


def sender(url: str, key: str | None, which: str, kind: str, seconds: float, found: Any) -> None:
    """In a process of its own: the same again for so long; what was answered."""

    async def again() -> Counter[str]:
        told: Counter[str] = Counter()
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            await SENDERS[which](url, key, kind, told)
        return told

    found.put(asyncio.run(again()))


async def pings(url: str, key: str | None, over: Callable[[], bool]) -> tuple[list[float], list[float]]:
    """Seconds that pongs took, and that this process's timers were late, until it is over."""
    socket = await dial(url, key)
    pongs: list[float] = []
    late: list[float] = []
    waiting: set[asyncio.Future[float]] = set()

    def came(pong: asyncio.Future[float]) -> None:
        waiting.discard(pong)
        if not pong.cancelled() and pong.exception() is None:
            pongs.append(pong.result())

    while not over():
        due = time.monotonic() + EVERY
        pong = asyncio.ensure_future(await socket.ping())
        waiting.add(pong)
        pong.add_done_callback(came)
        await asyncio.sleep(EVERY)
        late.append(time.monotonic() - due)
    if waiting:
        await asyncio.wait(waiting, timeout=10)
    await socket.close()
    return pongs, late


def measured(url: str, key: str | None, which: str, kind: str, seconds: float) -> tuple[Any, Any, dict[str, int]]:
    """Pongs and lateness while a sender is at work; `which` "" for nobody."""
    if not which:
        until = time.monotonic() + seconds
        return *asyncio.run(pings(url, key, lambda: time.monotonic() > until)), {}
    spawn = multiprocessing.get_context("spawn")
    found = spawn.Queue()
    process = spawn.Process(target=sender, args=(url, key, which, kind, seconds, found), daemon=True)
    process.start()
    times = asyncio.run(pings(url, key, lambda: not found.empty() or not process.is_alive()))
    told = found.get(timeout=30)
    process.join()
    return *times, dict(told)


def main() -> int:
    parser = arguments(__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="for each row (default %(default)g)")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS), help="of characters (default: all)")
    options = parser.parse_args()
    out, note = report.console(), machine()
    out.print(note, highlight=False, style="dim")
    rows, missed, figures = [], [], []
    with service(options.url, options.flags.split(), key=options.key) as running:
        for which, kind in [("", ""), *((which, kind) for which in SENDERS for kind in options.kinds)]:
            pongs, late, told = measured(running.url, options.key, which, kind, options.seconds)
            name = f"{which} {kind}".strip() or "nothing"
            cells = [
                " / ".join(f"{1000 * float(np.quantile(times, share)):.1f}" for share in (0.5, 0.99, 1.0))
                for times in (pongs, late)
            ]
            answers = ", ".join(f"{count} {what}" for what, count in sorted(told.items()))
            out.print(f"{name}: {cells[0]} ms; {answers}", highlight=False)
            rows.append((name, str(len(pongs)), *cells))
            figures.append({"name": name, "pongs": pongs, "late": late, "answers": told})
            if which and max(pongs) > BAR:
                missed.append(f"{name}: {1000 * max(pongs):.0f} ms; the bar is {1000 * BAR:.0f}")
    out.print(report.table("milliseconds, p50 / p99 / most", ("what is sent", "pings", "pong", "this process"), rows))
    if options.json:
        options.json.write_text(json.dumps({"machine": note, "rows": figures, "missed": missed}))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
