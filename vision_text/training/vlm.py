"""Trains the small vision-language model (SmolVLM's class) on pictures of grids and clips of them.

    python -m vision_text.training.vlm train --out /tmp/vlm       # some 45 minutes of one core
    python -m vision_text.training.vlm publish --out /tmp/vlm     # into the package
    python -m vision_text.training.vlm score --model vision_text/small/shapes-vlm

First the vision tower learns, with a linear head, what cells show and where they lie; then everything learns to recite
and to answer, at resolutions from 12 to 72 pixels (1 to 36 visual tokens), with one to three pictures, over several
turns, and clips as frames. Every step has a random generator of its own, so training is the same from run to run and
can be taken up again where it stopped (every 100 steps).
"""

from __future__ import annotations

import argparse
import copy
import json
import time
from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional
from transformers import GenerationConfig, Idefics3Processor, SmolVLMConfig, SmolVLMForConditionalGeneration
from transformers.models.idefics3.image_processing_pil_idefics3 import Idefics3ImageProcessorPil

from vision_text.scenes.grids import SIDE, SIZE, draw, random_grid
from vision_text.scenes.pictures import COLOURS, SHAPES
from vision_text.training.muon import Muon
from vision_text.training.publish import publish
from vision_text.training.vlm_lessons import PATCH, SCALE, Teacher, batch, pixels, recital, visual_tokens
from vision_text.training.vlm_words import IMAGE, TEMPLATE, Writer, tokenizer

SEED = 7


def new_model() -> Any:
    """With random weights. 36 visual tokens at 72 pixels; a cell of the grid is four of them, or one at 36 pixels."""
    tokens = tokenizer()
    ids = {
        "pad_token_id": tokens.pad_token_id,
        "bos_token_id": tokens.bos_token_id,
        "eos_token_id": tokens.eos_token_id,
    }
    config = SmolVLMConfig(
        vision_config={
            "hidden_size": 64,
            "intermediate_size": 160,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "image_size": SIZE,
            "patch_size": PATCH,
        },
        text_config={
            "model_type": "llama",
            "vocab_size": len(tokens),
            "hidden_size": 96,
            "intermediate_size": 256,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 4,
            "head_dim": 32,
            "max_position_embeddings": 2048,
            "tie_word_embeddings": False,
            **ids,
        },
        image_token_id=tokens.get_vocab()[IMAGE],
        scale_factor=SCALE,
        tie_word_embeddings=False,
        **ids,
    )
    model: Any = SmolVLMForConditionalGeneration(config)
    return model.float()


def answers(model: Any, inputs: dict[str, Tensor]) -> tuple[Tensor, Tensor]:
    """Logits where an answer is to be told, (M, words), and what it is, (M,)."""
    labels = inputs["labels"][:, 1:]
    states = model.model(input_ids=inputs["input_ids"], pixel_values=inputs["pixel_values"], use_cache=False)[0]
    return model.lm_head(states[:, :-1][labels != -100]), labels[labels != -100]


LAYOUTS: tuple[tuple[int, int, bool, float], ...] = (
    # pixels, pictures, whether they are frames of a clip, how often
    (36, 1, False, 30),
    (72, 1, False, 48),
    (48, 1, False, 6),
    (24, 1, False, 6),
    (12, 1, False, 3),
    (36, 2, False, 8),
    (72, 2, False, 5),
    (36, 3, False, 2),
    (36, 3, True, 5),
    (36, 4, True, 2),
    (72, 3, True, 2),
    (72, 2, True, 3),
)
RECITALS = 400
"""Steps of reciting before the first conversation; a third of the later ones recite as well."""
EARLY = 1000
"""Steps until which pictures are mostly shown alone, at 36 and 72 pixels."""
CONVERSATIONS, TURNS = 24, 8


def lessons(step: int, seed: int, writer: Writer) -> dict[str, Tensor]:
    """What is shown in a step."""
    rng = np.random.default_rng((seed, step))
    shares = np.array([share for *_, share in LAYOUTS])
    if step < EARLY:
        shares[:2] *= 8
    size, pictures, clip, _ = LAYOUTS[int(rng.choice(len(LAYOUTS), p=shares / shares.sum()))]
    if step < RECITALS or (pictures == 1 and rng.random() < 0.35):
        size = size if pictures == 1 else 36
        inputs = recital([random_grid(rng, held_out=False) for _ in range(40)], rng, writer, size)
    else:
        teacher = Teacher(writer, size, pictures, rng, held_out=False)
        teach = teacher.of_clip if clip else teacher.of_pictures
        inputs = batch([teach(TURNS) for _ in range(CONVERSATIONS // (2 if pictures > 1 else 1))], writer, size)
    noise = rng.standard_normal(tuple(inputs["pixel_values"].shape), dtype=np.float32)
    inputs["pixel_values"] += 0.02 * torch.from_numpy(noise)
    return inputs


def learn_to_see(model: Any, steps: int, seed: int) -> None:
    """The vision tower and its connector, by a linear head: what each cell shows, and where it lies.

    Without the second, nothing keeps the place in what the tower says, and questions about places are learned late.
    """
    width = model.config.text_config.hidden_size
    kinds = (len(COLOURS) + 1, len(SHAPES) + 1, SIDE, SIDE)
    head = torch.nn.Linear(width, sum(kinds))
    seeing = torch.nn.ModuleList([model.model.vision_model, model.model.connector, head])
    optimiser = Muon(seeing)
    colours, shapes, places = list(COLOURS), list(SHAPES), torch.arange(SIDE * SIDE)
    for step in range(steps):
        rng = np.random.default_rng((seed, 1, step))
        size = (36, 72)[step % 2]
        grids = [random_grid(rng, held_out=False) for _ in range(32)]
        values = pixels(np.stack([draw(grid) for grid in grids]), size)
        seen = torch.stack(model.model.get_image_features(values[:, None]).pooler_output)  # (32, tokens, width)
        side = size // (PATCH * SCALE)
        cells = functional.interpolate(seen.transpose(1, 2).unflatten(2, (side, side)), (SIDE, SIDE), mode="area")
        told = head(cells.flatten(2).transpose(1, 2)).split(kinds, -1)
        wanted = torch.zeros(len(grids), SIDE * SIDE, 4, dtype=torch.long)
        wanted[..., 2], wanted[..., 3] = places // SIDE, places % SIDE
        for row, grid in enumerate(grids):
            for one in grid.objects:
                wanted[row, one.cell, 0] = colours.index(one.colour) + 1
                wanted[row, one.cell, 1] = shapes.index(one.shape) + 1
        loss = sum(
            (functional.cross_entropy(part.flatten(0, 1), wanted[..., n].flatten()) for n, part in enumerate(told)),
            torch.zeros(()),
        )
        loss.backward()
        optimiser.step(min(1, 3 * (steps - step) / steps, (step + 1) / 10))
        if step % 32 == 31:
            right = torch.stack([part.argmax(-1) for part in told], -1) == wanted
            found = right.all(-1)[wanted[..., 1] > 0].float().mean().item()
            say(f"seeing {step + 1}: {size} px, loss {loss.item():.3f}, objects right {found:.3f}")


def train(out: Path, *, steps: int, seeing: int, decay: int, seed: int) -> Any:
    """Takes up again what `out` holds. The rate of learning falls to nothing over the last `decay` steps."""
    torch.manual_seed(seed)
    model, writer = new_model(), Writer(tokenizer())
    optimiser = Muon(model, slow=("vision_model", "connector"))
    kept, first = out / "kept.pt", 0
    if kept.exists():
        state = torch.load(kept, weights_only=True)
        model.load_state_dict(state["model"])
        optimiser.load_state_dict(state["optimiser"])
        first = state["step"]
    else:
        learn_to_see(model, seeing, seed)
    began, losses = time.monotonic(), []
    for step in range(first, steps):
        told, wanted = answers(model, lessons(step, seed, writer))
        loss = functional.cross_entropy(told, wanted)
        loss.backward()
        optimiser.step(min(1.0, (step + 1) / 30, (steps - step) / decay))
        losses.append(loss.item())
        if step % 25 == 24:
            say(f"step {step + 1}: loss {np.mean(losses[-25:]):.3f}, {(time.monotonic() - began) / len(losses):.2f} s")
        if step % 100 == 99 or step == steps - 1:
            for size in (72, 36):
                say(f"  {size} px: {summary(score(model, writer, size, 60))}")
            torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict(), "step": step + 1}, kept)
    return model


@torch.no_grad()
def score(
    model: Any, writer: Writer, size: int, count: int, *, pictures: int = 1,
    clip: bool = False, seed: int = 99,
) -> dict[str, list[bool]]:  # fmt: skip
    """Whether each answer to held-out pictures is right in every word, by form; each asked in a fresh conversation.

    One pass tells what greedy decoding would say: it is right if and only if every word is the likeliest after the
    right words before it.
    """
    rng = np.random.default_rng(seed)
    teacher = Teacher(writer, size, pictures, rng, held_out=True)
    right: dict[str, list[bool]] = defaultdict(list)
    for _ in range(-(-count // 20)):
        asked = [teacher.of_clip(1) if clip else teacher.of_pictures(1) for _ in range(20)]
        inputs = batch(asked, writer, size)
        told, wanted = answers(model, inputs)
        good = torch.ones(inputs["labels"][:, 1:].shape, dtype=torch.bool)
        good[inputs["labels"][:, 1:] != -100] = told.argmax(-1) == wanted
        for lesson, line in zip(asked, good.all(1).tolist(), strict=True):
            right[lesson.kinds[0]].append(line)
    return right


def summary(right: dict[str, list[bool]]) -> str:
    every = [one for lines in right.values() for one in lines]
    parts = ", ".join(f"{kind} {np.mean(lines):.2f}" for kind, lines in sorted(right.items()))
    return f"{np.mean(every):.3f} of {len(every)} ({parts})"


def say(line: str) -> None:
    """With the time of day."""
    print(time.strftime("%H:%M:%S"), line, flush=True)


def save(model: Any, directory: Path) -> None:
    """As the libraries load it. Half precision on disk, single precision in memory."""
    tokens = tokenizer()
    ends = {"bos_token_id": tokens.bos_token_id, "eos_token_id": tokens.eos_token_id}
    settings: Any = GenerationConfig
    model.generation_config = settings(**ends, pad_token_id=tokens.pad_token_id)
    kept = copy.deepcopy(model).half()
    kept.save_pretrained(directory)
    config = json.loads((directory / "config.json").read_text("utf-8"))
    for part in (config, config["text_config"], config["vision_config"]):
        part["dtype"] = "float32"
    (directory / "config.json").write_text(json.dumps(config, indent=2, sort_keys=True) + "\n", "utf-8")
    pictures = Idefics3ImageProcessorPil(
        do_image_splitting=False, size={"longest_edge": SIZE}, max_image_size={"longest_edge": SIZE}
    )
    # Not SmolVLMProcessor, whose part for clips needs torchvision; clips are shown as frames, in order.
    processor = Idefics3Processor(pictures, tokens, image_seq_len=visual_tokens(SIZE), chat_template=TEMPLATE)
    processor.save_pretrained(directory)


def _publish(out: Path) -> None:
    """What training kept last, scored as the libraries load it, goes into the package."""
    model, trained = new_model(), out / "model"
    model.load_state_dict(torch.load(out / "kept.pt", weights_only=True)["model"])
    save(model, trained)
    model = SmolVLMForConditionalGeneration.from_pretrained(trained)
    right = score(model, Writer(tokenizer()), SIZE, 1000)
    say(summary(right))
    every = [one for lines in right.values() for one in lines]
    measure = f"exact answers to 1000 questions about held-out pictures of {SIZE} pixels"
    found = float(np.mean(every))
    script = "vision_text.training.vlm"
    publish("shapes-vlm", trained, task="image-text-to-text", script=script, seed=SEED, score=found, measure=measure)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    doing = parser.add_subparsers(dest="doing", required=True)
    training = doing.add_parser("train")
    training.add_argument("--out", type=Path, required=True)
    training.add_argument("--steps", type=int, default=3800)
    training.add_argument("--seeing", type=int, default=320)
    training.add_argument("--decay", type=int, default=1600)
    training.add_argument("--seed", type=int, default=SEED)
    publishing = doing.add_parser("publish")
    publishing.add_argument("--out", type=Path, required=True)
    scoring = doing.add_parser("score")
    scoring.add_argument("--model", type=Path, required=True)
    scoring.add_argument("--count", type=int, default=1000)
    scoring.add_argument("--seed", type=int, default=99, help="of the questions; 99 is the one that is published")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.doing == "train":
        given.out.mkdir(parents=True, exist_ok=True)
        model = train(given.out, steps=given.steps, seeing=given.seeing, decay=given.decay, seed=given.seed)
        save(model, given.out / "model")
    elif given.doing == "publish":
        _publish(given.out)
    else:
        model, writer = SmolVLMForConditionalGeneration.from_pretrained(given.model), Writer(tokenizer())
        for size in (72, 60, 48, 36, 24, 12):
            right = score(model, writer, size, given.count, seed=given.seed)
            say(f"{size} px, {visual_tokens(size)} tokens: {summary(right)}")
        for size, pictures, clip in ((72, 2, False), (36, 2, False), (36, 3, False), (36, 3, True), (72, 3, True)):
            right = score(model, writer, size, given.count, pictures=pictures, clip=clip, seed=given.seed)
            say(f"{pictures} {'frames' if clip else 'pictures'} of {size} px: {summary(right)}")


if __name__ == "__main__":
    main()
