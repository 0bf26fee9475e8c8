"""A transformer over processes of this machine, called like the one it stands for.

The ranks are children, so that the library's and torch's process-wide settings for parallelism touch nothing else here,
and a rank that dies takes nobody with it.
"""

from __future__ import annotations

import json
import multiprocessing
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from time import monotonic
from typing import Any

import torch
from torch import Tensor

from vision_text.parallel.context import obstacle, tokens_of
from vision_text.parallel.member import Membership, Mode, Part, serve
from workers.errors import BackendDead, InputInvalid

LOADING = 300.0
"""Seconds for starting the processes and loading the weights."""


@dataclass(frozen=True, slots=True)
class Evaluated:
    """`made` as the whole model makes it. `seconds` of each rank, from inputs to result; `sent` bytes of all ranks to
    others, by collective, and `calls` of one rank."""

    made: Tensor
    seconds: tuple[float, ...]
    sent: Mapping[str, int]
    calls: Mapping[str, int]


class Group:
    """Made by `start`; belongs to one thread at a time. `config` is the model's."""

    def __init__(
        self, config: Mapping[str, Any], members: list[tuple[Any, Connection]], timeout: float, folder: Any
    ) -> None:
        self.config, self.ranks = config, len(members)
        self._members, self._timeout, self._folder = members, timeout, folder
        self._lock = threading.Lock()

    @classmethod
    def start(
        cls,
        directory: Path,
        *,
        devices: Sequence[str] = ("cpu", "cpu"),
        dtype: str = "float32",
        threads: int = 1,
        timeout: float = 600,
    ) -> Group:
        """Start a rank on each of `devices` ("cpu", "cuda:1") for the transformer at `directory` and wait until all
        have loaded it: seconds, `LOADING` at most. `timeout` in seconds for a call. Raises BackendDead."""
        ranks = len(devices)
        if ranks < 2:
            raise ValueError("a group is of two ranks or more")
        folder = tempfile.TemporaryDirectory(prefix="speechlane-group-")
        context = _context()
        members: list[tuple[Any, Connection]] = []
        for rank, device in enumerate(devices):
            ours, theirs = context.Pipe()
            membership = Membership(
                str(directory), rank, ranks, f"{folder.name}/meeting", device, dtype, threads, timeout + LOADING
            )
            process = context.Process(target=serve, args=(membership, theirs), daemon=True, name=f"rank {rank}")
            process.start()
            theirs.close()
            members.append((process, ours))
        config = json.loads(Path(directory, "config.json").read_text("utf-8"))
        group = cls(config, members, timeout, folder)
        group._answers("ready", LOADING)
        return group

    def evaluate(self, mode: Mode, **inputs: Any) -> Evaluated:
        """One call of the model. In mode "guidance" each tensor has a row for each branch, and a rank takes one.

        Raises InputInvalid (param "parallel") for what cannot be split, BackendDead when a rank failed: the group is
        over then.
        """
        if mode == "guidance":
            rows = len(inputs["hidden_states"])
            if rows != self.ranks:
                raise InputInvalid(f"guidance over {self.ranks} ranks takes as many rows, not {rows}", param="parallel")
        else:
            text = inputs["encoder_hidden_states"].shape[1]
            tokens = tokens_of(self.config, inputs["hidden_states"])
            if why := obstacle(self.config, text=text, tokens=tokens, ranks=self.ranks):
                raise InputInvalid(f"the context cannot be split: {why}", param="parallel")
        first: Tensor = inputs["hidden_states"]
        with self._lock:
            plain = {name: _arrays(value) for name, value in inputs.items()}
            for process, pipe in self._members:
                try:
                    pipe.send((mode, plain))
                except OSError as error:
                    raise self._over(f"{process.name} is gone") from error
            parts: list[Part] = self._answers("made", self._timeout)
        sent = {name: sum(part.sent.get(name, 0) for part in parts) for name in parts[0].sent}
        made = torch.from_numpy(parts[0].made).to(first.device, first.dtype)
        return Evaluated(made, tuple(part.seconds for part in parts), sent, parts[0].calls)

    def _answers(self, wanted: str, timeout: float) -> list[Any]:
        until = monotonic() + timeout
        found = []
        for process, pipe in self._members:
            try:
                while not pipe.poll(0.5):
                    if monotonic() > until:
                        raise self._over(f"{process.name} did not answer within {timeout:.0f} s")
                    # One that has failed is why the others wait for it.
                    self._notice_failures(wanted)
                found.append(self._answer(process, pipe, wanted))
            except (EOFError, OSError) as error:
                raise self._over(f"{process.name} ended with {process.exitcode}") from error
        return found

    def _notice_failures(self, wanted: str) -> None:
        for process, _pipe in self._members:
            if not process.is_alive():
                # What it said before it ended, if anything, is the reason.
                if _pipe.poll():
                    self._answer(process, _pipe, wanted)
                raise self._over(f"{process.name} ended with {process.exitcode}")

    def _answer(self, process: Any, pipe: Connection, wanted: str) -> Any:
        kind, answer = pipe.recv()
        if kind != wanted:
            raise self._over(f"{process.name} failed: {str(answer).strip().splitlines()[-1]}")
        return answer

    def _over(self, why: str) -> BackendDead:
        self.close()
        return BackendDead(f"the group of {self.ranks} ranks is over: {why}")

    def close(self) -> None:
        """End the ranks. Idempotent."""
        for process, pipe in self._members:
            pipe.close()
            if process.is_alive():
                process.terminate()
        for process, _ in self._members:
            process.join(5)
            if process.is_alive():
                process.kill()
        self._folder.cleanup()


def _context() -> Any:
    """Processes that do not inherit this one's threads; where there is a fork server, the libraries, which take longer
    than everything else, are imported once for all ranks."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["vision_text.parallel.preload"])
    return context


def _arrays(value: Any) -> Any:
    if isinstance(value, Tensor):
        plain = value.detach().cpu()
        return (plain.float() if plain.dtype is torch.bfloat16 else plain).numpy()
    return tuple(map(_arrays, value)) if isinstance(value, tuple) else value
