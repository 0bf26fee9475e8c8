"""Precision and threads, chosen by measuring on this machine at first start and kept in a profile.

What is fastest is a question of the machine: int8 weights win where token steps wait for memory and the processor has
byte dot products, bfloat16 where it has its own instructions for it. What is *allowed* is a question of quality:
only precisions that passed the gate (docs/whisper.md) are measured at all.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path

import torch

from speech.asr import WINDOW_SECONDS
from speech.dense import emulated
from speech.whisper.decoder import Decoder, Feed, Sequence
from speech.whisper.encoder import FRAMES, MARGIN, REDO, Encoder, Encoding, floors
from speech.whisper.weights import Checkpoint

log = logging.getLogger(__name__)

PROVEN_ENCODER = ("float32", "bfloat16")
PROVEN_DECODER = ("float32", "int8")
"""Precisions whose finals passed the gate, see docs/whisper.md."""

PROVEN_PROBES = {"tiny.en": 17}
"""How many probes of the padding finals use (probes.py), for the models where they passed; the others use none."""

WHOLE_WINDOW = {"base": frozenset({"es"})}
"""Languages whose finals lose words with frozen padding, by model: theirs take the whole window (docs/whisper.md)."""

_VERSION = 4
_ROUNDS = 3
_ROWS_PER_SECOND = 50
_PARTIAL_ROWS = REDO + _ROWS_PER_SECOND + MARGIN
_DRAFT = 24
_NEW_TOKENS = 5
_COMPANY = 1.5
"""How much longer steps take in company: the profile is measured alone, while voice activity, the gateway and other
streams share caches and cores (load.live: 8 streams took 0.65 of the device where their steps alone make 0.45).
"""
_EMULATED = 10.0
"""Taken for float32's time of a precision for which the processor has no instructions: it is not measured, which
would take most of a minute to find that nobody wants it."""
_WORTH = 0.9
"""A shorter precision must take at most this share of the time to be chosen over float32."""


@dataclass(frozen=True, slots=True)
class Precision:
    """Precision of the encoder and of the decoder, each one of dense.PRECISIONS or "float16" on a GPU."""

    encoder: str = "float32"
    decoder: str = "float32"

    def __str__(self) -> str:
        return f"{self.encoder}/{self.decoder}"


def proven(device: str) -> tuple[Precision, ...]:
    """Those that a device may be asked for."""
    if device != "cpu":
        return (Precision("float16", "float16"),)
    return tuple(Precision(encoder, decoder) for encoder in PROVEN_ENCODER for decoder in PROVEN_DECODER)


@dataclass(frozen=True, slots=True)
class Profile:
    """What was measured: seconds of one thread-set for a partial's parts, and for a second of a final's encoder."""

    precision: Precision
    threads: int
    partial_encode: float
    prefill: float
    token: float
    final_encode: float
    measured: dict[str, float]

    @classmethod
    def of(cls, precision: Precision, threads: int, measured: dict[str, float]) -> Profile:
        """What was measured, with this precision."""

        def seconds(half: str, kind: str, part: str) -> float:
            known = measured.get(f"{half} {kind} {part}")
            return _EMULATED * measured[f"{half} float32 {part}"] if known is None else known

        encode = seconds("encoder", precision.encoder, "partial")
        return cls(
            precision=precision,
            threads=threads,
            partial_encode=encode,
            prefill=seconds("decoder", precision.decoder, "prefill"),
            token=seconds("decoder", precision.decoder, "token"),
            final_encode=encode * _ROWS_PER_SECOND / _PARTIAL_ROWS,
            measured=measured,
        )

    def taking(self, precision: Precision) -> Profile:
        """The same measurement with another precision than the fastest."""
        return Profile.of(precision, self.threads, self.measured)

    def share(self, partial_interval: float, partials: bool, whole: bool = False) -> float:
        """Seconds of step time per second that a stream takes while somebody talks on it without a pause.

        `whole`: its finals, one in four seconds, take the whole window.
        """
        tokens = self.token * _NEW_TOKENS
        encode = self.final_encode * (WINDOW_SECONDS / 4 if whole else 1.0)
        final = encode + (self.prefill + tokens) / 4
        partial = (self.partial_encode + self.prefill + tokens) / partial_interval if partials else 0.0
        return _COMPANY * (final + partial)


def choose(weights: Checkpoint, name: str, device: str, threads: int | None, folder: Path) -> Profile:
    """The profile for a model on this device: read from `folder`, or measured now and written there if that can be.

    `threads` fixes the number of CPU threads; None measures 1, 2, 4 … up to the cores. Each number has a file of its
    own, so that processes with different ones do not measure again and again.
    """
    key = _key(name, device, threads, weights)
    path = folder / f"{name.replace('/', '--')}-{device.replace(':', '')}-{_threads(threads)}.json"
    try:
        saved = json.loads(path.read_text())
        if saved.pop("key") == key:
            return Profile(**{**saved, "precision": Precision(**saved["precision"])})
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as reason:
        log.debug("no usable profile at %s: %s", path, reason)
    log.info("measuring what is fastest for %s on this machine, once; it may take a minute", name)
    began = time.monotonic()
    profile = measure(weights, device, threads)
    log.info("measured %s in %.0f s", name, time.monotonic() - began)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps({"key": key, **asdict(profile)}, indent=1))
        draft.replace(path)
    except OSError as error:
        log.warning("the profile of %s could not be kept and is measured again next time: %s", name, error)
    return profile


def _threads(threads: int | None) -> str:
    match threads:
        case None:
            return "any-threads"
        case 1:
            return "1-thread"
        case _:
            return f"{threads}-threads"


def measure(weights: Checkpoint, device: str, threads: int | None) -> Profile:
    """Time every proven precision with every number of threads, as a live stream would use them."""
    if device != "cpu":
        return _measure(weights, device, 1, ("float16",), ("float16",))
    encoders, decoders = _worth_timing()
    if threads is not None:
        return _measure(weights, device, threads, encoders, decoders)
    tried = []
    count = 1
    while count <= min(_cores(), 8):
        tried.append(_measure(weights, device, count, encoders, decoders))
        count *= 2
    return min(tried, key=lambda p: p.share(1.0, True))


def _cores() -> int:
    """CPU threads that models may use here: the cores of this process, or fewer where OMP_NUM_THREADS says so."""
    here = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    told = os.environ.get("OMP_NUM_THREADS", "")
    return min(here, max(1, int(told))) if told.isdigit() else here


def _worth_timing() -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Of the encoder and of the decoder, on a CPU: what the processor has instructions for."""
    encoders = tuple(one for one in PROVEN_ENCODER if not emulated(one, "cpu"))
    return encoders, tuple(one for one in PROVEN_DECODER if not emulated(one, "cpu"))


def _measure(
    weights: Checkpoint, device: str, threads: int, encoders: tuple[str, ...], decoders: tuple[str, ...]
) -> Profile:
    if device == "cpu":
        torch.set_num_threads(threads)
    times: dict[str, float] = {}
    log.info("measuring with %d threads on %s", threads, device)
    with torch.inference_mode():
        for precision in encoders:
            encoder = Encoder(weights, precision, device)
            times[f"encoder {precision} partial"] = _time(partial(_encode, encoder, _PARTIAL_ROWS), device)
        for precision in decoders:
            decoder = Decoder(weights, precision, device)
            shape = (decoder.layers, 2, decoder.heads, FRAMES, decoder.head)
            cross = torch.zeros(shape, dtype=decoder.cross_dtype, device=device)
            times[f"decoder {precision} prefill"] = _time(partial(_decode, decoder, cross, _DRAFT), device)
            times[f"decoder {precision} token"] = _time(partial(_decode, decoder, cross, 1), device)
    encoder_choice = _best(encoders, lambda p: times[f"encoder {p} partial"])
    decoder_choice = _best(decoders, lambda p: times[f"decoder {p} prefill"] + 5 * times[f"decoder {p} token"])
    return Profile.of(Precision(encoder_choice, decoder_choice), threads, times)


def _best(choices: tuple[str, ...], seconds: Callable[[str], float]) -> str:
    """The fastest; the first (the most exact) unless another is clearly faster."""
    best = min(choices, key=seconds)
    return best if seconds(best) <= _WORTH * seconds(choices[0]) else choices[0]


def _encode(encoder: Encoder, rows: int) -> None:
    floor = floors()[0]
    kv = encoder.buffer(floor)
    encoder.run([Encoding(torch.zeros(rows, encoder.dim, device=encoder.device), 0, rows, floor, kv)], encoder.layers)


def _decode(decoder: Decoder, cross: torch.Tensor, tokens: int) -> None:
    decoder.step([Feed(Sequence(decoder, cross), [0] * tokens, list(range(tokens)))])


def _time(work: Callable[[], None], device: str) -> float:
    """Seconds of the fastest of some rounds: the machine's own speed, not its neighbours' load."""
    best = float("inf")
    for _ in range(_ROUNDS + 1):
        start = time.perf_counter()
        work()
        if device != "cpu":
            torch.cuda.synchronize(device)
        best = min(best, time.perf_counter() - start)
    return best


def _key(name: str, device: str, threads: int | None, weights: Checkpoint) -> list[str]:
    """Everything that makes an old measurement worthless when it changes."""
    chip = torch.cuda.get_device_name(device) if device != "cpu" else torch.backends.cpu.get_cpu_capability()
    size = f"{weights.encoder_layers}x{weights.dim}"
    return [str(_VERSION), name, size, device, str(threads), str(_cores()), platform.machine(), chip,
            torch.__version__, *(one for half in _worth_timing() for one in half)]  # fmt: skip
