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


@dataclass(frozen=True, slots=True)
class VadState:
    """What the model carries from window to window of one stream: `memory` [2, 128] and the last 64 samples."""

    memory: NDArray[np.float32]
    context: Samples

    @classmethod
    def fresh(cls) -> VadState:
        return cls(np.zeros((2, _HIDDEN), np.float32), np.zeros(CONTEXT, np.float32))


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


class Gain:
    """A slow, bounded gain before the model, so that a quiet line (a telephone at -20 dB) is heard like a near one.

    Only voice activity hears it. It follows the loudest recent window, falls at once and rises with a half-life of
    two seconds of audio, by at most a factor of 10; it counts windows, never wall time, so it knows no framing.
    """

    _LOUD = 0.1
    _MOST = 10.0
    _FALL = 0.5 ** (WINDOW_SECONDS / 2.0)

    def __init__(self) -> None:
        self._level = self._LOUD / self._MOST
        self._gain = self._MOST

    def apply(self, windows: Samples) -> Samples:
        """The windows [k, 512] made louder, in [-1, 1]."""
        loudness = np.sqrt(np.mean(windows * windows, axis=1)).tolist()
        gains = np.empty(len(windows) + 1)
        gains[0] = self._gain
        for i, level in enumerate(loudness, 1):
            self._level = max(level, self._level * self._FALL, self._LOUD / self._MOST)
            gains[i] = min(max(self._LOUD / self._level, 1.0), self._MOST)
        self._gain = float(gains[-1])
        before, after = gains[:-1], gains[1:]
        out = windows * after.astype(np.float32)[:, None]
        rises = np.flatnonzero(after > before)
        if len(rises):
            out[rises] = windows[rises] * np.linspace(before[rises], after[rises], WINDOW, dtype=np.float32, axis=1)
        return np.clip(out, -1.0, 1.0, out=out)


class _Stream:
    """A request under way: its inputs [k, 576] with their context in front, and how many are done."""

    __slots__ = ("done", "inputs", "memory", "probabilities")

    def __init__(self, request: VadRequest) -> None:
        flat = np.concatenate([request.state.context, request.windows.reshape(-1)])
        view = np.lib.stride_tricks.sliding_window_view(flat, CONTEXT + WINDOW)[::WINDOW]
        self.inputs: Samples = np.ascontiguousarray(view)
        self.memory = request.state.memory
        self.done = 0
        self.probabilities = np.empty(len(request.windows), np.float32)

    @property
    def left(self) -> int:
        return len(self.inputs) - self.done

    def advance(self, probabilities: NDArray[np.float32], memory: NDArray[np.float32]) -> StepResult:
        if not (np.isfinite(probabilities).all() and np.isfinite(memory).all()):
            return BackendFailed("voice activity gave a probability that is not a number")
        self.probabilities[self.done : self.done + len(probabilities)] = probabilities
        self.done += len(probabilities)
        self.memory = memory
        if self.left:
            return More()
        return Done(VadResult(self.probabilities, VadState(memory, self.inputs[-1, -CONTEXT:].copy())))


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
        return Demand("batch", 1.0)

    def step(self, states: Sequence[_Stream]) -> list[StepResult]:
        if states[0].left >= _LONG:
            return [self._run_on(state) for state in states]
        assert self._batch is not None
        output, memory = self._batch.run(
            ["output", "stateN"],
            {
                "input": np.stack([state.inputs[state.done] for state in states]),
                "state": np.stack([state.memory for state in states], axis=1),
                "sr": self._rate,
            },
        )
        return [state.advance(output[i], memory[:, i].copy()) for i, state in enumerate(states)]

    def _run_on(self, state: _Stream) -> StepResult:
        assert self._sequence is not None
        probabilities, hidden, cell = self._sequence.run(
            ["speech_probs", "hn", "cn"],
            {
                "input": state.inputs[state.done : state.done + RUN],
                "h": state.memory[0].reshape(1, 1, -1),
                "c": state.memory[1].reshape(1, 1, -1),
            },
        )
        return state.advance(probabilities.reshape(-1), np.stack([hidden.reshape(-1), cell.reshape(-1)]))

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
