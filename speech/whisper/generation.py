"""One decoding on its way: prompt, draft, tokens, and the restart at a higher temperature.

A generation asks for a feed, is given logits, and says whether it has ended; many of them share the decoder's steps.
Drafts: a partial's text is mostly that of the partial before it, and a final's that of the last partial. So the
earlier tokens are fed together as a draft; each row's own choice tells whether the next drafted token stands. The
result is what token-by-token decoding gives (speculative decoding, Leviathan et al. 2023, with the stream's own past
as the draft model).
"""

from __future__ import annotations

from collections.abc import Sequence as Seq

import torch
from torch import Tensor

from speech.whisper.decoder import CONTEXT, Feed, Sequence
from speech.whisper.rules import Rules, looping

_LOOK_BACK, _LOOK_AHEAD = 4, 8
"""How far around the expected place a draft is searched for the newest token."""


class Generation:
    """Greedy (temperature 0) or sampled decoding of one sequence. `tokens` excludes prompt, forced and eot."""

    def __init__(
        self,
        sequence: Sequence,
        rules: Rules,
        prompt: list[int],
        *,
        cap: int,
        forced: Seq[int] = (),
        draft: Seq[int] = (),
        timestamps: bool = False,
        sot: int | None = None,
        temperature: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.sequence, self.rules, self.timestamps = sequence, rules, timestamps
        self.prefix = [*prompt, *forced]
        self.forced = len(forced)
        self.cap = max(1, min(cap, CONTEXT - len(self.prefix) - 1))
        self.tokens: list[int] = []
        self.logprobs: list[float] = []
        self.end_logprob = 0.0
        self.no_speech = 0.0
        self.ended = self.looped = False
        self._sot = sot
        self._source = [] if timestamps or temperature else list(draft)
        self._draft = self._source[: self.cap]
        self._place = 0
        self._temperature = temperature
        self._random: torch.Generator | None = torch.Generator().manual_seed(seed) if temperature else None
        self._pending: list[int] = []
        self._begin()

    def restart(self, temperature: float, seed: int) -> None:
        """Decode again from the prompt, sampling at `temperature`; reproducible for a seed."""
        self.tokens, self.logprobs, self._draft, self._source = [], [], [], []
        self.ended = self.looped = False
        self._temperature = temperature
        self._random = torch.Generator().manual_seed(seed)
        self.sequence.rewind(len(self.prefix) - 1)
        self._begin()

    def feed(self) -> Feed:
        """What to put through the decoder next."""
        ids = [*self._pending, *self._draft]
        want = list(range(len(self._pending) - 1, len(ids)))
        if self._sot is not None:
            want.insert(0, self._sot)
        return Feed(self.sequence, ids, want)

    def advance(self, logits: Tensor) -> None:
        """Take the logits of the feed: accept what stands of the draft, and the first token after it."""
        if self._sot is not None:
            self.no_speech = float(torch.softmax(logits[0], -1)[self.rules.no_speech])
            self._sot = None
            logits = logits[1:]
        draft, self._draft = self._draft, []
        if self.timestamps:
            scores = self.rules.apply_timestamps(logits, self.tokens)
        else:
            scores = self.rules.apply(logits, first=not self.tokens and not self.forced)
        choices = scores.argmax(-1).tolist() if self._temperature == 0.0 else [self._sample(scores)]
        for row, choice in enumerate(choices):
            self._take(choice, float(scores[row, choice]))
            if self.ended:
                return
            self._place += 1
            if row < len(draft) and draft[row] != choice:
                self.sequence.rewind(len(self.prefix) + len(self.tokens) - 1)
                break
        self._pending = [self.tokens[-1]]
        self._redraft()

    @property
    def average_logprob(self) -> float:
        """Mean log probability per token, the end counted as one (Whisper's measure of doubt)."""
        return (sum(self.logprobs) + self.end_logprob) / (len(self.logprobs) + 1)

    def rows(self) -> list[int]:
        """Rows of the sequence that made each token, and then the end."""
        first = len(self.prefix) - 1
        return list(range(first, first + len(self.tokens) + 1))

    def _begin(self) -> None:
        """Feed the part of the prefix that the sequence does not hold yet; at least its last token."""
        have = 0
        for a, b in zip(self.sequence.ids, self.prefix[:-1], strict=False):
            if a != b:
                break
            have += 1
        if self._sot is not None:
            have = min(have, self._sot)
            self._sot -= have
        self.sequence.rewind(have)
        self._pending = self.prefix[have:]

    def _take(self, token: int, logprob: float) -> None:
        if token == self.rules.eot:
            self.ended, self.end_logprob = True, logprob
            return
        self.tokens.append(token)
        self.logprobs.append(logprob)
        self.looped = looping(self.tokens)
        self.ended = self.looped or len(self.tokens) >= self.cap

    def _redraft(self) -> None:
        """The draft ended or was wrong: go on with it behind the nearest place where the newest token stands in it.

        Finds the way back after a word was put in, left out or replaced; without such a place, one was replaced.
        """
        source, place = self._source, self._place
        near = range(max(0, place - _LOOK_BACK), min(len(source), place + _LOOK_AHEAD))
        found = [i for i in near if source[i] == self.tokens[-1]]
        if found:
            self._place = min(found, key=lambda i: abs(i + 1 - place)) + 1
        self._draft = source[self._place : self._place + self.cap - len(self.tokens)]

    def _sample(self, scores: Tensor) -> int:
        weights = torch.softmax(scores[0].cpu() / self._temperature, -1)
        return int(torch.multinomial(weights, 1, generator=self._random))
