"""The same work without a service: voice activity over the audio, and the finals of its utterances, in full batches.

Reads a job as JSON from standard input and writes what it took to standard output; it is a process of its own, so that
nothing but this work is in its CPU seconds:

    python -m load.efficiency.bare < job.json
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from speech.asr import SAMPLE_RATE, DecodeOptions, FinalRequest, Samples
from speech.models import resolve
from speech.vad import WINDOW, SileroVad, VadRequest, VadState
from speech.whisper import profile, weights
from speech.whisper.backend import WhisperBackend
from speech.whisper.profile import Precision
from workers.gate.helping import answers


def hear(vad: SileroVad, streams: Sequence[Samples]) -> None:
    """Voice activity of every window of every stream (mono float32, 16 kHz), all streams side by side."""
    pieces = [samples[: len(samples) // WINDOW * WINDOW].reshape(-1, WINDOW) for samples in streams]
    states = [VadState.fresh() for _ in streams]
    for first in range(0, max(map(len, pieces)), SAMPLE_RATE // WINDOW):
        going = [n for n, windows in enumerate(pieces) if first < len(windows)]
        asked = [VadRequest(states[n], pieces[n][first : first + SAMPLE_RATE // WINDOW]) for n in going]
        for n, result in zip(going, answers(vad, asked), strict=True):
            states[n] = result.state


def decode(backend: WhisperBackend, streams: Sequence[Sequence[Samples]]) -> list[list[str]]:
    """The texts of the utterances of each stream: the first of all streams together, then the second, and so on."""
    options = DecodeOptions(language="en")
    texts: list[list[str]] = [[] for _ in streams]
    for number in range(max(map(len, streams))):
        going = [n for n, utterances in enumerate(streams) if number < len(utterances)]
        found = answers(backend, [FinalRequest(streams[n][number], options) for n in going])
        for n, one in zip(going, found, strict=True):
            texts[n].append(one.text)
    return texts


def main() -> None:
    job: dict[str, Any] = json.load(sys.stdin)
    torch.set_num_threads(1)
    found = resolve(job["model"])
    precision = Precision(*job["precision"].split("/"))
    probes = profile.PROVEN_PROBES.get(found.name, 0)
    backend = WhisperBackend(found.name, weights.load(found.directory), found.directory, precision, probes)
    backend.load("cpu")
    vad = SileroVad()
    vad.load("cpu")
    streams: list[Samples] = [
        np.fromfile(one["file"], "<i2").astype(np.float32) * np.float32(1 / 32768) for one in job["streams"]
    ]
    utterances = [
        [samples[start:end] for start, end in one["utterances"]]
        for samples, one in zip(streams, job["streams"], strict=True)
    ]
    decode(backend, [one[:1] for one in utterances])
    began, spent = time.perf_counter(), time.process_time()
    hear(vad, streams)
    texts = decode(backend, utterances)
    told = {
        "wall": time.perf_counter() - began,
        "cpu": time.process_time() - spent,
        "texts": [text for one in texts for text in one],
    }
    json.dump(told, sys.stdout)


if __name__ == "__main__":
    main()
