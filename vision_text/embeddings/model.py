"""A model of texts in service: its backend on every device, its tokeniser, and the spaces that its vectors live in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from vision_text.embeddings.backend import PIECE, Piece, TextBackend
from vision_text.embeddings.fidelity import evaluation, require_faithful
from vision_text.embeddings.layout import DOCUMENT, QUESTION, Layout, read_layout
from vision_text.embeddings.pictures import Picture
from vision_text.embeddings.quantise import Ranges
from vision_text.embeddings.settings import EmbeddingSettings
from vision_text.embeddings.space import PRECISIONS, Precision, Space
from vision_text.embeddings.tokens import Ids, Tokeniser
from vision_text.models import Found
from workers.device import Device
from workers.errors import InputInvalid, InputTooLarge, ServingError
from workers.pool import Pool

Input = str | Sequence[int] | Picture

SLICE = 64
"""Texts that are tokenised at once; between two slices others have the cores."""
MOST_TEXTS = 256
"""Of a piece."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model as clients may name it. `dimensions` of its whole vectors, `sizes` that they may be cut to.
    `most_tokens` of a text, special ones included."""

    name: str
    aliases: tuple[str, ...]
    dimensions: int
    sizes: tuple[int, ...]
    most_tokens: int
    pictures: bool
    revision: str


@dataclass(slots=True)
class Prepared:
    """Inputs ready for a device, by their index in the request, and what is wrong with the others."""

    texts: dict[int, Ids] = field(default_factory=dict)
    pictures: dict[int, npt.NDArray[np.float32]] = field(default_factory=dict)
    tokens: dict[int, int] = field(default_factory=dict)
    skipped: dict[int, int] = field(default_factory=dict)
    truncated: set[int] = field(default_factory=set)
    errors: dict[int, ServingError] = field(default_factory=dict)


class Model(Protocol):
    """What an embedder asks of a model. A piece is what its backend takes for a task."""

    info: ModelInfo
    pool: Pool
    ranges: Ranges

    def space(self, dimensions: int | None, precision: str, prompt: str) -> Space: ...

    def prepare(
        self, first: int, inputs: Sequence[Input], prompt: str, truncate: bool, settings: EmbeddingSettings
    ) -> Prepared: ...

    def pieces(self, ready: Prepared, *, apart: bool) -> Sequence[tuple[list[int], Any]]: ...

    def piece(self, ready: Prepared, numbers: Sequence[int], *, apart: bool) -> Any: ...


class TextModel:
    """Made by `load`, which blocks for seconds."""

    def __init__(
        self, info: ModelInfo, layout: Layout, tokeniser: Tokeniser, pool: Pool, ranges: Ranges, piece: int
    ) -> None:
        self.info, self.pool, self.ranges = info, pool, ranges
        self._layout, self._tokeniser, self._piece = layout, tokeniser, piece

    @classmethod
    def load(
        cls,
        found: Found,
        aliases: tuple[str, ...],
        settings: EmbeddingSettings,
        ranges: Ranges,
        devices: Sequence[Device],
    ) -> TextModel:
        """Give every device a replica. Raises ModelUnusable, ValueError when it does not fit."""
        layout = read_layout(found.directory)
        backends = []
        for device in devices:
            backend = TextBackend(found.name, found.revision, layout, settings.arithmetic, settings.engine)
            backend.use(device.torch_device)
            backend.load(device.torch_device)
            backends.append(backend)
        encoder, width = backend.encoder, backend.pooling.width
        most = min(layout.most_tokens or encoder.most_tokens, encoder.most_tokens)
        sizes = tuple(sorted({*layout.sizes, *settings.matryoshka.get(found.name, ())} - {width}))
        info = ModelInfo(found.name, aliases, width, sizes, most, False, found.revision)
        tokeniser = Tokeniser(layout.transformer, most, encoder.vocabulary)
        if (settings.arithmetic, settings.engine) != ("float32", "torch"):
            reference = TextBackend(found.name, found.revision, layout, "float32")
            reference.load(devices[0].torch_device)
            what = f"{found.name} with {backend.spec.precision}"
            require_faithful(what, evaluation(tokeniser), reference.vector, backend.vector)
        for device, loaded in zip(devices, backends, strict=True):
            device.add(loaded)
        piece = PIECE.get(devices[0].torch_device.partition(":")[0], PIECE["cuda"])
        return cls(info, layout, tokeniser, Pool(found.name, devices), ranges, piece)

    def space(self, dimensions: int | None, precision: str, prompt: str) -> Space:
        """Raises InputInvalid (param "dimensions", "precision")."""
        layout = self._layout
        shown = layout.prompt_space(prompt)
        return made_space(
            self.info, "+".join(layout.pooling), shown, layout.normalise, dimensions, precision, self.ranges
        )

    def prepare(
        self, first: int, inputs: Sequence[Input], prompt: str, truncate: bool, settings: EmbeddingSettings
    ) -> Prepared:
        """Tokenise `inputs`, of which the first has the index `first` in the request. Blocks; not on the event loop."""
        ready, texts = Prepared(), {}
        before = self._layout.prompt(prompt)
        for n, given in enumerate(inputs, first):
            try:
                if isinstance(given, str):
                    texts[n] = before + check_text(given, f"input[{n}]", settings.most_characters)
                else:
                    self._keep(ready, n, self._ids(given, n), truncate)
            except ServingError as error:
                ready.errors[n] = error
        numbers = list(texts)
        for start in range(0, len(numbers), SLICE):
            some = numbers[start : start + SLICE]
            for n, ids in zip(some, self._tokeniser.encode([texts[n] for n in some]), strict=True):
                try:
                    self._keep(ready, n, ids, truncate)
                except ServingError as error:
                    ready.errors[n] = error
        if before and not self._layout.pool_prompt:
            skip = len(self._tokeniser.before) + self._tokeniser.count(before)
            ready.skipped = {n: min(skip, len(ready.texts[n]) - 1) for n in numbers if n in ready.texts}
        return ready

    def retrieval_prompts(self) -> tuple[str, str]:
        """Names of the model's prompts for what is asked and for what is found; "" for none."""
        names = self._layout.prompts or {}
        pair = [next((name for name in some if name in names), "") for some in (QUESTION, DOCUMENT)]
        return pair[0], pair[1]

    def _ids(self, given: Sequence[int] | Picture, n: int) -> Ids:
        name = f"input[{n}]"
        if isinstance(given, Picture):
            raise InputInvalid(f"{name} is a picture, and {self.info.name} takes texts only", param=name)
        if not len(given):
            raise InputInvalid(f"{name} is empty; leave it out", param=name)
        return self._tokeniser.take(given, name)

    def _keep(self, ready: Prepared, n: int, ids: Ids, truncate: bool) -> None:
        most = self.info.most_tokens
        if len(ids) > most:
            if not truncate:
                raise InputTooLarge(
                    f"input[{n}] has {len(ids)} tokens, and {self.info.name} takes {most}; shorten it, cut it into "
                    "pieces, or ask for truncate to have its end left out",
                    param=f"input[{n}]",
                )
            ready.truncated.add(n)
            ids = self._tokeniser.cut(ids)
        ready.texts[n] = ids
        ready.tokens[n] = len(ids)

    def pieces(self, ready: Prepared, *, apart: bool) -> list[tuple[list[int], Piece]]:
        """Everything that is ready, short texts first, with the indices of each piece's texts."""
        order = sorted(ready.texts, key=lambda n: len(ready.texts[n]))
        pieces: list[tuple[list[int], Piece]] = []
        some: list[int] = []
        tokens = 0
        for n in [*order, None]:
            size = len(ready.texts[n]) if n is not None else 0
            if some and (n is None or tokens + size > self._piece or len(some) == MOST_TEXTS):
                pieces.append((some, self.piece(ready, some, apart=apart)))
                some, tokens = [], 0
            if n is not None:
                some.append(n)
                tokens += size
        return pieces

    def piece(self, ready: Prepared, numbers: Sequence[int], *, apart: bool) -> Piece:
        """Some of them, in ascending length."""
        skipped = tuple(ready.skipped.get(n, 0) for n in numbers)
        return Piece(tuple(ready.texts[n] for n in numbers), skipped, apart)


def check_text(given: str, name: str, most_characters: int) -> str:
    """The text. Raises InputInvalid, InputTooLarge, both naming the item `name`."""
    if not given.strip():
        raise InputInvalid(f"{name} is empty; leave it out", param=name)
    if len(given) > most_characters:
        raise InputTooLarge(f"{name} has {len(given):,} characters; at most {most_characters:,} are taken", param=name)
    try:
        given.encode()
    except UnicodeEncodeError as error:
        raise InputInvalid(f"{name} is no text: the character at {error.start} is half of a pair", param=name) from None
    return given


def made_space(
    info: ModelInfo, pooling: str, prompt: str, normalised: bool, dimensions: int | None, precision: str, ranges: Ranges
) -> Space:
    """The space of vectors so made. Raises InputInvalid (param "dimensions", "precision")."""
    width = info.dimensions
    wanted = width if dimensions is None else dimensions
    if precision not in PRECISIONS:
        known = ", ".join(PRECISIONS)
        raise InputInvalid(f"precision is {str(precision)[:40]!r}; it can be {known}", param="precision")
    if wanted != width and wanted not in info.sizes:
        sizes = ", ".join(map(str, (*info.sizes, width)))
        why = "" if info.sizes else "; it was not trained to have its vectors cut"
        raise InputInvalid(f"{info.name} makes vectors of {sizes} dimensions, not {wanted}{why}", param="dimensions")
    if precision == "binary" and wanted % 8:
        raise InputInvalid("binary vectors need dimensions that are a multiple of 8", param="dimensions")
    kind: Precision = next(name for name in PRECISIONS if name == precision)
    return Space(
        model=info.name,
        revision=info.revision,
        pooling=pooling,
        prompt=prompt,
        normalised=normalised,
        dimensions=wanted,
        precision=kind,
        ranges=ranges.hash(wanted, normalised=normalised) if kind == "int8" else "",
    )
