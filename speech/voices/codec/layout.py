"""How sound is written in tokens: frames of seven codes, interleaved from the codec's three levels (1 + 2 + 4).

The layout is that of the Orpheus models: the tokeniser has the tokens `<custom_token_N>`, the first ten of them mark
the parts of a prompt, and from number 10 on follow the codes, a block of the codebook's size for each of the seven
positions in a frame. Every code is valid, 0 too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

FRAME = 7
"""Codes of one frame."""
LEVELS = (1, 2, 4)
"""Codes of one frame on each level, coarse to fine."""
_PLACES = ((0,), (1, 4), (2, 3, 5, 6))
"""Positions in a frame of each level's codes, in the order of time."""
_CODES_FROM = 10


class LayoutError(ValueError):
    """The tokeniser lacks a token that the layout needs."""


@dataclass(frozen=True, slots=True)
class Layout:
    """Token ids. A prompt is `opening`, the text as tokenised, `closing`; codes follow, then `stop`."""

    opening: tuple[int, ...]
    closing: tuple[int, ...]
    stop: int
    first_code: int
    codebook: int

    @classmethod
    def of(cls, id_of: Callable[[str], int | None], codebook: int) -> Layout:
        """Look the tokens up by name. Raises LayoutError."""

        def find(name: str) -> int:
            found = id_of(name)
            if found is None:
                raise LayoutError(f"the tokeniser has no {name}: this is not a speech model of the Orpheus kind")
            return found

        def custom(number: int) -> int:
            return find(f"<custom_token_{number}>")

        first, last = custom(_CODES_FROM), custom(_CODES_FROM + FRAME * codebook - 1)
        if last - first != FRAME * codebook - 1:
            raise LayoutError("the tokens of the codes are not in one block")
        return cls(
            opening=(custom(3),),
            closing=(find("<|eot_id|>"), custom(4), custom(5), custom(1)),
            stop=custom(2),
            first_code=first,
            codebook=codebook,
        )

    @property
    def codes(self) -> int:
        """Tokens that are codes."""
        return FRAME * self.codebook

    def token(self, place: int, code: int) -> int:
        """The token of a code at a position (0 to 6) of its frame."""
        return self.first_code + place * self.codebook + code


def levels(codes: Sequence[Sequence[int]], device: str) -> list[Tensor]:
    """Codes of several rows with equally many whole frames, by level: int64 [rows, frames * 1 | 2 | 4]."""
    frames = torch.tensor(codes, device=device).view(len(codes), -1, FRAME)
    return [frames[:, :, places].flatten(1) for places in _PLACES]
