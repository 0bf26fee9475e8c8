"""Conversations on a device: a step is a piece of one prompt, or the next token of up to eight answers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from vision_text.vlm.core import LEAST_ROWS, Rows, TextCore
from vision_text.vlm.kv import KV
from vision_text.vlm.loading import Weights
from vision_text.vlm.prefix import BLOCK, PrefixCache
from vision_text.vlm.sampling import choose
from vision_text.vlm.speculate import Draft, Lookup, Speculation
from vision_text.vlm.talk import Handed, NotFinite, State, Talk, Written
from vision_text.vlm.writing import Writer
from workers.backend import Demand, Done, Limits, More, Spec, StepResult
from workers.errors import BackendFailed, InputInvalid

PIECE_OPERATIONS = {"cpu": 4e9, "cuda": 4e12}
"""Multiplications and additions in one step of a prompt, about: some 50 to 100 ms."""
LEAST_PIECE, LARGEST_PIECE = 32, {"cpu": 256, "cuda": 4096}
"""Tokens."""


class TalkBackend:
    """A language model with its cache of prefixes. What it makes of a request does not depend on batch mates."""

    def __init__(
        self, weights: Weights, name: str, prefixes: PrefixCache, drafts: dict[str, TextCore], counters: Counter[str]
    ) -> None:
        self.spec = Spec("chat", name, weights.found.revision)
        self.limits = Limits(items=LEAST_ROWS, cost=LARGEST_PIECE["cpu"])
        self.counters, self.prefixes = counters, prefixes
        self._weights, self._drafts = weights, drafts
        self._core: TextCore | None = None
        self.piece = LEAST_PIECE

    @property
    def core(self) -> TextCore:
        assert self._core is not None
        return self._core

    def load(self, device: str) -> None:
        if self._core is None:
            core = self._weights.on(device).core
            kind = torch.device(device).type
            largest = LARGEST_PIECE.get(kind, LARGEST_PIECE["cuda"])
            fits = PIECE_OPERATIONS.get(kind, PIECE_OPERATIONS["cuda"]) / (2 * max(1, core.parameters))
            self.piece = max(LEAST_PIECE, min(largest, int(fits))) // BLOCK * BLOCK
            each = core.shape.bytes("float32", min(core.context, 1024))
            self.limits = Limits(LEAST_ROWS, self.piece, core.bytes, each)
            self._core = core
            self._warm()

    def _warm(self) -> None:
        with torch.inference_mode():
            kv = self.core.cache("float32")
            for count in (self.piece // 2, 1):
                start = kv.length
                rows = Rows(kv, self.core.embedded([0] * count), torch.arange(start, start + count)[None])
                self.core.logits(self.core.run([rows])[0][-1:])

    def check(self) -> None:
        if self._core is None:
            raise BackendFailed(f"{self.spec.model} is not loaded")

    def open(self, payload: Talk) -> State:
        options = payload.options
        if options.draft and options.draft not in self._drafts:
            known = ", ".join(self._drafts) or "none"
            raise InputInvalid(
                f"the draft model {options.draft[:100]!r} is not loaded here; there is: {known}",
                param="options.speculative",
            )
        tokenizer: Any = self._weights.processor.tokenizer
        return State(payload, Writer(tokenizer, payload.stop), payload.prompt.ids.tolist())

    def demand(self, state: State) -> Demand:
        if state.opening and state.talk.handed is not None:
            return Demand("resume", 1, opening=True)
        if state.opening:
            left = len(state.ids) - (state.kv.length if state.kv is not None else len(state.talk.prefix) * BLOCK)
            return Demand("read", min(self.piece, left), opening=True)
        return Demand("write", 1 + (state.speculation.count if state.speculation is not None else 0))

    def step(self, states: Sequence[State]) -> list[StepResult]:
        with torch.inference_mode():
            if not states[0].opening:
                return self._write(states)
            advance = self._read if states[0].talk.handed is None else self._resume
            return [self._alone(advance, state, first=not n) for n, state in enumerate(states)]

    def _alone(self, advance: Callable[[State], StepResult], state: State, *, first: bool) -> StepResult:
        """Once somebody of the batch has moved on, the step cannot be taken back: an error is then that item's own."""
        try:
            return advance(state)
        except Exception as error:
            if first:
                raise
            return error

    # -- the prompt

    def _read(self, state: State) -> StepResult:
        prompt = state.talk.prompt
        if state.kv is None:
            self._begin(state)
        kv = state.kv
        assert kv is not None
        self._adopt(state, kv)
        start = kv.length
        end = min(len(state.ids), start + self.piece)
        embeddings = self._embeddings(state, start, end)
        hidden = self.core.run([Rows(kv, embeddings, prompt.positions[:, start:end])])[0]
        self.counters["prefill_tokens"] += end - start
        self.counters["prefill_steps"] += 1
        self._keep(state, start // BLOCK, prompt.keys)
        if end < len(state.ids):
            return More()
        token = self._token(state, self.core.logits(hidden[-1:])[0])
        if isinstance(token, Exception):
            return token
        if state.talk.hand_over:
            return Done(Handed(kv, token, state.cached))
        return self._ended(state, self._take(state, [token]))

    def _begin(self, state: State) -> None:
        talk = state.talk
        state.kv = self.core.cache(talk.options.kv)
        for block in talk.prefix:
            state.kv.adopt(block)
        self._hit(state, len(talk.prefix))
        self._speculate(state)

    def _speculate(self, state: State) -> None:
        options, never = state.talk.options, self._weights.family.media_tokens
        if options.speculative == "lookup":
            state.speculation = Speculation(Lookup(never), options.proposed)
        elif options.speculative == "draft":
            core = self._drafts[options.draft]
            cost = core.parameters / max(1, self.core.parameters)
            state.speculation = Speculation(Draft(core, never, self.piece, cost), options.proposed)

    def _adopt(self, state: State, kv: KV) -> None:
        """Blocks that others have computed since."""
        keys = state.talk.prompt.keys
        if keys and kv.length % BLOCK == 0:
            number = kv.length // BLOCK
            found = self.prefixes.match(keys[number : (len(state.ids) - 1) // BLOCK])
            for block in found:
                kv.adopt(block)
            self._hit(state, len(found))

    def _hit(self, state: State, blocks: int) -> None:
        state.cached += blocks * BLOCK
        self.counters["prefix_hit_tokens"] += blocks * BLOCK

    def _keep(self, state: State, first: int, keys: Sequence[bytes]) -> None:
        kv = state.kv
        assert kv is not None
        for number in range(first, min(len(keys), kv.length // BLOCK)):
            if not self.prefixes.has(keys[number]):
                self.prefixes.keep(keys[number], kv.block(number * BLOCK, (number + 1) * BLOCK))

    def _embeddings(self, state: State, start: int, end: int) -> Tensor:
        made = self.core.embedded(state.ids[start:end])
        for shown, features in zip(state.talk.prompt.shown, state.talk.features, strict=True):
            first, last = (int(n) for n in shown.places.searchsorted([start, end]))
            if first == last:
                continue
            if features is None:
                raise BackendFailed("a picture is neither encoded nor in the cache")
            where = torch.from_numpy(shown.places[first:last] - start).to(made.device)
            made[where] = features[first:last].to(made)
        return made

    # -- the answer

    def _write(self, states: Sequence[State]) -> list[StepResult]:
        results: list[StepResult] = []
        for parcel in self._parcels(states):
            try:
                results += self._forward(parcel)
            except Exception:
                if not results:
                    raise
                results += [self._forward_alone(*one) for one in parcel]
        return results

    def _forward_alone(self, state: State, proposed: list[int]) -> StepResult:
        return self._alone(lambda state: self._forward([(state, proposed)])[0], state, first=False)

    def _forward(self, parcel: Sequence[tuple[State, list[int]]]) -> list[StepResult]:
        rows = []
        for state, proposed in parcel:
            assert state.kv is not None
            fed = [state.ids[-1], *proposed]
            first = len(state.ids) - 1 + state.talk.prompt.delta
            positions = torch.arange(first, first + len(fed)).expand(state.talk.prompt.positions.shape[0], -1)
            rows.append(Rows(state.kv, self.core.embedded(fed), positions))
        hidden = self.core.run(rows)
        self.counters["decode_steps"] += 1
        self.counters["decode_rows"] += sum(len(one.embeddings) for one in rows)
        logits = self.core.logits(torch.cat(hidden)).split([len(one) for one in hidden])
        results: list[StepResult] = []
        for (state, proposed), part in zip(parcel, logits, strict=True):
            take = partial(self._verified, proposed=proposed, logits=part)
            results.append(self._alone(take, state, first=False))
        return results

    def _parcels(self, states: Sequence[State]) -> list[list[tuple[State, list[int]]]]:
        """The answers in order with what is proposed of them, eight rows at most together."""
        parcels: list[list[tuple[State, list[int]]]] = []
        room = 0
        for state in states:
            left = state.talk.max_tokens - state.written - 1
            proposed = state.speculation.propose(state.ids, left) if state.speculation is not None else []
            if 1 + len(proposed) > room:
                parcels.append([])
                room = LEAST_ROWS
            parcels[-1].append((state, proposed))
            room -= 1 + len(proposed)
        return parcels

    def _resume(self, state: State) -> StepResult:
        handed = state.talk.handed
        assert handed is not None
        state.kv = handed.kv.moved(self.core.device)
        self.counters["kv_moved_bytes"] += state.kv.bytes
        state.cached = handed.cached
        self._speculate(state)
        return self._ended(state, self._take(state, [handed.first]))

    def _verified(self, state: State, proposed: list[int], logits: Tensor) -> StepResult:
        """Take what was proposed as far as it is what would have been chosen, and one token more."""
        assert state.kv is not None
        new: list[int] = []
        for place, row in enumerate(logits):
            token = self._token(state, row, place)
            if isinstance(token, Exception):
                return token
            new.append(token)
            if place == len(proposed) or token != proposed[place]:
                break
        accepted = len(new) - 1
        state.kv.truncate(state.kv.length - len(proposed) + accepted)
        if state.speculation is not None:
            state.speculation.verified(len(proposed), accepted, len(new))
            self.counters["speculative_proposed"] += len(proposed)
            self.counters["speculative_accepted"] += accepted
        return self._ended(state, self._take(state, new))

    def _token(self, state: State, logits: Tensor, ahead: int = 0) -> int | Exception:
        if not bool(torch.isfinite(logits).all()):
            return NotFinite("the model's numbers for this conversation are not finite")
        for never in self._weights.family.media_tokens:
            logits[never] = -torch.inf
        talk = state.talk
        place = max(0, len(state.ids) - len(talk.prompt.ids)) + ahead
        return choose(logits, talk.temperature, talk.top_p, talk.seed, place)

    def _take(self, state: State, tokens: Sequence[int]) -> tuple[str, str]:
        """Write down tokens, as many as still belong to the answer: text to hand out, and why it ends, if it does."""
        text = ""
        for token in tokens:
            if token in self._weights.ends:
                return text, "stop"
            state.ids.append(token)
            state.written += 1
            self.counters["written_tokens"] += 1
            text += state.writer.push(token)
            if state.writer.stopped:
                return text, "stop"
            if state.written >= state.talk.max_tokens:
                return text, "length"
        return text, ""

    def _ended(self, state: State, taken: tuple[str, str]) -> StepResult:
        text, reason = taken
        if not reason:
            return More((text,) if text else ())
        kv, speculation = state.kv, state.speculation
        assert kv is not None
        if state.talk.options.prefix_cache:
            prompt = state.talk.prompt
            keys = prompt.keys_with(state.ids[len(prompt.ids) : kv.length])
            self._keep(state, len(prompt.keys), keys)
        self.counters[f"kv_{kv.kind}_bytes"] += kv.bytes
        done = Written(
            text + state.writer.finish(),
            reason,
            state.written,
            state.cached,
            kv.bytes,
            kv.shape.bytes_fp16(kv.length),
            speculation.proposed if speculation is not None else 0,
            speculation.accepted if speculation is not None else 0,
        )
        return Done(done)

    def discard(self, state: State) -> None:
        if state.kv is not None and not state.talk.hand_over:
            state.kv.free()
        if state.speculation is not None:
            state.speculation.free()
        state.kv = state.speculation = None

    def close(self) -> None:
        self._core = None
        self.prefixes.clear()
