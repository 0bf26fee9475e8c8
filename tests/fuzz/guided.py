"""One target under atheris, which changes inputs by what they reach in the code. Runs in a process of its own.

What a target raises is a fault: its input is kept in a file, and the search goes on. Of faults at one place one stays.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import sys
import traceback
from pathlib import Path
from random import Random

import atheris

INSTRUMENTED = ["gateway", "speech", "vision_text", "batch_jobs", "workers"]

with atheris.instrument_imports(include=INSTRUMENTED):
    from tests.fuzz.everything import targets
    from tests.fuzz.mutations import changed
    from tests.fuzz.target import Target

MOST_FAULTS = 50


class Faults:
    """Each place that raised, once: a text with the traceback, and beside it the input."""

    def __init__(self, directory: Path, name: str) -> None:
        self._directory, self._name = directory, name
        self._places: set[str] = set()

    def take(self, error: BaseException, data: bytes) -> None:
        frames = [
            frame for frame in traceback.extract_tb(error.__traceback__) if "tests/fuzz/guided" not in frame.filename
        ]
        own = [frame for frame in frames if "site-packages" not in frame.filename]
        place = f"{type(error).__name__} {[(Path(one.filename).name, one.lineno) for one in own[-2:]]}"
        if place in self._places or len(self._places) >= MOST_FAULTS:
            return
        self._places.add(place)
        stem = self._directory / f"{self._name}-{hashlib.sha256(place.encode()).hexdigest()[:10]}"
        stem.with_suffix(".input").write_bytes(data)
        told = "".join(traceback.format_exception(error))
        stem.with_suffix(".txt").write_text(told[-20_000:], "utf-8", "backslashreplace")
        print(f"FAULT {stem.name} {place}", file=sys.stderr, flush=True)


def main() -> None:
    """`python -m tests.fuzz.guided TARGET --corpus DIR --faults DIR LIBFUZZER_FLAGS`"""
    parser = argparse.ArgumentParser()
    parser.add_argument("target")
    parser.add_argument("--corpus", type=Path, required=True)
    parser.add_argument("--faults", type=Path, required=True)
    asked, flags = parser.parse_known_args()
    target: Target = targets()[asked.target]
    for directory in (asked.corpus, asked.faults):
        directory.mkdir(parents=True, exist_ok=True)
    for seed in target.seeds():
        (asked.corpus / hashlib.sha256(seed).hexdigest()[:16]).write_bytes(seed)
    logging.disable(logging.CRITICAL)
    faults = Faults(asked.faults, target.name)

    def one(data: bytes) -> None:
        try:
            target.check(data)
        except Exception as error:
            faults.take(error, data)

    def mutated(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        if random.random() < 0.5:
            made = changed(random, data, target.kind, target.words, random.randint(1, 3))
            if 0 < len(made) <= most:
                return made
        return atheris.Mutate(data, most)

    atheris.Setup([sys.argv[0], str(asked.corpus), *flags], one, custom_mutator=mutated)
    atheris.Fuzz()


if __name__ == "__main__":
    main()
