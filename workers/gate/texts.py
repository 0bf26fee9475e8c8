"""Sentences made from lists of words: to be spoken, heard and embedded by models on trial. The same for a seed."""

from __future__ import annotations

import numpy as np

_WHO = ("the captain", "my sister", "a young doctor", "the old gardener", "our neighbour", "the night nurse",
        "a tired driver", "the new teacher", "his brother", "the quiet student")  # fmt: skip
_DID = ("opened", "carried", "painted", "forgot", "repaired", "borrowed", "counted", "sold", "washed", "hid")
_WHAT = ("the heavy door", "three wooden boxes", "a letter from home", "the broken clock", "seven silver coins",
         "the kitchen table", "a basket of apples", "the green bicycle", "two empty bottles", "a map of the town")  # fmt: skip
_WHERE = ("in the garden", "behind the station", "near the river", "on the second floor", "at the market",
          "under the bridge", "beside the church", "in a small village", "by the open window", "across the street")  # fmt: skip
_WHEN = ("before breakfast", "after the storm", "on a cold morning", "late in the evening", "during the summer",
         "while it rained", "an hour ago", "without a word", "for the first time", "every other day")  # fmt: skip


def sentences(n: int, seed: int) -> list[str]:
    """`n` different ones of 8 to 18 words."""
    rng = np.random.default_rng(seed)
    found: dict[str, None] = {}
    while len(found) < n:
        who, did, what, where, when = (str(rng.choice(words)) for words in (_WHO, _DID, _WHAT, _WHERE, _WHEN))
        text = f"{who} {did} {what} {where}" + (f" {when}" if rng.random() < 0.6 else "")
        found[f"{text[0].upper()}{text[1:]}."] = None
    return list(found)
