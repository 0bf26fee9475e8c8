"""How text that is not plain words is treated."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

from workers.errors import InputInvalid

Markdown = Literal["strip", "speak"]
Code = Literal["strip", "speak", "name"]
Emoji = Literal["strip", "name", "speak"]


@dataclass(frozen=True, slots=True)
class TextOptions:
    """Policies. Raises InputInvalid naming the field when a value is not one of those listed.

    `markdown`: "strip" leaves out the signs (and where links lead) and reads what they mark; "speak" reads the signs.
    `code`: a fenced block is left out ("strip"), read ("speak"), or announced as "code block" ("name"). Code within a
    line is always read. `emoji`: left out ("strip"), said with the word ("name": "red heart emoji"), or said as plain
    words ("speak": "red heart"). Tags of SSML and HTML are always left out and what they enclose is read; tags that
    begin or end a paragraph, and breaks, make a pause.
    """

    markdown: Markdown = "strip"
    code: Code = "strip"
    emoji: Emoji = "strip"
    language: str = "en"

    def __post_init__(self) -> None:
        for name, allowed in (("markdown", get_args(Markdown)), ("code", get_args(Code)), ("emoji", get_args(Emoji))):
            if getattr(self, name) not in allowed:
                raise InputInvalid(f"{name} must be one of {', '.join(allowed)}.", param=name)
        if not isinstance(self.language, str) or self.language.split("-")[0].lower() != "en":
            raise InputInvalid("Text is read as English only: language must be en.", param="language")
