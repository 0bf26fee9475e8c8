"""Sentences made from lists of words: to be spoken, heard and embedded by models on trial. The same for a seed."""

from __future__ import annotations

import numpy as np

_WORDS = """
the captain|my sister|a young doctor|the old gardener|our neighbour|the night nurse|a tired driver|the new teacher
opened|carried|painted|forgot|repaired|borrowed|counted|sold|washed|hid
the heavy door|three wooden boxes|a letter from home|the broken clock|seven silver coins|the kitchen table|a green bag
in the garden|behind the station|near the river|on the second floor|at the market|under the bridge|by the window
before breakfast|after the storm|on a cold morning|late in the evening|while it rained|an hour ago|for the first time
"""
"""Who, did, what, where, when."""
_PARTS = [line.split("|") for line in _WORDS.split("\n") if line]


def sentences(n: int, seed: int) -> list[str]:
    """`n` different ones of 8 to 18 words."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        who, did, what, where, when = (str(rng.choice(words)) for words in _PARTS)
        text = f"{who} {did} {what} {where}" + (f" {when}" if rng.random() < 0.6 else "")
        found[f"{text[0].upper()}{text[1:]}."] = None
    return list(found)
