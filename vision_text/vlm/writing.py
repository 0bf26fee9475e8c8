"""From tokens to text as it is written: whole characters only, and nothing of what a stop sequence may begin."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

BROKEN = "\N{REPLACEMENT CHARACTER}"


class Writer:
    """`push` tokens, hand out what comes back, `finish` at the end. All of it together is the text."""

    def __init__(self, tokenizer: Any, stops: Sequence[str] = ()) -> None:
        from tokenizers.decoders import DecodeStream

        self._tokenizer, self._stops = tokenizer, tuple(stops)
        self._fast: Any = tokenizer.backend_tokenizer
        self._stream = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._decoded = ""  # by the stream, whether handed out or not
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """What can be handed out now. "" after a stop sequence, which `stopped` tells."""
        if self.stopped:
            return ""
        self._ids.append(token)
        return self._take(self._stream.step(self._fast, token) or "")

    def _take(self, more: str) -> str:
        self._decoded += more
        self._held += more
        ends = [at for stop in self._stops if (at := self._held.find(stop)) >= 0]
        if ends:
            self.stopped = True
            given, self._held = self._held[: min(ends)], ""
            return given
        keep = max((_begun(self._held, stop) for stop in self._stops), default=0)
        cut = len(self._held) - keep
        given, self._held = self._held[:cut], self._held[cut:]
        return given

    def finish(self) -> str:
        """The rest, with a sign for each character that was never completed."""
        if self.stopped:
            return ""
        whole = self._tokenizer.decode(self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        rest = whole[len(self._decoded) :] if whole.startswith(self._decoded) else ""
        given = self._take(rest)
        given, self._held = given + self._held, ""
        return given


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
