"""Documents in pieces that a model can take whole, cut where sentences end as far as that is possible."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tokenizers import Tokenizer

from vision_text.embeddings.layout import read_layout
from vision_text.ingest.document import Document, Part
from vision_text.models import resolve
from vision_text.store.rows import Piece
from workers.errors import InputInvalid

BLOCK = 100_000
"""Characters that are tokenised at once, so that memory does not grow with the text."""
SPECIAL = 2
"""Tokens that a model puts around a text."""
SPOKEN_SECONDS = 20.0
"""Of speech in a piece: to jump there is to be near what was searched for."""
SPOKEN_PAUSE = 3.0
"""Seconds of silence after which another piece begins."""
MAX_PIECES = 20_000
"""Of a document."""
_ENDS = re.compile(r"[.!?…]+[\"'”’)\]]*\s+|\n\s*\n|\n")


@dataclass(frozen=True, slots=True)
class CutSettings:
    """Tokens of a piece at most, and how many of them the next piece of the same text begins with again."""

    tokens: int
    overlap: int

    def __post_init__(self) -> None:
        if self.tokens < 8 or not 0 <= self.overlap <= self.tokens // 2:
            raise InputInvalid(
                f"Pieces have 8 tokens or more, of which at most half overlap; not {self.tokens} and {self.overlap}.",
                param="pieces",
            )

    @property
    def name(self) -> str:
        """Part of a document's hash: cut otherwise it is stored anew."""
        return f"{self.tokens}/{self.overlap}"


class Cutter:
    """Cuts by the tokens of one model. Thread-safe."""

    def __init__(self, tokeniser: Path, settings: CutSettings) -> None:
        self._tokeniser = Tokenizer.from_file(str(tokeniser))
        self._tokeniser.no_truncation()
        self._tokeniser.no_padding()
        self.settings = settings

    @classmethod
    def of_model(cls, name: str, most: int, tokens: int | None = None, overlap: int | None = None) -> Cutter:
        """For a model that takes `most` tokens. Raises ModelUnusable, InputInvalid."""
        largest = most - SPECIAL
        chosen = tokens if tokens is not None else min(largest, 254)
        if chosen > largest:
            raise InputInvalid(f"{name} takes pieces of {largest} tokens, not {chosen}.", param="pieces")
        over = overlap if overlap is not None else chosen // 8
        return cls(read_layout(resolve(name).directory).transformer / "tokenizer.json", CutSettings(chosen, over))

    def cut(self, document: Document) -> list[Piece]:
        """The document's pieces in order, at least one. Raises InputInvalid for one that has none, or too many."""
        hash = document.hash(self.settings.name)
        pieces: list[Piece] = []
        for part in self._parts(document.parts):
            if len(pieces) == MAX_PIECES:
                raise InputInvalid(f"It makes more than {MAX_PIECES:,} pieces; divide it.", param="text")
            pieces.append(
                Piece(
                    document.id,
                    len(pieces),
                    hash,
                    part.text,
                    document.source,
                    part.start,
                    part.end,
                    document.fields,
                    document.extra,
                )
            )
        if not pieces:
            raise InputInvalid("Nothing in its text is a character that the model knows.", param="text")
        return pieces

    def _parts(self, parts: Sequence[Part]) -> Iterator[Part]:
        held: list[Part] = []
        tokens = 0
        for part in parts:
            if not part.text.strip():
                continue
            if part.start is None or part.end is None:
                yield from (Part(text) for text, _, _ in self._texts(part.text))
                continue
            size = len(self._offsets(part.text[:BLOCK]))
            if held and not self._goes_on(held, part, tokens + size):
                yield _joined(held)
                held, tokens = [], 0
            if size > self.settings.tokens:
                yield from self._timed(part, part.start, part.end)
            else:
                held.append(part)
                tokens += size
        if held:
            yield _joined(held)

    def _goes_on(self, held: Sequence[Part], part: Part, tokens: int) -> bool:
        """Whether speech belongs to the piece before."""
        first, last = held[0], held[-1]
        assert None not in (first.start, last.end, part.start, part.end)
        near = part.start - last.end <= SPOKEN_PAUSE and part.end - first.start <= SPOKEN_SECONDS  # type: ignore[operator]
        return near and part.channel == last.channel and tokens <= self.settings.tokens

    def _timed(self, part: Part, start: float, end: float) -> Iterator[Part]:
        """Speech that is too long for a piece: its times by the share of its letters."""
        a_letter = (end - start) / max(1, len(part.text))
        for text, first, last in self._texts(part.text):
            yield Part(text, start + first * a_letter, start + last * a_letter, part.channel)

    def _texts(self, text: str) -> Iterator[tuple[str, int, int]]:
        """Stretches of a text and where they are in it. Never the whole of a long one is tokenised at once."""
        most, overlap = self.settings.tokens, self.settings.overlap
        at = 0
        while at < len(text):
            whole = at + BLOCK >= len(text)
            block = text[at : at + BLOCK]
            offsets = self._offsets(block)
            first = 0
            while first < len(offsets) and (whole or first + most < len(offsets)):
                last = self._end(block, offsets, first)
                begin, end = offsets[first][0], offsets[last - 1][1]
                if said := block[begin:end].strip():
                    yield said, at + begin, at + end
                if last == len(offsets):
                    break
                first = max(first + 1, last - overlap)
            if whole:
                return
            # What is left of the block is the beginning of the next one.
            at += max(1, offsets[first][0]) if first < len(offsets) and first else len(block)

    def _end(self, block: str, offsets: Sequence[tuple[int, int]], first: int) -> int:
        """The token before which the piece that begins at `first` ends: after a sentence if one ends late enough."""
        last = min(first + self.settings.tokens, len(offsets))
        if last == len(offsets):
            return last
        early = first + max(self.settings.tokens * 3 // 5, self.settings.overlap + 1)
        begin, end = offsets[early][0], offsets[last][0]
        ends = [found.end() for found in _ENDS.finditer(block, begin, end)]
        return bisect_left(offsets, (ends[-1], 0), early, last) if ends else last

    def _offsets(self, text: str) -> list[tuple[int, int]]:
        found: list[tuple[int, int]] = self._tokeniser.encode(text, add_special_tokens=False).offsets
        return found


def _joined(parts: Sequence[Part]) -> Part:
    text = " ".join(part.text.strip() for part in parts)
    return Part(text, parts[0].start, parts[-1].end, parts[0].channel)
