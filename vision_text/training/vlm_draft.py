"""Trains the draft of the small vision-language model: one layer, the same words, no pictures.

    python -m vision_text.training.vlm_draft --out /tmp/draft     # about two minutes of one core; goes into the package

It knows how answers go on ("red" is followed by a shape, a place by "and" or the end), which is what it is good for:
proposing words that the model, which sees, then verifies.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import LlamaConfig, LlamaForCausalLM

from vision_text.training.muon import Muon
from vision_text.training.publish import publish
from vision_text.training.vlm import SEED, say
from vision_text.training.vlm_lessons import Teacher, batch
from vision_text.training.vlm_words import Writer, tokenizer

SHOWN = 36
"""Pixels of the pictures whose visual tokens stand in the text; the draft sees placeholders."""


def new_draft() -> Any:
    """With random weights."""
    tokens = tokenizer()
    config = LlamaConfig(
        vocab_size=len(tokens),
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=32,
        max_position_embeddings=2048,
        tie_word_embeddings=True,
        pad_token_id=tokens.pad_token_id,
        bos_token_id=tokens.bos_token_id,
        eos_token_id=tokens.eos_token_id,
    )
    model: Any = LlamaForCausalLM(config)
    return model.float()


def texts(seed: int, step: int, writer: Writer, *, held_out: bool = False) -> tuple[Tensor, Tensor]:
    """Conversations as ids, and what of them is to be learned."""
    rng = np.random.default_rng((seed, 2, step))
    teacher = Teacher(writer, SHOWN, 1, rng, held_out=held_out)
    inputs = batch([teacher.of_pictures(8) for _ in range(16)], writer, SHOWN)
    return inputs["input_ids"], inputs["labels"][:, 1:]


def train(steps: int, seed: int = SEED) -> Any:
    torch.manual_seed(seed)
    model, writer = new_draft(), Writer(tokenizer())
    optimiser = Muon(model)
    for step in range(steps):
        ids, labels = texts(seed, step, writer)
        told = model(ids, use_cache=False).logits[:, :-1]
        loss = functional.cross_entropy(told.flatten(0, 1), labels.flatten(), ignore_index=-100)
        loss.backward()
        optimiser.step(min(1.0, (step + 1) / 20, 2 * (steps - step) / steps))
        if step % 50 == 49:
            say(f"draft {step + 1}: loss {loss.item():.3f}")
    return model


@torch.no_grad()
def right_words(model: Any, seed: int = 99) -> float:
    """Share of the words of answers to held-out pictures that it guesses, after the right words before."""
    writer = Writer(tokenizer())
    found = []
    for step in range(8):
        ids, labels = texts(seed, step, writer, held_out=True)
        told = model(ids, use_cache=False).logits[:, :-1].argmax(-1)
        found += (told == labels)[labels != -100].tolist()
    return float(np.mean(found))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--steps", type=int, default=500)
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = train(given.steps)
    found = right_words(model)
    say(f"{found:.3f} of the words of answers")
    model.save_pretrained(given.out)
    tokenizer().save_pretrained(given.out)
    publish(
        "shapes-vlm-draft", given.out, task="text-generation", script="vision_text.training.vlm_draft", seed=SEED,
        score=found, measure="words of answers about held-out pictures, guessed from the words before",
    )  # fmt: skip


if __name__ == "__main__":
    main()
