"""Voice activity: Silero v6 as a backend of the step loop, all live streams' windows in one call.

The model hears 32 ms at a time: a window of 512 new samples (16 kHz) behind the 64 samples before it, with an LSTM
state that runs on. A stream's state travels in the request and comes back in the result, so the backend keeps nothing
between tasks and a retry finds the same state.

Two graphs of the same weights share the work, and both give the same numbers: one takes one window of many streams
(live), one takes many windows of one stream (a long append, where going window by window costs twice the time).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np
import onnxruntime
from numpy.typing import NDArray

from speech.asr import SAMPLE_RATE, Samples
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, InputInvalid

WINDOW = 512
"""Samples of one window."""
WINDOW_SECONDS = WINDOW / SAMPLE_RATE
CONTEXT = 64
_HIDDEN = 128
_LONG = 8
"""From this many windows on, a run over one stream beats a place in the batch."""
RUN = 64
"""Windows of one stream in one step: about 5 ms, so that a long append does not hold up the others."""
_BATCH = 64
_LOUD = 0.1
"""What a loud voice comes to: the quadratic mean of a window."""
_MOST = 10.0
_FALL = 0.5 ** (WINDOW_SECONDS / 2.0)
_RAMP = np.arange(float(WINDOW))


@dataclass(frozen=True, slots=True)
class Gain:
    """A slow, bounded gain before the model, so that a quiet line (a telephone at -20 dB) is heard like a near one.

    Only voice activity hears it. It follows the loudest recent window, falls at once and rises with a half-life of
    two seconds of audio, by at most a factor of 10; it counts windows, never wall time, so it knows no framing.
    """

    level: float = _LOUD / _MOST
    now: float = _MOST

    def apply(self, windows: Samples) -> tuple[Samples, Gain]:
        """The windows [k, 512] made louder, in [-1, 1], and the gain that goes on from there."""
        # Called for every frame of every stream: plain ufuncs, whose wrappers cost more than the samples do.
        loudness = np.sqrt(np.add.reduce(windows * windows, axis=1) / np.float32(WINDOW)).tolist()
        out = np.empty_like(windows)
        level, now = self.level, self.now
        for i, loud in enumerate(loudness):
            level = max(loud, level * _FALL, _LOUD / _MOST)
            before, now = now, min(max(_LOUD / level, 1.0), _MOST)
            if now > before:
                rise = _RAMP * ((now - before) / (WINDOW - 1)) + before
                np.multiply(windows[i], rise.astype(np.float32), out=out[i])
            else:
                np.multiply(windows[i], np.float32(now), out=out[i])
        np.minimum(out, np.float32(1.0), out=out)
        return np.maximum(out, np.float32(-1.0), out=out), Gain(level, now)


@dataclass(frozen=True, slots=True)
class VadState:
    """What the model carries from window to window of one stream: `memory` [2, 1, 128] and the last 64 samples.

    `gain` is that of a stream which is made louder first; None: it is heard as it is.
    """

    memory: NDArray[np.float32]
    context: Samples
    gain: Gain | None = None

    @classmethod
    def fresh(cls, gain: Gain | None = None) -> VadState:
        return cls(np.zeros((2, 1, _HIDDEN), np.float32), np.zeros(CONTEXT, np.float32), gain)


@dataclass(frozen=True, slots=True)
class VadRequest:
    """The next `windows` [k, 512] of a stream whose state is `state`; k >= 1."""

    state: VadState
    windows: Samples


@dataclass(frozen=True, slots=True)
class VadResult:
    """Speech probabilities [k] of the request's windows, and the state to go on with."""

    probabilities: NDArray[np.float32]
    state: VadState


class _Stream:
    """A request under way: its inputs [k, 576] with their context in front, made when it begins, and how many are done.

    `begin` runs on the device's thread: the event loop, where requests are opened, has other things to do.
    """

    __slots__ = ("done", "gain", "inputs", "left", "memory", "probabilities", "request")

    def __init__(self, request: VadRequest) -> None:
        self.request = request
        self.left = len(request.windows)
        self.done = 0
        self.memory = request.state.memory
        self.gain = request.state.gain
        self.inputs: Samples | None = None
        self.probabilities = np.empty(self.left, np.float32)

    def begin(self) -> Samples:
        """The inputs."""
        if self.inputs is None:
            windows = self.request.windows
            if self.gain is not None:
                windows, self.gain = self.gain.apply(windows)
            self.inputs = np.empty((len(windows), CONTEXT + WINDOW), np.float32)
            self.inputs[:, CONTEXT:] = windows
            self.inputs[0, :CONTEXT] = self.request.state.context
            self.inputs[1:, :CONTEXT] = windows[:-1, -CONTEXT:]
        return self.inputs

    def advance(self, probabilities: NDArray[np.float32], memory: NDArray[np.float32], finite: bool) -> StepResult:
        """[n] of the next n windows, and the memory behind them."""
        if not finite:
            return BackendFailed("voice activity gave a probability that is not a number")
        assert self.inputs is not None
        self.probabilities[self.done : self.done + len(probabilities)] = probabilities
        self.done += len(probabilities)
        self.left -= len(probabilities)
        self.memory = memory
        if self.left:
            return More()
        context = self.inputs[-1, -CONTEXT:].copy()
        return Done(VadResult(self.probabilities, VadState(memory.copy(), context, self.gain)))


class SileroVad:
    """Backend: `VadRequest` in, `VadResult` out. Costs are windows."""

    def __init__(self) -> None:
        self.spec = Spec(task="vad", model="silero", revision="v6", precision="float32")
        self.limits = Limits(items=_BATCH)
        self._batch: onnxruntime.InferenceSession | None = None
        self._sequence: onnxruntime.InferenceSession | None = None
        self._rate = np.array(SAMPLE_RATE, np.int64)

    def load(self, device: str) -> None:
        """Open the graphs, one thread each, and run the shapes that live streams need. Always on the CPU."""
        if self._batch is not None:
            return
        self._sequence = _session("silero_vad_16k_sequence.onnx")
        self._batch = _session("silero_vad_16k_op15.onnx")
        for streams, windows in ((1, 1), (2, 1), (8, 1), (1, _LONG)):
            silence = VadRequest(VadState.fresh(), np.zeros((windows, WINDOW), np.float32))
            self.step([_Stream(silence) for _ in range(streams)])

    def check(self) -> None:
        if self._batch is None:
            raise RuntimeError("the voice activity model is not loaded")

    def open(self, payload: Any) -> _Stream:
        """Raises `InputInvalid` when the payload is not a `VadRequest` with finite windows [k >= 1, 512]."""
        if not isinstance(payload, VadRequest) or payload.windows.ndim != 2 or payload.windows.shape[1] != WINDOW:
            raise InputInvalid(f"voice activity takes windows of {WINDOW} samples", param="windows")
        if not len(payload.windows):
            raise InputInvalid("voice activity needs at least one window", param="windows")
        if not np.isfinite(payload.windows).all():
            raise InputInvalid("the audio has samples that are not numbers", param="audio")
        return _Stream(payload)

    def demand(self, state: _Stream) -> Demand:
        if state.left >= _LONG:
            return Demand("sequence", float(min(state.left, RUN)))
        return Demand("batch", float(state.left))

    def step(self, states: Sequence[_Stream]) -> list[StepResult]:
        """All of the few windows that a frame brings, or a run of a long append."""
        if states[0].left >= _LONG:
            return [self._run_on(state) for state in states]
        results: list[StepResult] = [More()] * len(states)
        going = list(range(len(states)))
        while going:
            for n, result in zip(going, self._windows([states[n] for n in going]), strict=True):
                results[n] = result
            going = [n for n in going if isinstance(results[n], More)]
        return results

    def _windows(self, states: Sequence[_Stream]) -> list[StepResult]:
        """The next window of each."""
        assert self._batch is not None
        output, memory = self._batch.run(
            ["output", "stateN"],
            {
                "input": np.concatenate([state.begin()[state.done : state.done + 1] for state in states]),
                "state": np.concatenate([state.memory for state in states], axis=1),
                "sr": self._rate,
            },
        )
        finite = (np.isfinite(output).all(axis=1) & np.isfinite(memory).all(axis=(0, 2))).tolist()
        return [state.advance(output[i], memory[:, i : i + 1], finite[i]) for i, state in enumerate(states)]

    def _run_on(self, state: _Stream) -> StepResult:
        assert self._sequence is not None
        probabilities, hidden, cell = self._sequence.run(
            ["speech_probs", "hn", "cn"],
            {
                "input": state.begin()[state.done : state.done + RUN],
                "h": state.memory[0][None],
                "c": state.memory[1][None],
            },
        )
        memory = np.stack([hidden.reshape(1, -1), cell.reshape(1, -1)])
        finite = bool(np.isfinite(probabilities).all() and np.isfinite(memory).all())
        return state.advance(probabilities.reshape(-1), memory, finite)

    def discard(self, state: _Stream) -> None:
        """Nothing to free: the state is plain arrays."""

    def close(self) -> None:
        self._batch = self._sequence = None


def _session(name: str) -> onnxruntime.InferenceSession:
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 3
    graph = files("silero_vad.data").joinpath(name).read_bytes()
    return onnxruntime.InferenceSession(graph, options, providers=["CPUExecutionProvider"])
