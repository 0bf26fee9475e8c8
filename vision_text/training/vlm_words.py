"""The words of the small vision-language model, its tokeniser, and conversations as the processor would write them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import Lowercase
from tokenizers.pre_tokenizers import Digits, Punctuation, WhitespaceSplit
from tokenizers.pre_tokenizers import Sequence as InTurn
from transformers import PreTrainedTokenizerFast

from vision_text.scenes.grids import PLACES
from vision_text.scenes.pictures import COLOURS, SHAPES

PAD, UNKNOWN, START, END = "<pad>", "<unk>", "<|im_start|>", "<end_of_utterance>"
FENCE, IMAGE, WHOLE = "<fake_token_around_image>", "<image>", "<global-img>"
SPECIAL = (PAD, UNKNOWN, START, END, FENCE, IMAGE, WHOLE, "<video>")
SPLITS = tuple(f"<row_{row}_col_{column}>" for row in range(1, 5) for column in range(1, 5))
"""For processors that split pictures; the model is not trained on such."""
CLIP_INTRODUCED = "you are provided the following series of {frames} frames from a {duration} [h:mm:ss] video. "
FRAME_INTRODUCED = "frame from {at}:"
_PLAIN = """
user assistant system describe the picture what is at colour shape of object objects how many are there a an in which
where nothing nowhere yes no has and moves way does move start end up down it on
you provided following series two frames from h mm ss video
three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
frame image images pictures first second third clip please one can see this
"""
_PLACES = " ".join(PLACES)
WORDS = tuple(
    dict.fromkeys(
        [
            *"0123456789",
            *".,:;?!'-()[]",
            *COLOURS,
            *SHAPES,
            *(f"{shape}s" for shape in SHAPES),
            *_PLACES.split(),
            *_PLAIN.split(),
        ]
    )
)
TEMPLATE = (
    START + "{% for message in messages %}{{ message['role'] | capitalize }}"
    "{% if message['content'] is string %}{{ ': ' + message['content'] }}"
    "{% else %}{{ ':' if message['content'][0]['type'] != 'text' else ': ' }}"
    "{% for part in message['content'] %}{% if part['type'] == 'text' %}{{ part['text'] }}"
    "{% elif part['type'] == 'image' %}{{ '" + IMAGE + "' }}"
    "{% elif part['type'] == 'video' %}{{ '<video>' }}{% endif %}{% endfor %}{% endif %}" + END + "\n"
    "{% endfor %}{% if add_generation_prompt %}{{ 'Assistant:' }}{% endif %}"
)
"""That of SmolVLM2."""


def tokenizer() -> PreTrainedTokenizerFast:
    """Whole words in lower case, figures digit by digit; decoding puts spaces between them."""
    vocabulary = {word: number for number, word in enumerate((*SPECIAL, *SPLITS, *WORDS))}
    fast = Tokenizer(WordLevel(vocabulary, unk_token=UNKNOWN))
    fast.normalizer = Lowercase()
    fast.pre_tokenizer = InTurn([WhitespaceSplit(), Punctuation(), Digits(individual_digits=True)])
    made: Any = PreTrainedTokenizerFast
    tokens: PreTrainedTokenizerFast = made(
        tokenizer_object=fast,
        model_max_length=2048,
        pad_token=PAD,
        unk_token=UNKNOWN,
        bos_token=START,
        eos_token=END,
        clean_up_tokenization_spaces=False,
        extra_special_tokens={
            "fake_image_token": FENCE,
            "image_token": IMAGE,
            "global_image_token": WHOLE,
            "end_of_utterance_token": END,
            "video_token": "<video>",
        },
        additional_special_tokens=list(SPLITS),
        chat_template=TEMPLATE,
    )
    return tokens


class Writer:
    """Writes conversations as ids, word for word as template and processor do, and says which ids are answers."""

    def __init__(self, tokens: PreTrainedTokenizerFast) -> None:
        self._tokens = tokens
        self._known: dict[str, list[int]] = {}

    def ids(self, text: str) -> list[int]:
        if text not in self._known:
            if len(self._known) > 20_000:
                self._known.clear()
            self._known[text] = self._tokens(text, add_special_tokens=False)["input_ids"]
        return self._known[text]

    def picture(self, visual_tokens: int) -> list[int]:
        return [*self.ids(FENCE + WHOLE), *self.ids(IMAGE) * visual_tokens, *self.ids(FENCE)]

    def conversation(self, turns: Sequence[tuple[list[int], str]]) -> tuple[list[int], list[bool]]:
        """`turns`: what the user says, as ids, and the answer. -> ids, and for each whether it is to be learned."""
        written, learned = list(self.ids(START)), [False]
        for said, answer in turns:
            asked = [*self.ids("user:"), *said, *self.ids(END), *self.ids("assistant:")]
            told = [*self.ids(answer), *self.ids(END)]
            written += asked + told
            learned += [False] * len(asked) + [True] * len(told)
        return written, learned
