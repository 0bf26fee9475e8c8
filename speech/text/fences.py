"""Fenced blocks of code, line by line; the same for whoever reads a text and whoever cuts it."""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"[ \t]{0,8}(`{3,64}|~{3,64})[ \t]{0,8}([^`\n]{0,80})$")


@dataclass(frozen=True, slots=True)
class Fence:
    sign: str
    length: int


def fence_after(line: str, inside: Fence | None) -> Fence | None:
    """The block of code we are in after `line` (without its line end), when we were in `inside` before it."""
    found = _FENCE.match(line.rstrip()) if "```" in line or "~~~" in line else None
    if found is None:
        return inside
    sign, length = found[1][0], len(found[1])
    if inside is None:
        return Fence(sign, length)
    return None if sign == inside.sign and length >= inside.length and not found[2] else inside
