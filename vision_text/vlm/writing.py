"""From tokens to text as it is written: whole characters only, and nothing of what a stop sequence may begin."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from tokenizers.decoders import DecodeStream

log = logging.getLogger(__name__)

BROKEN = "\N{REPLACEMENT CHARACTER}"


class Writer:
    """`push` tokens, hand out what comes back, `finish` at the end. All of it together is the text."""

    def __init__(self, tokenizer: Any, stops: Sequence[str] = ()) -> None:
        self._tokenizer, self._stops = tokenizer, tuple(stops)
        self._fast: Any = tokenizer.backend_tokenizer
        self._stream: DecodeStream | None = DecodeStream(skip_special_tokens=True)
        self._ids: list[int] = []
        self._decoded = ""  # by the stream, whether handed out or not
        self._held = ""
        self.stopped = False

    def push(self, token: int) -> str:
        """What can be handed out now. "" after a stop sequence, which `stopped` tells."""
        if self.stopped:
            return ""
        self._ids.append(token)
        return self._take(self._decode(token))

    def _decode(self, token: int) -> str:
        if self._stream is not None:
            try:
                return self._stream.step(self._fast, token) or ""
            except Exception:  # it gives up on tokenisers whose text of some tokens is no beginning of that of more
                log.debug("a tokeniser that the library's stream cannot follow", exc_info=True)
                self._stream = None
        whole = self._whole()
        return "" if whole.endswith(BROKEN) else whole[len(self._decoded) :]

    def _whole(self) -> str:
        """The text of all tokens, if it begins with what there was before; else that."""
        whole: str = self._tokenizer.decode(self._ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)
        return whole if whole.startswith(self._decoded) else self._decoded

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
        given = self._take(self._whole()[len(self._decoded) :])
        given, self._held = given + self._held, ""
        return given


def _begun(text: str, stop: str) -> int:
    """How many characters at the end of `text` may be the beginning of `stop`."""
    return next((n for n in range(min(len(stop) - 1, len(text)), 0, -1) if text.endswith(stop[:n])), 0)
