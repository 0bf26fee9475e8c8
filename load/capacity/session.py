"""One measurement from beginning to end: a service that admits everybody, the search, the number, and its proof."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console

from load.capacity.goal import Goal
from load.capacity.keeping import Carried, folder, measured, promises, write
from load.capacity.measure import ALONE, ROUND, Found, Measuring, Plan, Run, measure
from load.capacity.prove import promised, prove
from load.harness.trial import Trial
from load.service import SERVE, Running, service
from speech.promises import Promise

QUIET = ("--no-batch", "--embeddings", "", "--chat-models", "", "--image-models", "", "--video-models", "",
         "--documents", "0")  # fmt: skip
"""Flags of a service that does nothing else."""


@dataclass(frozen=True, slots=True)
class Target:
    """The service that is measured: the one at `url`, or one started for it with these settings. `program` as in
    `load.service.service`; `quiet`: flags that have it do nothing else."""

    kind: str
    url: str | None = None
    key: str | None = None
    model: str | None = None
    device: str = "cpu"
    threads: int | None = None
    flags: Sequence[str] = ()
    cpus: Sequence[int] = ()
    most: int = 256
    program: Sequence[str] = SERVE
    quiet: Sequence[str] = QUIET

    @contextmanager
    def serving(self, admission: str) -> Iterator[Running]:
        """The service, started if need be with this admission."""
        flags = [
            *self.quiet,
            "--admission",
            admission,
            "--max-sessions",
            str(2 * self.most + 16),
            "--device",
            self.device,
        ]
        if self.kind == "asr":
            flags += ["--voices", ""]
        if self.model is not None:
            flags += ["--models" if self.kind == "asr" else "--voices", self.model]
        if self.threads is not None:
            flags += ["--threads", str(self.threads)]
        with service(self.url, [*flags, *self.flags], self.cpus, self.key, self.program) as running:
            yield running


@dataclass(slots=True)
class Session:
    """What is found, told on `out` as it goes. `promises` are what was written down of it, into `paths`."""

    target: Target
    trial: Trial
    goal: Goal
    plan: Plan
    out: Console
    found: Found | None = None
    promises: list[Promise] = field(default_factory=list)
    paths: list[Path] = field(default_factory=list)
    proof: list[Run] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """All of them in order."""
        return [*(self.found.runs if self.found is not None else ()), *self.proof]

    def measure(self, *, keep: bool = True) -> list[str]:
        """Search, write the number down and prove it. What was missed; nothing when all went well."""
        with self.target.serving("everybody") as running:
            found = self.found = measure(self.trial, running, self.goal, self.plan, self.out)
            if found.held is None or not found.count:
                return [found.why]
            self._tell(f"{found.count} clients, shown with {100 * found.held.verdict.confidence:.0f} % confidence")
            if found.count == self.plan.most:
                self._tell("which is --most: there may be room for more")
            self.promises = promises(measured(running.state(), self.target.kind), found.held, self.goal)
            here = running.process is not None
        if not keep:
            return []
        if not self.promises:
            return ["there are more devices than clients that were carried, so that none can be promised any"]
        if not here:
            self._tell("the service is on another machine: measure there to keep the number")
            return []
        self._write()
        if self.target.url is not None:
            self._tell("start the service as usual now, and prove it with --prove-only")
            return []
        return self._prove(found)

    def prove_only(self) -> list[str]:
        """Whether what the service promises holds. What was missed."""
        return self._prove(None)

    def _tell(self, line: str) -> None:
        self.out.print(line, highlight=False, markup=False)

    def _write(self) -> None:
        self.paths = write(self.promises, folder())
        for path in self.paths:
            self._tell(f"kept in {path}")

    def _prove(self, found: Found | None) -> list[str]:
        with self.target.serving("measured") as running:
            of = measured(running.state(), self.target.kind)
            promise = promised(running, self.target.kind)
            if any(one["basis"] != "measured" for one in of):
                return [f"the service does not go by a measured number: {_changes(of)}"]
            if found is not None and promise != (total := sum(one.streams for one in self.promises)):
                return [f"the service promises {promise}, and {total} were measured"]
            alone = found.alone if found is not None else ()
            measuring = Measuring(self.trial, running, self.goal, self.plan.seed + 1000, self.out, alone)
            self.proof = measuring.runs
            if found is None and self.goal.word_errors is not None:
                measuring.run(ALONE, 1, max(self.plan.seconds, ROUND))
            seconds = found.held.seconds if found is not None and found.held is not None else self.plan.hold
            return prove(measuring, promise, seconds, self.target.kind)


def _changes(carried: Sequence[Carried]) -> str:
    return "; ".join(f"{one['device']}: {one['changed'] or 'none was measured'}" for one in carried)
