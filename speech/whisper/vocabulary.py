"""The tokeniser's side of decoding: prompts, words, languages. The tokeniser itself is faster-whisper's."""

from __future__ import annotations

from pathlib import Path

import tokenizers
from faster_whisper.tokenizer import _LANGUAGE_CODES, Tokenizer

from speech.asr import DecodeOptions
from speech.whisper.decoder import CONTEXT
from workers.errors import InputInvalid

_PROMPT_TOKENS = CONTEXT // 2 - 1


class Vocabulary:
    """Tokens of one model. `multilingual` models are told a language; others are English."""

    def __init__(self, folder: Path, multilingual: bool) -> None:
        self.multilingual = multilingual
        self._raw = tokenizers.Tokenizer.from_file(str(folder / "tokenizer.json"))
        self._by_language: dict[str, Tokenizer] = {}
        self.english = self.tokenizer("en")
        self.sot = self.english.sot
        ids = {code: self._raw.token_to_id(f"<|{code}|>") for code in _LANGUAGE_CODES}
        self.language_tokens = {i: code for code, i in ids.items() if i is not None} if multilingual else {}

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes this model can be told."""
        return tuple(sorted(self.language_tokens.values())) if self.multilingual else ("en",)

    def tokenizer(self, language: str | None, task: str = "transcribe") -> Tokenizer:
        """The tokeniser with the start sequence of a language."""
        key = f"{language or 'en'}/{task}"
        if key not in self._by_language:
            self._by_language[key] = Tokenizer(self._raw, self.multilingual, task=task, language=language or "en")
        return self._by_language[key]

    def check(self, options: DecodeOptions) -> None:
        """Raises InputInvalid when the model does not know the language or the task."""
        if options.language is not None and options.language not in self.languages:
            known = ", ".join(self.languages)
            raise InputInvalid(f"this model does not speak {options.language!r}; it knows: {known}", param="language")
        if options.task != "transcribe" and not self.multilingual:
            raise InputInvalid("only a multilingual model can translate", param="task")

    def prompt(self, options: DecodeOptions, language: str | None) -> tuple[list[int], int]:
        """(prompt tokens, position of the start-of-transcript token among them)."""
        t = self.tokenizer(language, options.task)
        text = " ".join(part for part in (", ".join(options.keywords), options.prompt.strip()) if part)
        out = [t.sot_prev, *t.encode(" " + text)[-_PROMPT_TOKENS:]] if text else []
        at = len(out)
        out += t.sot_sequence
        return (out if options.timestamps else [*out, t.no_timestamps]), at

    def text(self, tokens: list[int]) -> str:
        """The words of tokens, timestamps and other specials left out."""
        return str(self.english.decode(tokens))

    def pieces(self, tokens: list[int], language: str | None) -> tuple[tuple[str, int], ...]:
        """(word, number of its tokens) for text tokens; a word cut inside a character comes out with its rest."""
        words, groups = self.tokenizer(language).split_to_word_tokens([*tokens, self.english.eot])
        return tuple((word, len(group)) for word, group in zip(words[:-1], groups[:-1], strict=True))
