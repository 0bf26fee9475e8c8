"""From what a stream showed to figures: when the text of each recording was final, and how many words are wrong."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import jiwer

from load.peers.peer import Said
from load.scoring import plain, word_errors


def shares(references: Sequence[str], text: str) -> list[str]:
    """The words of `text` that belong to each recording, by the alignment of the whole with the least edits."""
    words = plain(text)
    spoken = [plain(reference) for reference in references]
    if not words:
        return ["" for _ in references]
    found = jiwer.process_words(" ".join(word for one in spoken for word in one), " ".join(words))
    heard_to = [0] * (sum(map(len, spoken)) + 1)  # words of the text that belong to the first n of the references
    for chunk in found.alignments[0]:
        for n in range(chunk.ref_start_idx, chunk.ref_end_idx):
            along = n + 1 - chunk.ref_start_idx
            heard_to[n + 1] = min(chunk.hyp_start_idx + along, chunk.hyp_end_idx)
    ends = [heard_to[n] for n in accumulate(map(len, spoken))]
    ends[-1] = len(words)  # what is heard behind the last word
    return [" ".join(words[start:end]) for start, end in zip([0, *ends], ends, strict=False)]


def settled(said: Said) -> list[float | None]:
    """For each recording the moment from which on its words stood in the text as they do at the end.

    None where there is no word of it at the end. Case and punctuation may change for longer.
    """
    if not said.shown:
        return [None for _ in said.script.lines]
    moments: list[float | None] = []
    states = [(at, f" {' '.join(plain(text))} ".replace(" ", "  ")) for at, text in said.shown]
    before = ""
    for words in shares([line.clip.text for line in said.script.lines], said.shown[-1][1]):
        before = f"{before} {words}".strip()
        if not words:
            moments.append(None)
            continue
        # The same recording may have been said before: then it has to stand there once more.
        mark = f" {words} ".replace(" ", "  ")
        times = f" {before} ".replace(" ", "  ").count(mark)
        since = None
        for at, text in states:
            if text.count(mark) < times:
                since = None
            elif since is None:
                since = at
        moments.append(since)
    return moments


def latencies(said: Said) -> list[float | None]:
    """Seconds from the end of each recording's voice to its final; None where nothing of it was heard."""
    return [
        None if moment is None else moment - said.due_at(line.voice_end)
        for line, moment in zip(said.script.lines, settled(said), strict=True)
    ]


def errors(streams: Sequence[Said]) -> float:
    """Word error rate in percent over all of these streams, each as one text."""
    return word_errors(
        (" ".join(line.clip.text for line in said.script.lines), said.shown[-1][1] if said.shown else "")
        for said in streams
    )
