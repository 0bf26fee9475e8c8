"""Is anything lost or heard twice when connections break? A client streams recordings through a proxy that cuts its
TCP connection at random bytes, in both directions; the words have to be those of a connection that holds.

    python -m load.resume --cuts 200

With several gateways that share their sessions, each connection goes to another of them by chance, as behind a load
balancer without affinity:

    python -m load.resume --cuts 200 --gateways 3
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import urlsplit

from batch_jobs.queue.embedded import Embedded
from load.cutting import CuttingProxy
from load.service import Running, arguments, machine, service
from speechlane.client import Failed, Final, Gap, Refused, Session, Source, Unreachable, connect, wav_file
from speechlane.client.sources import at_real_time

ROOT = Path(__file__).parent.parent
RECORDINGS = ("austen-0870.wav", "austen-0880.wav", "austen-0890.wav", "austen-0920.wav", "austen-0930.wav")
UP_BYTES, DOWN_BYTES = 150_000, 6_000
"""A connection is cut after at most so many bytes: about a second of sound at three times its pace, some events."""
HOLD_SECONDS = 30.0


@dataclass
class Said:
    """What a stream was told."""

    finals: list[tuple[str, float, float, tuple[tuple[str, float, float], ...]]] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    breaks: int = 0

    @property
    def words(self) -> list[str]:
        return [word for text, *_ in self.finals for word in text.split()]


async def stream(url: str, key: str | None, blocks: list[bytes], rate: int, speed: float) -> Said:
    """Everything said in the blocks, sent `speed` times as fast as they were spoken."""
    said = Said()

    async def given() -> AsyncIterator[bytes]:
        for block in blocks:
            yield block

    async with AsyncExitStack() as held:
        session = await _admitted(held, url, key, rate)
        async for event in session.transcribe(Source(rate, at_real_time(given(), round(rate * speed)))):
            if isinstance(event, Final):
                words = tuple((word.text.strip(), round(word.start, 2), round(word.end, 2)) for word in event.words)
                said.finals.append((event.text, round(event.start, 2), round(event.end, 2), words))
            elif isinstance(event, Failed | Gap):
                said.problems.append(str(event))
        said.breaks = session.breaks
    return said


async def _admitted(held: AsyncExitStack, url: str, key: str | None, rate: int) -> Session:
    """A session, though the very first connection may be cut, or a session may wait for a client that has gone."""
    until = time.monotonic() + HOLD_SECONDS + 10
    while True:
        try:
            return await held.enter_async_context(connect(url, key, rate=rate))
        except (Unreachable, Refused) as error:
            if time.monotonic() > until:
                raise
            print(f"  not admitted yet: {error}")
            await asyncio.sleep(1.0)


async def script(names: tuple[str, ...], pause: float = 1.0) -> tuple[list[bytes], int]:
    """The recordings with pauses between them, in blocks of a tenth of a second."""
    blocks: list[bytes] = []
    rate = 16_000
    for name in names:
        source = wav_file(ROOT / "tests" / "data" / name, real_time=False)
        assert source.rate == rate
        blocks += [block async for block in source]
        blocks += [bytes(2 * rate // 10)] * round(10 * pause)
    return blocks, rate


async def measure(
    url: str, key: str | None, cuts: int, seed: int, speed: float, others: Sequence[str] = ()
) -> dict[str, object]:
    """Streams until so many connections were cut, each against the same stream without a cut. `others` are gateways
    that share their sessions with the one at `url`."""
    chance = random.Random(seed)
    blocks, rate = await script(RECORDINGS)
    address = url.replace("http", "ws", 1)
    whole = await stream(address, key, blocks, rate, speed)
    print(f"without a cut: {len(whole.finals)} utterances, {len(whole.words)} words")
    (host, port), *places = (_place(one) for one in (url, *others))
    done = different = streams = 0
    problems: list[str] = []
    begun = time.monotonic()
    while done < cuts:
        proxy = CuttingProxy(host, port, chance, up=UP_BYTES, down=DOWN_BYTES, others=places)
        async with proxy.running():
            said = await stream(f"ws://127.0.0.1:{proxy.port}", key, blocks, rate, speed)
        done, streams = done + proxy.cuts, streams + 1
        problems += said.problems
        if said.finals != whole.finals:
            different += 1
            pairs = [(a, b) for a, b in zip(whole.finals, said.finals, strict=False) if a != b]
            print(f"  stream {streams} differs: {len(said.finals)} utterances; first: {pairs[:1]}")
        print(f"stream {streams}: {proxy.cuts} cuts, {done} in all, {len(said.words)} words")
    return {
        "streams": streams,
        "cuts": done,
        "words_a_stream": len(whole.words),
        "streams_that_differ": different,
        "problems": problems,
        "seconds": round(time.monotonic() - begun, 1),
    }


def _place(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "127.0.0.1", parts.port or 80


@contextmanager
def gateways(options: argparse.Namespace) -> Iterator[list[Running]]:
    """So many gateways that share their sessions in `--redis`, or in a server of their own; or the one to measure."""
    with ExitStack() as held:
        flags = options.flags.split()
        if options.gateways > 1:
            where = options.redis
            if where is None:
                folder = held.enter_context(tempfile.TemporaryDirectory(prefix="speechlane-resume-"))
                embedded = Embedded(Path(folder))
                held.callback(embedded.close)
                where = f"unix://{embedded.socket}"
            flags += ["--sessions-redis", where]
        yield [held.enter_context(service(options.url, flags)) for _ in range(options.gateways)]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--cuts", type=int, default=200, help="connections to cut (default: 200)")
    parser.add_argument("--seed", type=int, default=1, help="of the places of the cuts (default: 1)")
    parser.add_argument("--speed", type=float, default=3.0, help="times as fast as it was spoken (default: 3)")
    parser.add_argument("--gateways", type=int, default=1, help="that share their sessions (default: 1)")
    parser.add_argument("--redis", help="where they share them, redis://HOST (default: start one)")
    options = parser.parse_args()
    if options.url is not None and options.gateways > 1:
        parser.error("--gateways are started here: leave --url out")
    print(machine())
    with gateways(options) as running:
        url, *others = (one.url for one in running)
        figures = asyncio.run(measure(url, options.key, options.cuts, options.seed, options.speed, others))
        deadline = time.monotonic() + HOLD_SECONDS + 5
        while (held := _held(running)) != (0, 0) and time.monotonic() < deadline:
            time.sleep(0.2)
    figures["sessions_and_streams_left"] = held
    print(json.dumps(figures, indent=2))
    if options.json:
        options.json.write_text(json.dumps(figures))
    if figures["streams_that_differ"] or figures["problems"] or any(held):
        raise SystemExit("something was lost, heard twice, or kept")


def _held(running: Sequence[Running]) -> tuple[int, int]:
    sessions, streams = zip(*(one.held() for one in running), strict=True)
    return sum(sessions), sum(streams)


if __name__ == "__main__":
    main()
