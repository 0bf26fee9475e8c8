"""The real service on a model that hears nothing, every step of which takes 50 ms, and a voice that speaks in sines.

What is left to measure is everything around the models: sockets, sessions, voice activity, the step loop. It takes the
settings of `speechlane serve`, each with a value, and some of its own:

    python -m tests.load.fixed_service --port 8701 --step 0.05 --vad silero --wyoming-port 8702

`--vad level` takes loud for speech, so that voice activity costs next to nothing as well. `--together` is how many
streams are in one step: with 1, each costs the time of its steps, and the device carries a number that is known.
"""

from __future__ import annotations

import argparse
import asyncio
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gateway.server import serve
from gateway.settings import Settings, load_settings
from speech.asr import SAMPLE_RATE, FinalRequest, Hypothesis, PartialRequest, Transcript
from speech.carried import Admission
from speech.engine import Engine, EngineSettings, _return_large_blocks
from speech.events import Word
from speech.loading import OPENAI_NAMES, Model, ModelInfo
from speech.vad import SileroVad, VadRequest, VadResult
from tests.speech.speaking.sines import Sines
from workers.backend import Demand, Done, Limits, Spec, StepResult
from workers.device import Device
from workers.errors import InputInvalid
from workers.pool import Pool

MODEL, VOICE = "fixed", "heart"
WORDS_A_SECOND = 2.5
QUIET = {"batch": False, "voices": (), "embeddings": (), "documents": 0}
"""Settings of a service without models of its own."""
TOGETHER = 64
"""Streams in one step."""
SHARE = 1e-4
"""What a stream reserves of the device: next to nothing, so that as many come in as there are places."""
LOUD = 0.01


def words(samples: int) -> list[str]:
    """What is "said" in so many samples: a word every 400 ms."""
    return [f" word{n}" for n in range(int(samples / SAMPLE_RATE * WORDS_A_SECOND))]


class FixedAsr:
    """Partials and finals after one step of `seconds`, in which the interpreter is free as in a real model's."""

    def __init__(self, seconds: float, together: int = TOGETHER) -> None:
        self.spec = Spec(task="asr", model=MODEL)
        self.limits = Limits(items=together)
        self._seconds = seconds

    def load(self, device: str) -> None:
        """Nothing to load."""

    def check(self) -> None:
        """It is always there."""

    def open(self, payload: Any) -> Any:
        if not isinstance(payload, PartialRequest | FinalRequest):
            raise InputInvalid("this model takes partials and finals")
        return payload

    def demand(self, state: Any) -> Demand:
        return Demand("step", 1.0)

    def step(self, states: Sequence[Any]) -> list[StepResult]:
        time.sleep(self._seconds)
        return [Done(_partial(one) if isinstance(one, PartialRequest) else _final(one)) for one in states]

    def discard(self, state: Any) -> None:
        """Nothing is held."""

    def close(self) -> None:
        """Nothing to free."""


def _partial(request: PartialRequest) -> Hypothesis:
    found = words(request.end)
    first = len(request.stable)
    return Hypothesis(tuple(range(first, len(found))), tuple((word, 1) for word in found[first:]))


def _final(request: FinalRequest) -> Transcript:
    found = words(len(request.samples))
    timed = tuple(Word(word, n / WORDS_A_SECOND, (n + 1) / WORDS_A_SECOND, 0.9) for n, word in enumerate(found))
    seconds = len(request.samples) / SAMPLE_RATE
    return Transcript("".join(found).strip(), timed, (), "en", 1.0, -0.1, 0.0, 1.0, 0.0, seconds)


class LevelVad(SileroVad):
    """Speech is what is loud."""

    def load(self, device: str) -> None:
        """Nothing to load."""

    def check(self) -> None:
        """It is always there."""

    def open(self, payload: VadRequest) -> Any:
        return payload

    def demand(self, state: VadRequest) -> Demand:
        return Demand("batch", 1.0)

    def step(self, states: Sequence[VadRequest]) -> list[StepResult]:
        return [
            Done(VadResult((np.abs(one.windows).mean(axis=1) > LOUD).astype(np.float32), one.state)) for one in states
        ]


def engine(
    seconds: float,
    vad: str,
    together: int = TOGETHER,
    admission: Admission = "estimated",
    asr: type[FixedAsr] = FixedAsr,
) -> Engine:
    """An engine on these, started."""
    _return_large_blocks()
    device, ears = Device("cpu:0"), Device("vad", step_budget=0.020)
    device.add(asr(seconds, together))
    ears.add(SileroVad() if vad == "silero" else LevelVad())
    made = Engine(EngineSettings(models=(MODEL,), voices=(), admission=admission), [device], ears)
    voice = Sines(name=VOICE)
    voice.info = replace(voice.info, rate=8000)  # which every format takes; it speaks eight times as fast
    made._house.settle([voice])
    device.start()
    ears.start()
    made._house.rehearse()
    info = ModelInfo(MODEL, "asr", ("en",), OPENAI_NAMES)
    made._models[MODEL] = Model(info, Pool(MODEL, [device]), lambda *_: SHARE)
    made.settle()
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--step", type=float, default=0.05, help="seconds (default %(default)g)")
    parser.add_argument("--vad", choices=("silero", "level"), default="silero", help="(default %(default)s)")
    parser.add_argument("--together", type=int, default=TOGETHER, help="streams in a step (default %(default)s)")
    options, rest = parser.parse_known_args()
    names = {rest[n].removeprefix("--").replace("-", "_"): rest[n + 1] for n in range(0, len(rest), 2)}

    async def start(settings: Settings) -> Engine:
        return await asyncio.to_thread(engine, options.step, options.vad, options.together, settings.admission)

    def tell(url: str) -> None:
        print(url, file=sys.stderr)

    settings = load_settings(**{**QUIET, "port": options.port, **names})
    asyncio.run(serve(settings, listening=tell, ready=tell, start=start))


if __name__ == "__main__":
    main()
