"""How much of the processor is left to the models when everything else of a service is around them?

*Service efficiency*: --streams streams send conversations through /v1/realtime as fast as they are taken, over real
sockets, to a service with one thread for its model. Then a bare loop in a process of its own does the same work: voice
activity of the same audio, and the finals of the same utterances, in full batches, without a gateway, sessions, a
scheduler or anything else. (Audio that comes in bursts gets no partials, so finals are all there is.) Both take turns
for --rounds rounds, in changing order. The efficiency is the bare loop's CPU seconds over those of the service's
process, so audio per second of the processor through the gateway over that of the bare loop; the median of the rounds.
Wall times are told as well: there the service's own threads work side by side, and this program sends and listens
meanwhile.

*Cost as work grows*: streams at the speed of speech, with partials. CPU seconds of the service for a second of audio,
and seconds that its devices were stepping, with --fixed numbers of streams over a model whose step takes 50 ms (what is
left is the service's own), and with --real numbers over the real model. All streams say the same in frames of the same
length; numbers of streams take turns, and the middle one of the rounds' ratios counts.

Bars: efficiency at least 0.9; the cost of a second of audio never rises with the streams (by more than a twentieth,
which rounds differ by anyway); no stream is broken off. Exit status 1 when one is missed. About eight minutes.

    python -m load.efficiency
    python -m load.efficiency --rounds 1 --fixed 1,4 --real 1 --seconds 10 --json efficiency.json
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from dataclasses import asdict
from itertools import pairwise
from pathlib import Path
from typing import Any

from load import report
from load.efficiency.growth import HEAD, Cost, one_round, rising
from load.efficiency.through import Work, audio, scripts, through_gateway, without
from load.factors.factor import Base
from load.service import machine, service

BAR = 0.9
MODEL = "tiny.en"
PLAIN = ("--no-batch", "--voices", "", "--embeddings", "", "--documents", "0", "--admission", "everybody")
FIXED = ("tests.load.fixed_service",)


def efficiency(options: argparse.Namespace) -> tuple[list[tuple[Work, Work]], float]:
    """(gateway, bare) of each round, and the share of utterances that both have the same text for."""
    said = scripts(options.streams, options.seconds_each, options.seed)
    rounds: list[tuple[Work, Work]] = []
    same: list[bool] = []
    with service(None, [*PLAIN, "--threads", "1"]) as running:
        precision = str(Base.of(MODEL).precision)  # what the service has measured as the fastest
        through, found = through_gateway(running, said)  # warms it, and finds the utterances
        for number in range(options.rounds):
            bare = without(MODEL, precision, said, found) if number % 2 else None
            through, found = through_gateway(running, said)
            bare = bare or without(MODEL, precision, said, found)
            rounds.append((through, bare))
            same += [a == b for a, b in zip(through.texts, bare.texts, strict=True)]
    return rounds, sum(same) / max(1, len(same))


def growth(name: str, numbers: Sequence[int], options: argparse.Namespace, **how: Any) -> list[Cost]:
    """Numbers of streams in turns, round by round."""
    costs = [Cost(name, streams) for streams in numbers]
    with service(None, **how) as running:
        one_round(running, Cost(name, 1), 5.0, options.seed)  # warms it
        for number in range(options.rounds):
            for cost in costs if number % 2 else reversed(costs):
                one_round(running, cost, options.seconds, options.seed + number)
    return costs


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3, help="turns of everything (default %(default)s)")
    parser.add_argument("--streams", type=int, default=8, help="of the efficiency (default %(default)s)")
    parser.add_argument("--seconds-each", type=float, default=40.0, help="of audio of each (default %(default)g)")
    parser.add_argument("--fixed", default="1,4,16,64", help="streams over the fixed step (default %(default)s)")
    parser.add_argument("--real", default="1,2,4", help="streams over the real model (default %(default)s)")
    parser.add_argument("--seconds", type=float, default=15.0, help="length of a paced round (default %(default)g)")
    parser.add_argument("--seed", type=int, default=0, help="other conversations (default %(default)s)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    out, note = report.console(), machine()
    fixed, real = ([int(one) for one in text.split(",") if one] for text in (options.fixed, options.real))
    with out.status("through the gateway, and without it"):
        rounds, same = efficiency(options)
    costs: list[list[Cost]] = []
    with out.status("as work grows, over a fixed step"):
        costs.append(growth("fixed step", fixed, options, program=FIXED, flags=("--vad", "silero")))
    with out.status(f"as work grows, over {MODEL}"):
        costs.append(growth(MODEL, real, options, flags=[*PLAIN, "--threads", "1"]))
    shares = [bare.cpu / through.cpu for through, bare in rounds]
    found, seconds = statistics.median(shares), audio(scripts(options.streams, options.seconds_each, options.seed))
    out.print(note, highlight=False, style="dim")
    rows = [
        (str(n + 1), f"{through.cpu / seconds:.4f}", f"{bare.cpu / seconds:.4f}", f"{bare.cpu / through.cpu:.3f}",
         f"{seconds / through.wall:.1f}", f"{seconds / bare.wall:.1f}")
        for n, (through, bare) in enumerate(rounds)
    ]  # fmt: skip
    head = ("round", "CPU s a second, gateway", "bare", "efficiency", "times real time, gateway", "bare")
    out.print(report.table(f"{options.streams} streams, {seconds:.0f} s of audio", head, rows))
    out.print(f"efficiency {found:.3f}; {100 * same:.1f} % of the utterances have the same text without the service")
    grown = [more.row(fewer) for several in costs for fewer, more in pairwise([None, *several]) if more is not None]
    out.print(report.table("As work grows", HEAD, grown))
    missed = [f"the efficiency is {found:.3f}; the bar is {BAR}"] if found < BAR else []
    missed += [line for several in costs for line in rising(several)]
    missed += [broken for several in costs for cost in several for step in cost.steps for broken in step.broken]
    if options.json is not None:
        told = {
            "machine": note, "efficiency": found, "same_texts": same, "audio_seconds": seconds,
            "rounds": [{"gateway": asdict(through), "bare": asdict(bare)} for through, bare in rounds],
            "growth": [{"model": cost.model, "streams": cost.streams, "cpu": cost.cpu, "device": cost.device}
                       for several in costs for cost in several],
            "missed": missed,
        }  # fmt: skip
        options.json.write_text(json.dumps(told, indent=1))
    return report.verdict(out, missed)


if __name__ == "__main__":
    raise SystemExit(main())
