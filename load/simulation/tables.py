"""What steps take: tables measured on a machine, or worked out from what is published of a GPU; a model that takes it.

A partial is an encode of the newest second and its surroundings, one decode of the draft, and a few tokens; a final is
an encode of the utterance and two or three decodes, since the stream is its own draft (docs/whisper.md).
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from load.simulation.world import World
from workers.backend import Demand, Done, Limits, More, Spec, StepResult

MODEL = "whisper"
ROWS_A_SECOND = 50
AROUND = 85
"""Encoder rows that a partial computes again or ahead besides the new second: 1.5 s before it and a margin behind."""
DRAFT, NEW_TOKENS = 20, 3
"""Tokens fed at once, and those made one by one behind them."""
INTERVAL = 1.0
"""Seconds between two partials."""
FINAL_EVERY = 4.0
"""Seconds that an utterance is taken to last where a stream's share is worked out."""
LOST = 1.1
"""Steps take up to this many times what the table says."""
FLOPS_USED, BYTES_USED = 0.35, 0.7
"""Of what is published, how much real kernels reach."""
LAUNCH = 5e-6
"""Seconds that a kernel's launch takes."""


@dataclass(frozen=True, slots=True)
class Table:
    """Seconds of a step. An encode takes `encode` and `row` for each row; a decode `decode`, `item` for each stream in
    it and `token` for each token that is fed. `source` says where that is from."""

    name: str
    encode: float
    row: float
    decode: float
    item: float
    token: float
    source: str

    def encodes(self, rows: float) -> float:
        return self.encode + self.row * rows

    def decodes(self, items: int, tokens: int) -> float:
        return self.decode + self.item * items + self.token * tokens

    def share(self, batch: int) -> float:
        """Seconds of step time per second that a stream takes on which somebody talks without a pause, when steps are
        shared by `batch` streams. The encodes are taken to be alone."""
        partial = self.encodes(ROWS_A_SECOND + AROUND) + self._decoding(batch, (DRAFT, *[1] * NEW_TOKENS))
        final = self.encodes(final_rows(FINAL_EVERY)) + self._decoding(batch, (DRAFT, 1))
        return partial / INTERVAL + final / FINAL_EVERY

    def _decoding(self, batch: int, feeds: Sequence[int]) -> float:
        return sum(self.decodes(batch, batch * fed) / batch for fed in feeds)


CPU = Table(
    "cpu-tiny.en", encode=0.0078, row=4 * 0.0000906, decode=0.0086, item=0.0, token=0.00106,
    source="measured: tiny.en, bfloat16/int8, two virtual CPUs of an AMD EPYC, one device",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Gpu:
    """As published: dense float16 tensor FLOP/s, and bytes/s of memory."""

    name: str
    flops: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Whisper:
    """The shape of a model."""

    name: str
    width: int
    encoder: int
    decoder: int
    vocabulary: int


GPUS = {gpu.name: gpu for gpu in (
    Gpu("l4", 121e12, 300e9),
    Gpu("l40s", 362e12, 864e9),
    Gpu("a100", 312e12, 2039e9),
    Gpu("h100", 989e12, 3350e9),
)}  # fmt: skip
SHAPES = {shape.name: shape for shape in (
    Whisper("tiny.en", 384, 4, 4, 51_864),
    Whisper("base", 512, 6, 6, 51_865),
    Whisper("large-v3-turbo", 1280, 32, 4, 51_866),
    Whisper("large-v3", 1280, 32, 32, 51_866),
)}  # fmt: skip


def worked_out(gpu: Gpu, model: Whisper) -> Table:
    """A table by arithmetic, in float16, without CUDA graphs, an encode in one step.

    An encoder row of a layer is two operations for each of 12 d² weights and 4 d for each of 1,500 keys. A token step
    reads the decoder's weights once, and of each stream 1,500 keys and values in every layer; its attention is called
    for each stream by itself.
    """
    d, flops, band = model.width, gpu.flops * FLOPS_USED, gpu.bytes * BYTES_USED
    weights = model.decoder * 14 * d * d + model.vocabulary * d
    return Table(
        f"{gpu.name}-{model.name}",
        encode=model.encoder * 12 * LAUNCH,
        row=model.encoder * (24 * d * d + 4 * 1500 * d) / flops,
        decode=2 * weights / band + model.decoder * 15 * LAUNCH,
        item=model.decoder * (1500 * d * 4 / band + 6 * LAUNCH),
        token=2 * weights / flops,
        source=f"worked out: {FLOPS_USED:.0%} of {gpu.flops / 1e12:g} TFLOP/s, {BYTES_USED:.0%} of "
        f"{gpu.bytes / 1e9:g} GB/s, {LAUNCH * 1e6:g} µs a launch",
    )


def measured(path: Path) -> Table:
    """From the step times that a service keeps (steps-DEVICE.json in its profiles). Raises ValueError, OSError."""
    rows = {row["bucket"]: row for row in json.loads(path.read_text())["steps"] if "|asr|" in row["backend"]}
    try:
        encode, decode = rows["('encode', 0)"], rows["'decode'"]
    except KeyError as missing:
        raise ValueError(f"{path} has no step times of {missing}: let a service transcribe a while first") from None
    shape = SHAPES.get(encode["backend"].split("|")[2])
    layers = shape.encoder if shape is not None else 4
    return Table(
        f"{path.stem}", encode["a"], encode["k"] * layers, decode["a"], 0.0, decode["k"],
        source=f"measured: {encode['backend']}",
    )  # fmt: skip


def table(name: str) -> Table:
    """By name: cpu-tiny.en, or GPU-MODEL as l4-large-v3-turbo; else a file of step times. Raises ValueError."""
    if name == CPU.name:
        return CPU
    gpu, _, model = name.partition("-")
    if gpu in GPUS and model in SHAPES:
        return worked_out(GPUS[gpu], SHAPES[model])
    if Path(name).is_file():
        return measured(Path(name))
    raise ValueError(
        f"there is no table {name!r}; take {CPU.name}, one of {', '.join(GPUS)} with one of {', '.join(SHAPES)} "
        "(l4-large-v3-turbo), or a file of step times"
    )


@dataclass(frozen=True, slots=True)
class Ask:
    """A partial or a final: rows to encode, then tokens that each decode is fed."""

    rows: int
    feeds: tuple[int, ...]


def final_rows(seconds: float) -> int:
    return int(ROWS_A_SECOND * seconds) + 10


PARTIAL = Ask(ROWS_A_SECOND + AROUND, (DRAFT, *[1] * NEW_TOKENS))


def final(seconds: float) -> Ask:
    """Of an utterance so long."""
    return Ask(final_rows(seconds), (DRAFT, 1))


class _State:
    __slots__ = ("ask", "at")

    def __init__(self, ask: Ask) -> None:
        self.ask = ask
        self.at = -1  # the encode


_TOKENS = {tokens: Demand("decode", float(tokens)) for tokens in range(1, DRAFT + 1)}


class Timed:
    """A model that computes nothing and takes the table's time for it."""

    def __init__(self, world: World, table: Table, items: int = 64) -> None:
        self.spec = Spec("asr", MODEL)
        self.limits = Limits(items=items, cost=6000.0)
        self._world, self._table = world, table
        self.open_states = 0

    def load(self, device: str) -> None:
        """Nothing to load."""

    def check(self) -> None:
        """It is there as long as its device."""

    def open(self, payload: Ask) -> _State:
        self.open_states += 1
        return _State(payload)

    def demand(self, state: _State) -> Demand:
        if state.at < 0:
            return Demand("encode", float(state.ask.rows), opening=True)
        return _TOKENS[state.ask.feeds[state.at]]

    def step(self, states: Sequence[_State]) -> list[StepResult]:
        if states[0].at < 0:
            seconds = self._table.encodes(sum(state.ask.rows for state in states))
        else:
            seconds = self._table.decodes(len(states), sum(state.ask.feeds[state.at] for state in states))
        self._world.sleep(seconds * self._world.dice.uniform(1.0, LOST))
        out: list[StepResult] = []
        for state in states:
            state.at += 1
            out.append(Done() if state.at == len(state.ask.feeds) else More())
        return out

    def discard(self, state: _State) -> None:
        self.open_states -= 1

    def close(self) -> None:
        """Nothing to free."""
