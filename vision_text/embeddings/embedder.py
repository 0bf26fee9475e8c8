"""Embeddings of one process: models beside others on the same devices, one request at a time or millions of texts.

Two lanes. What somebody waits for runs by deadline; bulk fills what is left, in steps so short that nobody notices.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from vision_text.embeddings.dual import DualModel, is_dual
from vision_text.embeddings.model import Input, Model, ModelInfo, Prepared, TextModel
from vision_text.embeddings.pictures import Picture
from vision_text.embeddings.quantise import DTYPES, Ranges, shaped
from vision_text.embeddings.reranker import Reranker
from vision_text.embeddings.settings import OPENAI_NAMES, EmbeddingSettings, Proven, nothing_proven
from vision_text.embeddings.space import Space
from vision_text.models import resolve
from workers.clock import monotonic
from workers.device import Device
from workers.errors import BackendFailed, Draining, InputInvalid, Overloaded, ServingError
from workers.task import Lane

__all__ = ["Embedded", "Embedder", "EmbeddingSettings", "Input", "ModelInfo", "Picture", "Space"]

log = logging.getLogger(__name__)

WINDOW = 1024
"""Inputs that are tokenised and sorted together; of longer lists the next ones while these run."""
AHEAD = 32
"""Pieces of one call that wait on the devices."""


@dataclass(frozen=True, slots=True)
class Embedded:
    """`vectors` (inputs, dimensions) in the precision's dtype, in the order of the inputs; float32, float16, int8, or
    uint8 with eight dimensions to a byte for binary. `tokens` counts those of each input, special ones included.

    `errors` by index: such an input has zeros for a vector and 0 tokens. `truncated`: its end was left out.
    """

    vectors: npt.NDArray[Any]
    tokens: list[int]
    truncated: list[bool]
    errors: dict[int, ServingError]
    space: Space


@dataclass(frozen=True, slots=True)
class Ranked:
    """`scores` in the order of the documents, the best highest: a cross-encoder's from 0 to 1, a cosine from -1 to 1.
    `truncated`: documents whose end was left out. `space`: of the vectors, if it was done with any."""

    model: str
    method: str
    scores: list[float]
    tokens: int
    truncated: list[int]
    space: Space | None


class Embedder:
    """Made by `start`. The devices belong to whoever started them; `close` leaves them as they are."""

    def __init__(self, settings: EmbeddingSettings, models: Sequence[Model], rerankers: Sequence[Reranker]) -> None:
        self._settings = settings
        self._models = {model.info.name: model for model in models}
        self._rerankers = {reranker.name: reranker for reranker in rerankers}
        self._threads = ThreadPoolExecutor(2, "tokenise")
        self._closed = False

    @classmethod
    async def start(
        cls, devices: Sequence[Device], settings: EmbeddingSettings, proven: Proven = nothing_proven
    ) -> Embedder:
        """Load the models onto devices, running or not; seconds, off the loop. `proven` tells, of a model's name, with
        which engine and arithmetic it was shown to be good here. Raises ModelUnusable, ValueError."""
        return await asyncio.to_thread(cls._start, devices, settings, proven)

    @classmethod
    def _start(cls, devices: Sequence[Device], settings: EmbeddingSettings, proven: Proven) -> Embedder:
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        models: list[Model] = []
        for n, name in enumerate(settings.models):
            found, aliases = resolve(name, allow_download=settings.download), () if n else OPENAI_NAMES
            ranges = Ranges.read(settings.ranges[name]) if name in settings.ranges else Ranges()
            kind = DualModel if is_dual(found.directory) else TextModel
            models.append(kind.load(found, aliases, settings.with_proven(proven(found.name)), ranges, devices))
        return cls(settings, models, [Reranker.load(name, settings, devices) for name in settings.rerankers])

    def resolve(self, name: str | None) -> str:
        """The loaded model that a name stands for; None and OpenAI's names mean the default.

        Raises InputInvalid (param "model") for one that is not loaded: no request can make it load.
        """
        if name is None and self._models:
            return next(iter(self._models))
        for model in self._models.values():
            if name == model.info.name or name in model.info.aliases:
                return model.info.name
        loaded = ", ".join(self._models) or "none"
        raise InputInvalid(f"the model {str(name)[:200]!r} is not loaded here; there is: {loaded}", param="model")

    def models(self) -> list[ModelInfo]:
        """The loaded models, the default first."""
        return [model.info for model in self._models.values()]

    def space(
        self, model: str | None = None, *, dimensions: int | None = None, precision: str = "float32", prompt: str = ""
    ) -> Space:
        """Where vectors that are asked for like this live. Raises InputInvalid (param "model", "dimensions"...)."""
        return self._models[self.resolve(model)].space(dimensions, precision, prompt)

    async def embed(
        self,
        inputs: Sequence[Input],
        *,
        model: str | None = None,
        dimensions: int | None = None,
        precision: str = "float32",
        prompt: str = "",
        lane: Lane = Lane.INTERACTIVE,
        deadline: float | None = None,
        truncate: bool = False,
    ) -> Embedded:
        """Vectors of texts, token ids or pictures, each independent of the others.

        `prompt`: what to put before each text, or one of the model's names for that ("query"). `deadline`: seconds on
        the monotonic clock, past which what has not begun ends with Expired; without one the lane's usual is aimed at.
        An input that cannot be embedded is in `errors` and does not disturb the others. Raises InputInvalid for a
        request that is wrong as a whole, Overloaded (never in bulk, which waits), Draining, BackendDead, Expired.
        """
        if self._closed:
            raise Draining("embeddings are shutting down")
        chosen = self._models[self.resolve(model)]
        space = chosen.space(dimensions, precision, prompt)
        job = _Job(chosen, lane, deadline, self._settings.objective, len(inputs))
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.TaskGroup() as group:
                for start in range(0, len(inputs), WINDOW):
                    window = inputs[start : start + WINDOW]
                    how = prompt, truncate, self._settings
                    ready = await loop.run_in_executor(self._threads, chosen.prepare, start, window, *how)
                    await job.submit(ready, group)
        except* ServingError as failed:
            raise _first(failed) from None
        if len(inputs) > WINDOW:
            vectors = await loop.run_in_executor(self._threads, shaped, job.vectors, space, chosen.ranges)
        else:
            vectors = shaped(job.vectors, space, chosen.ranges)
        for n in job.errors:
            vectors[n] = np.zeros((), DTYPES[space.precision])
        return Embedded(vectors, job.tokens, job.truncated, job.errors, space)

    async def rerank(
        self,
        query: str,
        documents: Sequence[str],
        *,
        model: str | None = None,
        lane: Lane = Lane.INTERACTIVE,
        truncate: bool = True,
    ) -> Ranked:
        """How well each document answers the query: by the named cross-encoder, or the first that is loaded; without
        any by the cosine of the model's vectors. Raises InputInvalid, InputTooLarge, Overloaded, Draining, BackendDead.
        """
        reranker = self._rerankers.get(model) if model is not None else next(iter(self._rerankers.values()), None)
        if reranker is None:
            return await self._by_cosine(query, documents, model, lane, truncate)
        how = truncate, self._settings.most_characters
        loop = asyncio.get_running_loop()
        pairs = await loop.run_in_executor(self._threads, reranker.prepare, query, documents, *how)
        scores = [0.0] * len(pairs)
        room = asyncio.Semaphore(64 * AHEAD)

        async def score(n: int) -> None:
            async with room:
                due = monotonic() + self._settings.objective if lane is not Lane.BULK else float("inf")
                scores[n] = await reranker.pool.submit(pairs[n], lane=lane, deadline=due).result()

        try:
            async with asyncio.TaskGroup() as group:
                for n in range(len(pairs)):
                    group.create_task(score(n))
        except* ServingError as failed:
            raise _first(failed) from None
        cut = [n for n, pair in enumerate(pairs) if pair.cut]
        return Ranked(reranker.name, "cross-encoder", scores, sum(len(pair.ids) for pair in pairs), cut, None)

    async def _by_cosine(
        self, query: str, documents: Sequence[str], model: str | None, lane: Lane, truncate: bool
    ) -> Ranked:
        chosen = self._models[self.resolve(model)]
        asking, found = chosen.retrieval_prompts() if isinstance(chosen, TextModel) else ("", "")
        asked = await self.embed([query], model=model, prompt=asking, lane=lane, truncate=truncate)
        made = await self.embed(documents, model=model, prompt=found, lane=lane, truncate=truncate)
        for name, errors in (("query", asked.errors), ("documents[{n}]", made.errors)):
            for n, error in errors.items():
                said, param = error.message, name.format(n=n)
                raise type(error)(said.replace(f"input[{n}]", param), param=param)
        vectors = [asked.vectors, made.vectors]
        units = [one / np.linalg.norm(one, axis=1, keepdims=True) for one in vectors]
        scores = [float(score) for score in units[1] @ units[0][0]]
        cut = [n for n, truncated in enumerate(made.truncated) if truncated]
        tokens = sum(asked.tokens) + sum(made.tokens)
        return Ranked(chosen.info.name, "bi-encoder cosine", scores, tokens, cut, made.space)

    async def close(self) -> None:
        """Take no more; what runs goes on."""
        self._closed = True
        self._threads.shutdown(wait=False)


class _Job:
    """One call of `embed`, and what has come of it."""

    def __init__(self, model: Model, lane: Lane, deadline: float | None, objective: float, count: int) -> None:
        self._model, self._lane, self._deadline, self._objective = model, lane, deadline, objective
        self._room = asyncio.Semaphore(AHEAD)
        self._sent = 0
        self.vectors = np.zeros((count, model.info.dimensions), np.float32)
        self.tokens = [0] * count
        self.truncated = [False] * count
        self.errors: dict[int, ServingError] = {}

    async def submit(self, ready: Prepared, group: asyncio.TaskGroup) -> None:
        """Queue all that is ready; waits while enough of it waits already."""
        self.errors |= ready.errors
        for n, count in ready.tokens.items():
            self.tokens[n], self.truncated[n] = count, n in ready.truncated
        for numbers, piece in self._model.pieces(ready, apart=self._lane is Lane.BULK):
            await self._room.acquire()
            group.create_task(self._piece(ready, numbers, piece))

    async def _piece(self, ready: Prepared, numbers: list[int], piece: Any) -> None:
        try:
            await self._embed(ready, numbers, piece)
        finally:
            self._room.release()

    async def _embed(self, ready: Prepared, numbers: list[int], piece: Any) -> None:
        try:
            made = await self._result(piece)
        except BackendFailed as error:
            # One of them may be to blame for all: each half on its own, until it stands alone.
            if len(numbers) == 1:
                self._failed(numbers[0], error)
                return
            middle = len(numbers) // 2
            for half in (numbers[:middle], numbers[middle:]):
                await self._embed(ready, half, self._model.piece(ready, half, apart=piece.apart))
            return
        for n, vector in zip(numbers, made, strict=True):
            if isinstance(vector, ServingError):
                self._failed(n, vector)
            else:
                self.vectors[n] = vector

    async def _result(self, piece: Any) -> list[Any]:
        while True:
            try:
                handle = self._model.pool.submit(
                    piece, lane=self._lane, deadline=self._due(), hard=self._deadline is not None
                )
            except Overloaded as full:
                if self._lane is not Lane.BULK:
                    raise
                await asyncio.sleep(full.retry_after)
                continue
            made: list[Any] = await handle.result()
            return made

    def _due(self) -> float:
        """Of a long list the later pieces are due later, so that a short one overtakes them."""
        if self._deadline is not None:
            return self._deadline
        self._sent += 1
        return float("inf") if self._lane is Lane.BULK else monotonic() + self._objective * self._sent

    def _failed(self, n: int, error: ServingError) -> None:
        error = type(error)(f"input[{n}]: {error.message}", param=f"input[{n}]")
        self.errors[n] = error
        self.tokens[n], self.truncated[n] = 0, False


def _first(group: BaseExceptionGroup[ServingError]) -> ServingError:
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    assert isinstance(error, ServingError)
    return error
