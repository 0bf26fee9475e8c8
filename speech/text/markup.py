"""Markdown, code and tags: which characters of a text are read, by the policies of its options.

One pass over the lines; every pattern is bounded, so the time is linear in the text whatever it holds.
"""

from __future__ import annotations

import html
import re

from speech.text.fences import Fence, fence_after
from speech.text.options import TextOptions
from speech.text.source import BREAK, CELL, CODE, Source
from speech.text.wordlists import listed

_FILLER = "\ue00f"
"""Takes the place of what the first pass settled, so that positions stay those of the original."""
_ATTRIBUTE = r"""\s{1,20}[\w:.-]{1,40}\s{0,3}=\s{0,3}(?:"[^"<>]{0,400}"|'[^'<>]{0,400}'|[^\s"'<>=]{1,200})"""
_TAG = re.compile(
    rf"<(?P<closing>/?)(?P<name>[A-Za-z][\w:.-]{{0,40}})(?P<attributes>(?:{_ATTRIBUTE}){{0,12}})\s{{0,5}}(?P<empty>/?)>"
    r"|<[!?][A-Za-z\[][^<>]{0,500}>"
    r"|&(?:[A-Za-z]{2,31}|#\d{1,7}|#[xX][0-9A-Fa-f]{1,6});"
    r"|<!--"
)
_KNOWN = listed(
    "a abbr address amazon article aside audio b bdi bdo big blockquote body br break button center cite code dd del "
    "details dfn div dl dt em emphasis fieldset figcaption figure font footer form h1 h2 h3 h4 h5 h6 head header hr "
    "html i iframe img input ins kbd label lang legend lexicon li link main mark marker math meta metadata nav ol "
    "option p paragraph phoneme pre prosody q rp rt ruby s samp say-as script section select sentence small span "
    "speak strike strong style sub summary sup svg table tbody td tfoot th thead time title tr tt u ul var video "
    "voice w wbr"
)
_PARAGRAPHS = listed("p div li h1 h2 h3 h4 h5 h6 tr table blockquote paragraph sentence s section title")
_PAUSES = listed("br break td th dd dt hr")

_HEADING = re.compile(r" {0,3}#{1,6}[ \t]{1,20}(?=\S)")
_QUOTE = re.compile(r" {0,3}(?:>[ \t]?){1,20}")
_BULLET = re.compile(r"[ \t]{0,60}[-*+•‣◦▪·–][ \t]{1,20}(?:\[[ xX]\][ \t]{1,20})?(?=\S)")
_ORDERED = re.compile(r"[ \t]{0,60}\d{1,3}([.)])[ \t]{1,20}(?=\S)")
_RULE = re.compile(r"[ \t]{0,20}(?:-[- \t]{2,999}|\*[* \t]{2,999}|_[_ \t]{2,999}|[-=]{2,999})$")
_DELIMITING = frozenset("-:| \t")
_DEFINITION = re.compile(r" {0,3}\[[^\]\n]{1,100}\]:[ \t]{1,20}<?(?:https?://|mailto:|/|#)\S{0,2000}.{0,300}$")
_WHERE = r"<?[^()\s<>]{0,2000}(?:\([^()\s]{0,200}\)[^()\s]{0,200})?>?"
_TARGET = rf"\(\s{{0,5}}{_WHERE}(?:\s{{1,5}}[\"'][^\"'\n]{{0,300}}[\"'])?\s{{0,5}}\)"
_INLINE = re.compile(
    rf"(?P<settled>{_FILLER})"
    r"|(?P<escape>\\)(?=[!-/:-@\[-`{-~])"
    r"|(?P<code>(?P<tick>`{1,3})(?!`)[^`\n]{1,400}(?P=tick)(?!`))"
    r"|(?P<reference>(?<!\w)\[(?=[^\[\]\n]{1,300}\]\[[^\[\]\n]{0,100}\]))"
    r"|(?P<link>!?\[(?=[^\[\]\n]{0,300}\]\())"
    rf"|(?P<target>\]{_TARGET})"
    r"|(?P<referred>(?<=\w)\]\[[^\[\]\n]{0,100}\])"
    r"|(?P<note>\[\^[^\]\s]{1,50}\]:?)"
    r"|(?P<angle><)(?=(?:https?://|mailto:)[^\s<>]{1,2000}>)"
    r"|(?P<unangle>(?<=[^\s<])>)"
    r"|(?P<signs>\*{1,32}|_{1,32}|~~|`{1,32})"
)


def read(original: str, options: TextOptions, *, code: bool = False) -> Source:
    """The readable text. `code`: the text begins inside a fenced block of code."""
    return _Reader(original, options).read(Fence("`", 3) if code else None)


class _Reader:
    def __init__(self, original: str, options: TextOptions) -> None:
        self._original = original
        self._options = options
        self._source = Source(original, keep_emoji=options.emoji != "strip")
        self._settled: dict[int, tuple[int, str, str]] = {}
        """What the first pass settled, by where it starts: where it ends, what stands for it, by which policy."""
        self._work = self._settle()

    def read(self, fence: Fence | None) -> Source:
        at, size, broken = 0, len(self._work), False
        while at < size:
            end = self._work.find("\n", at)
            end = size if end < 0 else end
            line = self._work[at:end]
            before, fence = fence, fence_after(line, fence)
            if before or fence:
                block = self._code(at, end, opens=before is None, closes=fence is None)
            elif not line.strip():
                block = True
                self._source.copy(at, end)
            elif self._options.markdown == "strip":
                block = self._line(line, at, end, broken)
            else:
                block = False
                self._inline(at, end, markdown=False)
            if end < size:
                broken = block or self._starts_block(end + 1)
                self._source.put(BREAK if broken else "\n", end, end + 1)
            at = end + 1
        return self._source

    def _settle(self) -> str:
        """The text with fillers for tags, comments and entities, which may span lines and stand anywhere."""
        original = self._original
        parts: list[str] = []
        done, comment_may_end = 0, True
        for found in _TAG.finditer(original) if "<" in original or "&" in original else ():
            start, end, text, policy = found.start(), found.end(), "", "markup"
            if start < done:
                continue
            if found.group() == "<!--":
                end = original.find("-->", start) + 3 if comment_may_end else 2
                if end == 2:
                    comment_may_end = False
                    continue
            elif found.group()[0] == "&":
                text, policy = html.unescape(found.group()), ""
                if text == found.group():
                    continue
            elif found["name"]:
                stands = self._tag(found)
                if stands is None:
                    continue
                text = stands
            self._settled[start] = (end, text, policy)
            parts += [original[done:start], _FILLER * (end - start)]
            done = end
        return "".join((*parts, original[done:]))

    def _tag(self, found: re.Match[str]) -> str | None:
        """What stands for a tag, None for what only looks like one ("List<String>", "a<b>c")."""
        name = found["name"].lower().split(":")[-1]
        sure = found["closing"] or found["empty"] or found["attributes"] or ":" in found["name"]
        attached = found.start() > 0 and self._original[found.start() - 1].isalnum()
        if not sure and attached and (name not in _KNOWN or len(name) == 1):
            return None
        if name in _PARAGRAPHS:
            return BREAK
        return CELL if name in _PAUSES else ""

    def _code(self, at: int, end: int, *, opens: bool, closes: bool) -> bool:
        """A line of a fenced block, its fences as well."""
        source, policy = self._source, self._options.code
        if opens and policy == "name":
            source.put(BREAK + CODE, at, end)
        elif policy != "speak":
            source.drop(at, end, "code")
        elif opens or closes:
            source.drop(at, end, "markdown")
        else:
            self._literal(at, end)
        return True

    def _starts_block(self, at: int) -> bool:
        line = self._work[at : at + 100].split("\n", 1)[0]
        if not line.strip() or fence_after(line, None):
            return True
        if self._options.markdown != "strip":
            return False
        return bool(_HEADING.match(line) or _BULLET.match(line) or _ORDERED.match(line) or line.lstrip()[0] == "|")

    def _line(self, line: str, at: int, end: int, broken: bool) -> bool:
        """A line of text; whether it is a block of its own, with a pause after it."""
        source = self._source
        if _RULE.match(line) or _delimits(line) or _DEFINITION.match(line):
            self._drop(at, end, "markdown")
            return True
        block = False
        if quote := _QUOTE.match(line):
            self._drop(at, at + quote.end(), "markdown")
            line, at = line[quote.end() :], at + quote.end()
        if heading := _HEADING.match(line):
            block = True
            self._drop(at, at + heading.end(), "markdown")
            bare = line.rstrip(" \t")
            kept = bare.rstrip("#")
            stop = at + (len(kept) if kept != bare and kept.endswith(" ") else len(line))
            self._inline(at + heading.end(), stop)
            self._drop(stop, end, "markdown")
            return block
        if bullet := _BULLET.match(line):
            block = True
            self._drop(at, at + bullet.end(), "markdown")
            at += bullet.end()
        elif (broken or at == 0) and (ordered := _ORDERED.match(line)):
            block = True
            source.copy(at, at + ordered.start(1))
            source.put(CELL, at + ordered.start(1), at + ordered.end(1))
            at += ordered.end(1)
        elif line.lstrip().startswith("|") and line.rstrip().endswith("|"):
            block = True
        self._inline(at, end)
        return block

    def _inline(self, at: int, end: int, *, markdown: bool = True) -> None:
        if not markdown:
            self._literal(at, end)
            return
        done = at
        for found in _INLINE.finditer(self._work, at, end):
            if found.start() < done:
                continue
            start, stop, kind = found.start(), found.end(), found.lastgroup
            if kind == "tick":
                kind = "code"
            if (kind == "unangle" and not self._closes_angle(start)) or (kind == "signs" and self._means_itself(found)):
                continue
            self._source.copy(done, start)
            if kind == "settled":
                stop = self._put_settled(start)
            elif kind == "escape":
                self._source.drop(start, stop, "markdown")
                if self._work[stop] != _FILLER:
                    self._source.copy(stop, stop + 1)
                    stop += 1
            elif kind == "code":
                ticks = len(found["tick"])
                self._source.drop(start, start + ticks, "markdown")
                self._literal(start + ticks, stop - ticks)
                self._source.drop(stop - ticks, stop, "markdown")
            else:
                self._drop(start, stop, "markdown" if kind == "signs" else "link")
            done = stop
        self._source.copy(done, end)

    def _literal(self, at: int, end: int) -> None:
        """Without markdown in it, but with what the first pass settled."""
        while (start := self._work.find(_FILLER, at, end)) >= 0:
            self._source.copy(at, start)
            at = self._put_settled(start)
        self._source.copy(at, end)

    def _put_settled(self, start: int) -> int:
        if start not in self._settled:
            self._source.drop(start, start + 1, "private use")
            return start + 1
        end, text, policy = self._settled[start]
        self._source.put(text, start, end)
        if policy:
            self._source.drop(start, end, policy)
        return end

    def _drop(self, start: int, end: int, policy: str) -> None:
        self._source.drop(start, end, policy)

    def _closes_angle(self, at: int) -> bool:
        """Whether the ">" ends "<https://…>"."""
        start = self._work.rfind("<", max(0, at - 2100), at)
        return start >= 0 and bool(re.match(r"<(?:https?://|mailto:)[^\s<>]{1,2000}$", self._work[start:at]))

    def _means_itself(self, found: re.Match[str]) -> bool:
        """Whether the signs do not mark emphasis: "5 * 3", "2*3", "snake_case"."""
        before = self._work[found.start() - 1] if found.start() else " "
        after = self._work[found.end()] if found.end() < len(self._work) else " "
        sign = found.group()[0]
        if before.isspace() and after.isspace():
            return sign == "_" or (found.group() == "*" and found.start() > 0 and found.end() < len(self._work))
        if sign == "*":
            return before.isdecimal() and after.isdecimal()
        return sign == "_" and (before.isalnum() or before == "_") and (after.isalnum() or after == "_")


def _delimits(line: str) -> bool:
    """Whether a line only sets the head of a table off: "|---|:-:|"."""
    return "-" in line and "|" in line and _DELIMITING.issuperset(line)
