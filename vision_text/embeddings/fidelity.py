"""Whether a faster way of computing a model still finds the same: compared with float32 before it may serve.

What is compared are directions (the cosine of each vector with that of float32) and neighbours (whether the nearest
other text stays the nearest), on a few texts of all lengths that the model takes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from vision_text.embeddings.backend import Vectors
from vision_text.embeddings.tokens import Ids, Tokeniser
from vision_text.models import ModelUnusable

LEAST_COSINE = 0.999
SAME_NEIGHBOURS = 0.95
"""Of the texts that have to keep their nearest neighbour, unless two are as good as equally near."""
_TIE = 0.002

SENTENCES = (
    "The ship left the harbour before dawn.",
    "At sunrise the vessel was already at sea.",
    "Interest rates were raised by a quarter of a point.",
    "The central bank made borrowing more expensive.",
    "How do I reset my password?",
    "Open the settings, choose your account, and select a new passphrase.",
    "He peeled the apples and cut them into thin slices.",
    "A recipe for a simple tart with fruit from the orchard.",
    "The patient complained of a headache that had lasted three days.",
    "Symptoms include fever, a stiff neck and sensitivity to light.",
    "def add(a, b): return a + b",
    "A function that returns the sum of its two arguments.",
    "Rain is expected in the north, with strong winds along the coast.",
    "Tomorrow will be dry and sunny in the south.",
    "The orchestra rehearsed the second movement twice.",
    "Her violin solo brought the audience to its feet.",
    "The committee rejected the proposal by a narrow margin.",
    "Parliament voted against the bill, 212 to 208.",
    "Water boils at a lower temperature on a mountain.",
    "Air pressure falls with altitude, and so does the boiling point.",
)


def evaluation(tokeniser: Tokeniser) -> list[Ids]:
    """The tokens of single sentences, of texts of several, and of one as long as the model takes."""
    texts = list(SENTENCES)
    texts += [" ".join(SENTENCES[at : at + size]) for size in (3, 6) for at in range(0, len(SENTENCES), size)]
    texts.append(" ".join(SENTENCES * 4))
    return [tokeniser.cut(ids) for ids in tokeniser.encode(texts)]


def require_faithful(
    what: str, texts: Sequence[Ids], reference: Callable[[Ids], Vectors], candidate: Callable[[Ids], Vectors]
) -> float:
    """The least cosine. Raises ModelUnusable when `candidate` does not make what `reference` makes."""
    exact, fast = (_directions([make(ids) for ids in texts]) for make in (reference, candidate))
    cosines = (exact * fast).sum(1)
    least = float(np.nan_to_num(cosines, nan=-1.0).min())
    nearness, found = exact @ exact.T, fast @ fast.T
    np.fill_diagonal(nearness, -2)
    np.fill_diagonal(found, -2)
    rows = np.arange(len(texts))
    kept = nearness[rows, found.argmax(1)] >= nearness.max(1) - _TIE
    if least < LEAST_COSINE or kept.mean() < SAME_NEIGHBOURS:
        raise ModelUnusable(
            f"{what} is refused: against float32 its vectors have a cosine of {least:.5f} at worst (at least "
            f"{LEAST_COSINE} is needed) and {kept.mean():.0%} of the texts keep their nearest neighbour (at least "
            f"{SAME_NEIGHBOURS:.0%}); serve this model in float32 with torch"
        )
    return least


def _directions(vectors: Sequence[Vectors]) -> Vectors:
    found = np.stack(vectors)
    directions: Vectors = found / np.linalg.norm(found, axis=1, keepdims=True)
    return directions
