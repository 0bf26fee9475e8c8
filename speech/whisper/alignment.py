"""Word times from cross-attention: which frames the chosen heads looked at when each token was made.

Method: the attention of the model's alignment heads, normalised over tokens, smoothed by a median filter, and the
cheapest monotonic path through it by dynamic time warping (Radford et al.'s released word timestamps).
"""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from faster_whisper.tokenizer import Tokenizer
from numpy.typing import NDArray
from torch import Tensor

from speech.events import Word

FRAME_SECONDS = 0.02
_MEDIAN = 7
_EXCHANGES = ((0, 5), (0, 3), (1, 6), (2, 4), (0, 1), (3, 5), (2, 6), (2, 3), (3, 6), (4, 5), (1, 4), (1, 3), (3, 4))
"""Compare and exchange these in turn, and number 3 of 7 is the median (Devillard, Fast median search, 1998)."""
_PREPENDED = "\"'“¿([{-"
_APPENDED = "\"'.。,，!！?？:：”)]}、"
_LONGEST_WORD = 1.0


def token_frames(scores: Tensor, skip: int) -> NDArray[np.int64]:
    """First frame of each row of scores (heads, rows, frames); the first `skip` rows only take part in the norm."""
    spread, mean = torch.std_mean(scores, dim=1, keepdim=True, unbiased=False)
    scores = (scores - mean) / spread.clamp_min(1e-8)
    pad = _MEDIAN // 2
    if scores.shape[2] > pad:
        padded = F.pad(scores, (pad, pad), mode="reflect")
        scores = torch.stack([_median(head) for head in padded])  # one at a time stays in the cache
    return first_frames(-scores.mean(0)[skip:].double().cpu().numpy())


def _median(padded: Tensor) -> Tensor:
    """The median of every 7 neighbours along the last dimension, by the exchanges of a network.

    Element by element over the whole tensor: a tenth of the time of selecting in each window.
    """
    count = padded.shape[-1] - _MEDIAN + 1
    lanes = [padded[..., n : n + count] for n in range(_MEDIAN)]
    for low, high in _EXCHANGES:
        lanes[low], lanes[high] = torch.minimum(lanes[low], lanes[high]), torch.maximum(lanes[low], lanes[high])
    return lanes[_MEDIAN // 2]


def first_frames(cost: NDArray[np.float64]) -> NDArray[np.int64]:
    """Dynamic time warping over cost (rows, frames): the first frame of every row on the cheapest path.

    Works along antidiagonals, so that a 60-token, 30-second utterance takes milliseconds.
    """
    rows, frames = cost.shape
    total = np.full((rows + 1, frames + 1), np.inf)
    total[0, 0] = 0.0
    came = np.zeros((rows + 1, frames + 1), np.int8)
    for diagonal in range(2, rows + frames + 1):
        i = np.arange(max(1, diagonal - frames), min(rows, diagonal - 1) + 1)
        j = diagonal - i
        options = np.stack([total[i - 1, j - 1], total[i - 1, j], total[i, j - 1]])
        best = options.argmin(0)
        total[i, j] = cost[i - 1, j - 1] + options[best, np.arange(len(i))]
        came[i, j] = best
    starts = np.zeros(rows, np.int64)
    i, j = rows, frames
    while i > 0 and j > 0:
        starts[i - 1] = j - 1
        step = came[i, j]
        i -= step != 2
        j -= step != 1
    return starts


def words(
    tokenizer: Tokenizer, tokens: list[int], starts: NDArray[np.int64], probabilities: list[float], seconds: float
) -> tuple[Word, ...]:
    """Words of text `tokens` (without eot); `starts` has their first frames and, last, that of the end."""
    texts, groups = tokenizer.split_to_word_tokens([*tokens, tokenizer.eot])
    out: list[Word] = []
    at = 0
    for text, group in zip(texts[:-1], groups[:-1], strict=True):
        begin, end = float(starts[at]) * FRAME_SECONDS, float(starts[at + len(group)]) * FRAME_SECONDS
        confidence = float(np.mean(probabilities[at : at + len(group)]))
        out.append(Word(text, min(begin, seconds), min(max(end, begin), seconds), confidence))
        at += len(group)
    return tuple(_shorten(_merge(out)))


def _merge(items: list[Word]) -> list[Word]:
    """Join punctuation to the word it belongs to."""
    out: list[Word] = []
    carried = ""
    for word in items:
        if word.text.strip() and word.text.strip() in _PREPENDED and word.text.startswith(" "):
            carried += word.text
        elif out and word.text.strip() and word.text.strip() in _APPENDED and not carried:
            last = out[-1]
            out[-1] = Word(last.text + word.text, last.start, last.end, last.confidence)
        else:
            out.append(
                Word(carried + word.text.lstrip() if carried else word.text, word.start, word.end, word.confidence)
            )
            carried = ""
    if carried and out:
        last = out[-1]
        out[-1] = Word(last.text + carried, last.start, last.end, last.confidence)
    return out


def _shorten(items: list[Word]) -> list[Word]:
    """A word beside a pause must not swallow it: attention often gives the pause to its neighbour."""
    lengths = [w.end - w.start for w in items if w.end > w.start]
    if not lengths:
        return items
    longest = min(_LONGEST_WORD, max(0.3, 3 * float(np.median(lengths))))
    out: list[Word] = []
    for n, word in enumerate(items):
        start, end = word.start, word.end
        if end - start > longest:
            if n == 0 or word.start - out[-1].end > 0.0:
                start = end - longest  # first word: silence lies before it
            else:
                end = start + longest
        out.append(Word(word.text, start, end, word.confidence))
    return out
