"""Real texts of real lengths for measuring embeddings: paragraphs of Python's own documentation, which every Python
has, and what is said in the recordings of the tests; a line of four tokens to paragraphs of some two hundred and fifty.
"""

from __future__ import annotations

import csv
import random
import re
from pathlib import Path

_REFERENCES = Path(__file__).parent.parent / "tests" / "data" / "references.tsv"
_SHORTEST, _LONGEST = 15, 1000  # characters


def paragraphs() -> list[str]:
    """Some two and a half thousand different ones, in the order of a seed."""
    from pydoc_data.topics import topics

    found = [re.sub(r"\s+", " ", part).strip() for text in topics.values() for part in text.split("\n\n")]
    if _REFERENCES.exists():  # an installed package has none
        rows = _REFERENCES.read_text("utf-8").splitlines()
        found += [row[1] for row in csv.reader(rows, delimiter="\t") if len(row) > 1]
    texts = sorted({text for text in found if _SHORTEST <= len(text) <= _LONGEST})
    random.Random(7).shuffle(texts)
    return texts


def texts(count: int) -> list[str]:
    """So many; beyond those that there are, they come again with a number, so that no two are alike."""
    known = paragraphs()
    return [known[n % len(known)] + (f" ({n // len(known)})" if n >= len(known) else "") for n in range(count)]


def queries() -> list[str]:
    """What somebody might type: first sentences, at most twelve words."""
    return [" ".join(text.split(". ")[0].split()[:12]) for text in paragraphs()]
