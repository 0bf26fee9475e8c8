"""Live transcription beside every other server of it that runs here: same machine, weights, recordings, one run.

Each server is started alone on the CPUs of --cpus, warmed up, and spoken to by 1, 2, 4 … streams at the speed of
speech until a number fails; then the next has its turn. In the rounds after the first, in another order, each is
spoken to by one stream and by the most that it has passed with so far; but not one that is more than twice too late
with one stream.

  end → final    the voice of a recording ends, as Silero hears it offline → its text changes no more and is complete by
                 the server's protocol; p50 / p95 in ms over all recordings of all streams
  not heard      recordings of which no word was in the text at the end
  word errors    of the text of each stream as a whole
  cpu            seconds of processor of the server and its children for a second of audio
  memory         MiB that it held at most, what it shares counted once
  late           ms that this program was late with a frame at most: then the machine is too full to tell
  passed         95 % of the recordings were final within 1 s, nobody was refused, no stream broke off

Bars: Speechlane passes with at least --bar streams; with one stream its p95 is at most that of the best of the others;
and of what both were told, with the most streams that both were given, it has no more wrong words than any of them.
faster-whisper alone is a floor, no server: it is shown and not compared with. Nor are the words of servers that have
other weights. Exit status 1 when a bar is missed.

Others need an environment each: python -m load.peers.install. Those that have none are left out. About 16 minutes.

    python -m load.peers --json peers.json --html peers.html
    python -m load.peers --peers speechlane,whisperlive --streams 1,2 --seconds 15 --rounds 1 --cpus 0
"""

from __future__ import annotations

import argparse
import importlib
import json
import random
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path

from load import report
from load.peers.install import MODULES, environments, installed
from load.peers.measure import OBJECTIVE, Step, measure, warm
from load.peers.peer import Peer, Said
from load.peers.settling import errors
from load.service import machine

HEAD = (
    "server", "streams", "end → final", "recordings", "not heard", "refused", "word errors", "cpu", "memory", "late",
    "",
)  # fmt: skip
OWN = "Speechlane"
FLOOR = "faster-whisper alone"
Figures = dict[str, dict[int, Step]]


def most(steps: Mapping[int, Step]) -> int:
    """The most streams that a server passed with, without one that failed before; 0: not even one."""
    passed = 0
    for streams in sorted(steps):
        if not steps[streams].passed:
            break
        passed = streams
    return passed


def missed(figures: Figures, others: Sequence[Peer], bar: int) -> list[str]:
    """The bars that Speechlane did not hold."""
    own = figures.get(OWN)
    if own is None:
        return []
    out = []
    if (reached := most(own)) < bar:
        out.append(f"Speechlane passes with {reached} streams; the bar is {bar}")
    alone = {peer.name: figures[peer.name][1].p95 for peer in others if 1 in figures[peer.name]}
    quickest = min(((p95, name) for name, p95 in alone.items() if p95 is not None), default=None)
    if quickest and 1 in own and (own[1].p95 is None or own[1].p95 > quickest[0]):
        mine = "nothing" if own[1].p95 is None else f"{1000 * own[1].p95:.0f} ms"
        out.append(f"one stream: Speechlane {mine}, {quickest[1]} {1000 * quickest[0]:.0f} ms (p95)")
    for peer in others:
        if peer.same_weights and (words := _same_words(own, figures[peer.name])) and words[0] > words[1]:
            out.append(f"word errors: Speechlane {words[0]:.1f} %, {peer.name} {words[1]:.1f} % of the same recordings")
    return out


def _same_words(own: Mapping[int, Step], theirs: Mapping[int, Step]) -> tuple[float, float] | None:
    """Word error rates (own, theirs) of what both were told, with the most streams that both were given; None: there is
    nothing. Whoever was given up early has heard less, and other recordings are easier or harder."""
    streams = max(own.keys() & theirs.keys(), default=None)
    if streams is None:
        return None
    mine, others = ({_spoken(said): said for said in steps[streams].said} for steps in (own, theirs))
    both = mine.keys() & others.keys()
    return (errors([mine[one] for one in both]), errors([others[one] for one in both])) if both else None


def _spoken(said: Said) -> tuple[Hashable, ...]:
    """The same for those who were told the same."""
    return (*(str(line.clip.path) for line in said.script.lines), said.script.samples.tobytes())


def turn(peer: Peer, steps: dict[int, Step], options: argparse.Namespace, number: int) -> None:
    """One turn of a server in round `number`."""
    ladder = [int(streams) for streams in options.streams.split(",")]
    if number:
        first = steps[ladder[0]].p95
        if first is None or first > 2 * OBJECTIVE:
            return
        ladder = sorted({ladder[0], most(steps)} - {0})
    with peer.serve(options.into, options.cpus) as serving:
        warm(peer, serving)
        for streams in ladder:
            step = steps.setdefault(streams, Step(streams))
            measure(peer, serving, step, options.seconds, options.seed + number)
            if not step.passed:
                break


def chosen(names: str, into: Path) -> tuple[list[Peer], list[str]]:
    """The servers in all their modes, and the environments that are missing for others."""
    modules = [name for name in MODULES if not names or name in names.split(",")]
    peers = [peer for name in modules for peer in importlib.import_module(f"load.peers.{name}").PEERS]
    ready = [peer for peer in peers if peer.environment is None or installed(peer.environment, into)]
    return ready, sorted({peer.environment for peer in peers if peer not in ready})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--peers", default="", help=f"of {', '.join(MODULES)} (default: all)")
    parser.add_argument("--streams", default="1,2,4,6,8", help="numbers of streams to climb (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=20.0, help="length of a step (default %(default)g)")
    parser.add_argument("--rounds", type=int, default=2, help="turns of each server (default %(default)s)")
    parser.add_argument("--bar", type=int, default=6, help="streams Speechlane must pass with (default %(default)s)")
    parser.add_argument("--cpus", type=lambda text: [int(cpu) for cpu in text.split(",")], default=[], help="as 0,1")
    parser.add_argument("--into", type=Path, default=environments(), help="where the environments are")
    parser.add_argument("--seed", type=int, default=0, help="other orders and pauses (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write all figures here")
    parser.add_argument("--html", type=Path, help="write a page with a plot here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    peers, lacking = chosen(options.peers, options.into)
    figures: Figures = {peer.name: {} for peer in peers}
    failed: dict[str, str] = {}
    began = time.monotonic()
    for number in range(options.rounds):
        for peer in random.Random(options.seed + number).sample(peers, len(peers)):
            if peer.name in failed:
                continue
            with out.status(f"round {number + 1}: {peer.name}"):
                try:
                    turn(peer, figures[peer.name], options, number)
                except (Exception, SystemExit) as error:  # one server that breaks must not cost the whole run
                    failed[peer.name] = str(error) or repr(error)
    rows = [(peer.name, *step.row()) for peer in peers for _, step in sorted(figures[peer.name].items())]
    out.print(f"{note}; {time.monotonic() - began:.0f} s", highlight=False, style="dim")
    out.print(report.table("milliseconds, p50 / p95", HEAD, rows))
    summary = [(peer.name, str(most(figures[peer.name])), peer.note) for peer in peers]
    out.print(report.table("streams passed with", ("server", "streams", "settings"), summary))
    for name, why in failed.items():
        out.print(f"[yellow]{name}[/] did not run: {why}", highlight=False)
    for name in lacking:
        out.print(f"[yellow]{name}[/] is not installed: python -m load.peers.install {name}", highlight=False)
    lost = missed(figures, [peer for peer in peers if peer.name not in (OWN, FLOOR)], options.bar)
    if options.json:
        told = {
            "machine": note, "cpus": options.cpus, "seconds": options.seconds, "rounds": options.rounds,
            "seed": options.seed, "missed": lost, "failed": failed, "not_installed": lacking,
            "servers": [
                {"name": peer.name, "settings": peer.note, "same_weights": peer.same_weights,
                 "passes_with": most(figures[peer.name]),
                 "steps": [step.told() for _, step in sorted(figures[peer.name].items())]}
                for peer in peers
            ],
        }  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1, ensure_ascii=False))
    if options.html:
        curves = {
            peer.name: [(float(n), 1000 * step.p95) for n, step in sorted(figures[peer.name].items()) if step.p95]
            for peer in peers
        }
        sections = [
            ("Milliseconds, p50 / p95", report.html_table(HEAD, rows)),
            ("End of speech → final, p95, against streams", report.lines(curves, "streams", "milliseconds")),
        ]
        report.page(options.html, "Live transcription, compared", note, sections)
    return report.verdict(out, lost)


if __name__ == "__main__":
    raise SystemExit(main())
