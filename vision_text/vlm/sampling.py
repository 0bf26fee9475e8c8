"""The next token. What chance decides depends on the seed and the token's place alone: not on batch mates, and not on
how many tokens were proposed and verified at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def choose(logits: Tensor, temperature: float, top_p: float, seed: int, place: int) -> int:
    """`logits` (vocabulary) float32; `place` counts the answer's tokens."""
    if temperature == 0:
        return int(torch.argmax(logits))
    scores = logits.double().cpu().numpy() / temperature
    shares = np.exp(scores - scores.max())
    shares /= shares.sum()
    order = np.argsort(-shares, kind="stable")
    ranked = np.cumsum(shares[order])
    kept = int(np.searchsorted(ranked, top_p * (1 - 1e-12))) + 1 if top_p < 1 else len(order)
    kept = min(kept, len(order))
    drawn = np.random.Generator(np.random.Philox(key=seed % (1 << 64), counter=place)).random()
    return int(order[min(int(np.searchsorted(ranked[:kept], drawn * ranked[kept - 1], side="right")), kept - 1)])
