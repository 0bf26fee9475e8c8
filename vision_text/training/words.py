"""A tokeniser of whole words, as the libraries load it."""

from __future__ import annotations

from collections.abc import Sequence

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Punctuation, WhitespaceSplit
from tokenizers.pre_tokenizers import Sequence as InTurn
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerFast

PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
"""Their ids are 0, 1, 2."""


def tokenizer(words: Sequence[str], *, length: int) -> PreTrainedTokenizerFast:
    """Ids of words, closed by END. `length`: tokens that a text is padded or cut to (`model_max_length`)."""
    vocabulary = {word: number for number, word in enumerate((PAD, END, UNKNOWN, *words))}
    fast = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    fast.normalizer = Lowercase()
    fast.pre_tokenizer = InTurn([WhitespaceSplit(), Punctuation()])
    fast.post_processor = TemplateProcessing(single=f"$A {END}", special_tokens=[(END, vocabulary[END])])
    return PreTrainedTokenizerFast(  # type: ignore[no-untyped-call]
        tokenizer_object=fast, model_max_length=length, pad_token=PAD, eos_token=END, unk_token=UNKNOWN
    )
