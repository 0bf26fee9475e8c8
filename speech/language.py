"""The language of a stream: heard once, then kept, and given up only on evidence."""

from __future__ import annotations

from speech.asr import Transcript

CONFIDENT = 0.6
"""Probability from which a detection counts."""
_ENOUGH = 1.0
"""Seconds of speech under which a detection is a guess."""
_UNSURE = -0.8
"""Average log probability under which a transcript in the kept language makes us listen again."""
_STRIKES = 2


class LanguageLock:
    """`current` is None until a final was confident of its language; two confident others in a row replace it."""

    def __init__(self) -> None:
        self.current: str | None = None
        self._strikes = 0

    def hear(self, transcript: Transcript, speech: float) -> None:
        """A final that was free to detect its language, over `speech` seconds of voice."""
        if transcript.language_probability < CONFIDENT or speech < _ENOUGH or not transcript.text:
            return
        if self.current is None:
            self.current = transcript.language
        elif transcript.language == self.current:
            self._strikes = 0
        else:
            self._strikes += 1
            if self._strikes >= _STRIKES:
                self.current, self._strikes = transcript.language, 0

    def doubts(self, transcript: Transcript, speech: float) -> bool:
        """A final in the kept language went so badly that the language should be detected anew."""
        if transcript.avg_logprob >= _UNSURE:
            self._strikes = 0
            return False
        return speech >= _ENOUGH
