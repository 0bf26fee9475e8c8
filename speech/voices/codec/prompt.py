"""From the tokens of a segment to the prompt of the model: the speaker's name, the text, the marks around it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer

from speech.models.errors import ModelCorrupt
from speech.text.spoken import Spoken
from speech.tts import Phonemes
from speech.voices.codec.layout import Layout, LayoutError
from speech.voices.joined import has_sound, join

_MARK = re.compile(r"<(?=\||custom_token_)")
"""Beginnings of the model's own marks. In a text they are text: spelling one neither ends speech nor makes sound."""


class Prompter:
    """The tokeniser of a model and the marks it uses. Thread-safe."""

    def __init__(self, folder: Path, codebook: int) -> None:
        """Raises ModelCorrupt when the folder has no tokeniser with the marks of a speech model."""
        try:
            self._tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
            self.layout = Layout.of(self._tokenizer.token_to_id, codebook)
        except LayoutError as error:
            raise ModelCorrupt(f"{folder}: {error}") from error
        except Exception as error:  # the library raises plain exceptions
            raise ModelCorrupt(f"tokenizer.json in {folder} can't be read: {error}") from error

    def prompt(self, tokens: Sequence[Spoken], speaker: str) -> Phonemes:
        """Ids of the whole prompt; none when there is nothing to say. Phonemes of a lexicon can't be given here."""
        if not any(has_sound(token) for token in tokens):
            return Phonemes((), (), ("",) * len(tokens))
        text, owners = join(tokens, [_MARK.sub("< ", token.text) for token in tokens])
        name = f"{speaker}: " if speaker else ""
        encoded = self._tokenizer.encode(name + text)
        owners = [-1] * len(name) + owners
        sources = [max(owners[begin:end], default=-1) for begin, end in encoded.offsets]
        opening, closing = self.layout.opening, self.layout.closing
        return Phonemes(
            ids=(*opening, *encoded.ids, *closing),
            sources=(*[-1] * len(opening), *sources, *[-1] * len(closing)),
            text=tuple(token.text if has_sound(token) else "" for token in tokens),
        )
