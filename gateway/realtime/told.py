"""What a client was told of the utterances that have no end yet: text that only grows, whoever goes on with it."""

from __future__ import annotations

from dataclasses import replace

from speech.events import Cleared, Event, Failed, Final, Partial


class Told:
    """The stable texts by utterance. One that began at another gateway is made anew here: of it, what was told before
    is not told again, and nothing that was told is taken back.
    """

    def __init__(self, texts: dict[int, str] | None = None) -> None:
        """`texts`: what the other gateway has told."""
        self.texts: dict[int, str] = dict(texts or {})
        self._made: dict[int, str] = dict.fromkeys(self.texts, "")

    def hear(self, event: Event) -> Event | None:
        """The event as the client is to be told it; None: it has nothing new."""
        if isinstance(event, Final | Failed):
            self.texts.pop(event.utterance, None)
            self._made.pop(event.utterance, None)
        elif isinstance(event, Cleared):
            self.texts.clear()
            self._made.clear()
        elif isinstance(event, Partial):
            return self._partial(event)
        return event

    def _partial(self, event: Partial) -> Partial | None:
        told = self.texts.get(event.utterance, "")
        if event.utterance in self._made:
            made = self._made[event.utterance] = self._made[event.utterance] + event.stable
            stable = beyond(told, made)
            unstable = beyond(told + stable, made + event.unstable)
            event = replace(event, stable=stable, unstable=unstable)
        if event.stable:
            self.texts[event.utterance] = told + event.stable
        return event if event.stable or event.unstable else None


def beyond(told: str, text: str) -> str:
    """What `text`, which should begin as what was told, has behind it; where it differs, as many words count."""
    if text.startswith(told):
        return text[len(told) :]
    return "".join(f" {word}" for word in text.split()[len(told.split()) :])
