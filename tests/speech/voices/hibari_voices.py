"""The real voice for tests, and the independent reference: its own graph, de-quantised, run whole by onnxruntime."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from functools import cache

import numpy as np
import onnx
import onnxruntime
import torch
from hibari import dsp
from numpy.typing import NDArray
from onnx import helper, numpy_helper

from speech.models.bundled import part_path
from speech.text.spoken import Spoken
from speech.tts import Planned, PlanRequest, Rendered, RenderRequest, SegmentText, Sound, Voicing
from speech.voices.hibari.backend import HibariBackend
from speech.voices.hibari.voice import HibariVoice
from speech.voices.hibari.wave import frame_noise
from speech.voices.hibari.weights import Weights, read_weights
from workers.backend import Backend, Done, More

GRAPH = part_path("hibari/assets/hibari.onnx")

SENTENCE = (
    "The captain stood on the bridge for a while and watched the grey water, and he turned to the young officer "
    "beside him and smiled."
)
"""25 words."""
TEXTS = (
    "Hi.",
    "Oh!",
    "Yes, of course.",
    "Who is there?",
    "She sells sea shells by the sea shore.",
    "Thank you for calling, how can I help you today?",
    "The quick brown fox jumps over the lazy dog, and the dog does not mind at all.",
    SENTENCE,
    "“No,” he said; “never again — not in a thousand years!”",
    "Zebras graze, judges judge, and fishes swim through the thick weeds of the shallow pond.",
    "One two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen.",
    "A long, long time ago there lived a king who had three sons, and each of them wanted to see the whole wide world.",
    " ".join([SENTENCE.removesuffix(".") + ","] * 12).removesuffix(",") + ".",  # 300 words
)


@cache
def voice() -> HibariVoice:
    return HibariVoice()


@cache
def weights() -> Weights:
    return read_weights(GRAPH)


@cache
def backend(precision: str = "float32", batched: bool | None = None) -> HibariBackend:
    torch.set_num_threads(1)
    made = HibariBackend(weights(), precision=precision, batched=batched)
    made.load("cpu")
    return made


def changed_backend(**changes: torch.Tensor) -> HibariBackend:
    """The voice with other values of some weights; `__` in a name stands for a dot."""
    made = HibariBackend({**weights(), **{name.replace("__", "."): value for name, value in changes.items()}})
    made.load("cpu")
    return made


def tokens(text: str) -> tuple[Spoken, ...]:
    """Words and marks of a text that needs no normalising."""
    return tuple(
        Spoken(m.group(), m.start(), m.end(), "word" if m.group()[0].isalnum() else "punctuation")
        for m in re.finditer(r"[\w'’-]+|[^\w\s]", text)
    )


def segment(text: str, *, speed: float = 1.0, seed: int = 0, index: int = 0, first: bool = False) -> SegmentText:
    spoken = tokens(text)
    return SegmentText(spoken, voice().phonemes(spoken), speed, seed, index, first)


def run(model: Backend, request: PlanRequest | RenderRequest) -> Planned | Rendered:
    """One task from opening to its answer; raises what the step gives as an exception."""
    job = model.open(request)
    try:
        while isinstance(result := model.step([job])[0], More):
            pass
    finally:
        model.discard(job)
    if isinstance(result, Exception):
        raise result
    answer: Planned | Rendered = result.output
    return answer


def plan(model: Backend, voicing: Voicing) -> Planned:
    answer = run(model, PlanRequest(voicing))
    assert isinstance(answer, Planned)
    return answer


def render(model: Backend, voicing: Voicing, window: int) -> Sound:
    answer = run(model, RenderRequest(voicing, window))
    assert isinstance(answer, Rendered)
    return answer.samples


def speak(model: Backend, said: SegmentText) -> tuple[Planned, Sound]:
    """A segment alone, window by window."""
    voicing = Voicing(said)
    planned = plan(model, voicing)
    assert planned.windows is not None
    made = [render(model, voicing, window) for window in range(len(planned.windows))]
    assert [len(samples) for samples in made] == list(planned.windows)
    return planned, np.concatenate(made) if made else np.zeros(0, np.float32)


def speak_together(model: Backend, said: Sequence[SegmentText], order: random.Random) -> list[Sound]:
    """Many segments at once: each step is made for a random part of those that share a bucket."""
    voicings = [Voicing(one) for one in said]
    windows: list[tuple[int, ...]] = [()] * len(said)
    made: list[list[Sound]] = [[] for _ in said]
    jobs = {n: model.open(PlanRequest(voicing)) for n, voicing in enumerate(voicings)}
    while jobs:
        buckets: dict[object, list[int]] = {}
        for n, job in jobs.items():
            buckets.setdefault(model.demand(job).bucket, []).append(n)
        chosen = order.choice(list(buckets.values()))
        chosen = order.sample(chosen, order.randint(1, len(chosen)))
        for n, result in zip(chosen, model.step([jobs[n] for n in chosen]), strict=True):
            if isinstance(result, More):
                continue
            assert isinstance(result, Done), result
            model.discard(jobs.pop(n))
            if isinstance(result.output, Planned):
                windows[n] = result.output.windows or ()
            else:
                made[n].append(result.output.samples)
            if len(made[n]) < len(windows[n]):
                jobs[n] = model.open(RenderRequest(voicings[n], len(made[n])))
    return [np.concatenate(parts) for parts in made]


def snr(reference: Sound, sound: Sound) -> float:
    """Decibels between the reference's energy and that of the difference."""
    exact = reference.astype(np.float64)
    error = float(((exact - sound) ** 2).sum())
    return 10 * float(np.log10((exact**2).sum() / error)) if error else float("inf")


class SameNoise:
    """Stands in for the generator of the package's synthesis and gives the noise of a segment here."""

    def __init__(self, seed: int, index: int) -> None:
        self.key = seed, index

    def standard_normal(self, shape: tuple[int, int], dtype: type) -> NDArray[np.float32]:
        noise = frame_noise(*self.key, 0, shape[1] // 2)
        return np.ascontiguousarray(noise.T).view(np.float32)


@cache
def reference_session() -> onnxruntime.InferenceSession:
    """The package's graph with every quantised product replaced by one of float32; tells its durations as well."""
    model = onnx.load(GRAPH)
    graph = model.graph
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    kept = [t for t in graph.initializer if not t.name.endswith(("_quantized", "_scale", "_zero_point"))]
    for name in [name for name in stored if name.endswith("_quantized")]:
        base = name.removesuffix("_quantized")
        values = (stored[name].astype(np.float32) - np.float32(stored[f"{base}_zero_point"])) * stored[f"{base}_scale"]
        kept.append(numpy_helper.from_array(values, base))
    nodes = []
    for node in graph.node:
        if node.op_type == "MatMulInteger":
            factors = [name.removesuffix("_quantized") for name in node.input[:2]]
            nodes.append(helper.make_node("MatMul", factors, [node.output[0].removesuffix("_output_quantized")]))
        elif node.op_type != "DynamicQuantizeLinear" and "_quant_" not in node.name and "_quantized_" not in node.name:
            nodes.append(node)
    del graph.node[:], graph.initializer[:]
    graph.node.extend(nodes)
    graph.initializer.extend(kept)
    graph.output.append(helper.make_tensor_value_info("/Cast_32_output_0", onnx.TensorProto.INT64, ["symbols"]))
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    return onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


def reference(said: SegmentText) -> tuple[list[NDArray[np.float32]], NDArray[np.float32], NDArray[np.int64]]:
    """Five spectra [601, frames], pitch [frames] and durations [symbols] in pairs of frames, of the whole segment."""
    feed = {"ids": np.array([said.phonemes.ids]), "speed": np.array([said.speed], np.float32)}
    *made, durations = reference_session().run(None, feed)
    *spectra, pitch = (part[0] for part in made)
    return spectra, pitch, durations


def reference_sound(spectra: Sequence[NDArray[np.float32]], pitch: NDArray[np.float32], said: SegmentText) -> Sound:
    """What the package makes of spectra and pitch, with the noise of this segment."""
    sound: Sound = dsp.synth(*spectra, pitch, SameNoise(said.seed, said.index))
    return sound
