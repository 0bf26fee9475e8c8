"""The small vision-language model as the library itself loads it: right answers, and the ways to ask."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    AutoProcessor,
    AutoTokenizer,
    SmolVLMForConditionalGeneration,
)

from vision_text.scenes.grids import (
    ask,
    draw,
    draw_clip,
    questions,
    questions_of_clip,
    questions_of_several,
    random_clip,
    random_grid,
)
from vision_text.small import small_model, small_models
from vision_text.training.muon import orthogonal
from vision_text.training.vlm import lessons, new_model, score
from vision_text.training.vlm_draft import right_words
from vision_text.training.vlm_lessons import visual_tokens
from vision_text.training.vlm_words import UNKNOWN, Writer, tokenizer

NAME = "shapes-vlm"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def model() -> Any:
    return AutoModelForImageTextToText.from_pretrained(small_model(NAME)).eval()


@pytest.fixture(scope="module")
def processor() -> Any:
    return AutoProcessor.from_pretrained(small_model(NAME))


def asked(processor: Any, *turns: tuple[list[np.ndarray], str], answers: tuple[str, ...] = ()) -> Any:
    """What the model takes: turns with their pictures, and the answers to all but the last."""
    talk: list[dict[str, Any]] = []
    for number, (pictures, text) in enumerate(turns):
        shown = [{"type": "image", "image": picture} for picture in pictures]
        talk.append({"role": "user", "content": [*shown, {"type": "text", "text": text}]})
        if number < len(answers):
            talk.append({"role": "assistant", "content": [{"type": "text", "text": f" {answers[number]}"}]})
    return processor.apply_chat_template(
        talk, add_generation_prompt=True, tokenize=True, return_dict=True, return_tensors="pt"
    )


def told(model: Any, processor: Any, inputs: Any, **how: Any) -> str:
    """By the library's own greedy decoding."""
    made = model.generate(**inputs, max_new_tokens=40, do_sample=False, **how)
    return str(processor.decode(made[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True))


def said(model: Any, processor: Any, *turns: tuple[list[np.ndarray], str], answers: tuple[str, ...] = ()) -> str:
    return told(model, processor, asked(processor, *turns, answers=answers))


def of(right: dict[str, list[bool]]) -> float:
    return float(np.mean([one for lines in right.values() for one in lines]))


def test_it_is_of_the_class_that_production_uses_and_in_single_precision(model: Any) -> None:
    assert isinstance(model, SmolVLMForConditionalGeneration)
    assert {weight.dtype for weight in model.parameters()} == {torch.float32}


def test_answers_about_held_out_pictures_are_right_in_every_word(model: Any) -> None:
    right = score(model, Writer(tokenizer()), 72, 300, seed=4)
    assert of(right) >= small_models()[NAME].score - 0.05, {form: np.mean(lines) for form, lines in right.items()}


def test_fewer_visual_tokens_are_worse_little_by_little(model: Any) -> None:
    found = {size: of(score(model, Writer(tokenizer()), size, 120, seed=5)) for size in (72, 36, 24, 12)}
    assert found[36] >= 0.75 and found[72] >= found[36] - 0.05, found
    assert 0.2 < found[12] < found[24] < found[36] - 0.1, found


def test_generating_says_what_the_score_counts(model: Any, processor: Any) -> None:
    rng = np.random.default_rng(8)
    right: list[bool] = []
    for _ in range(8):
        grid = random_grid(rng, held_out=True)
        for question in ask(rng, questions(grid), 2):
            right.append(said(model, processor, ([draw(grid)], question.text)) == question.answer)
    assert np.mean(right) >= 0.7, right


def test_several_pictures_in_order(model: Any, processor: Any) -> None:
    right = score(model, Writer(tokenizer()), 72, 120, pictures=2, seed=6)
    assert of(right) >= 0.4, {form: np.mean(lines) for form, lines in right.items()}
    rng, found = np.random.default_rng(9), []
    for _ in range(8):
        grids = [random_grid(rng, held_out=True, most=3) for _ in range(2)]
        question = ask(rng, questions_of_several(grids), 1)[0]
        found.append(said(model, processor, ([draw(grid) for grid in grids], question.text)) == question.answer)
    assert sum(found) >= 3


def test_clips_as_frames_in_order(model: Any, processor: Any) -> None:
    right = score(model, Writer(tokenizer()), 36, 120, pictures=3, clip=True, seed=7)
    assert of(right) >= 0.5, {form: np.mean(lines) for form, lines in right.items()}
    rng, found = np.random.default_rng(10), []
    for _ in range(8):
        clip = random_clip(rng, held_out=True)
        question = ask(rng, questions_of_clip(clip), 1)[0]
        found.append(said(model, processor, (list(draw_clip(clip, 3)), question.text)) == question.answer)
    assert sum(found) >= 3


def test_another_picture_gives_other_answers_and_an_earlier_turn_is_heard(model: Any, processor: Any) -> None:
    rng = np.random.default_rng(11)
    one, other = random_grid(rng, held_out=True, most=3), random_grid(rng, held_out=True, most=3)
    describe = "describe the picture."
    assert said(model, processor, ([draw(one)], describe)) != said(model, processor, ([draw(other)], describe))
    first, follow = (f"{len(one.objects)}",), f"what is at the {one.objects[0].place}?"
    turns = (([draw(one)], "how many objects are there?"), ([], follow))
    assert said(model, processor, *turns, answers=first) == one.objects[0].name


@pytest.mark.parametrize("size", [72, 36, 24, 12])
def test_the_processor_writes_what_the_model_was_trained_on(processor: Any, size: int) -> None:
    writer, tokens = Writer(processor.tokenizer), visual_tokens(size)
    picture = draw(random_grid(np.random.default_rng(2)))
    text = processor.apply_chat_template(
        [{"role": "user", "content": [{"type": "image"}, {"type": "text", "text": "What is at the Centre?"}]}],
        add_generation_prompt=True,
    )
    made = processor(
        text=text, images=[picture], max_image_size={"longest_edge": size}, image_seq_len=processor.image_seq_len
    )
    ids, learned = writer.conversation([([*writer.picture(36), *writer.ids("what is at the centre?")], "red circle")])
    assert made["input_ids"][0] == ids[: learned.index(True)]
    assert np.asarray(made["pixel_values"]).shape[-2:] == (size, size)
    assert writer.picture(tokens).count(writer.ids("<image>")[0]) == tokens


def test_every_word_of_questions_answers_and_clip_introductions_is_known() -> None:
    tokens, rng = tokenizer(), np.random.default_rng(3)
    unknown = tokens.convert_tokens_to_ids(UNKNOWN)
    for _ in range(40):
        grids, clip = [random_grid(rng) for _ in range(3)], random_clip(rng)
        for question in (*questions_of_several(grids), *questions_of_clip(clip)):
            ids = tokens(f"{question.text} {question.answer}")["input_ids"]
            assert unknown not in ids
    assert tokens.decode(tokens("red circle top left and 2")["input_ids"]) == "red circle top left and 2"
    assert unknown in tokens("a purple giraffe")["input_ids"]


def test_training_shows_no_held_out_picture_and_is_the_same_from_run_to_run() -> None:
    writer = Writer(tokenizer())
    for step in (0, 500, 1501):
        one, again = lessons(step, 1, writer), lessons(step, 1, writer)
        assert all(torch.equal(one[name], again[name]) for name in one)
        assert (one["labels"] != -100).any(1).all()
    torch.manual_seed(0)
    first = new_model()
    torch.manual_seed(0)
    assert all(torch.equal(a, b) for a, b in zip(first.parameters(), new_model().parameters(), strict=True))


def test_the_draft_has_the_same_words_and_changes_no_answer(model: Any, processor: Any) -> None:
    home = small_model("shapes-vlm-draft")
    draft: Any = AutoModelForCausalLM.from_pretrained(home).eval()
    assert AutoTokenizer.from_pretrained(home).get_vocab() == processor.tokenizer.get_vocab()
    assert right_words(draft) == pytest.approx(small_models()["shapes-vlm-draft"].score, abs=0.02)
    inputs = asked(processor, ([draw(random_grid(np.random.default_rng(12), held_out=True))], "describe the picture."))
    assert told(model, processor, inputs, assistant_model=draft) == told(model, processor, inputs)


def test_matrices_of_one_shape_are_orthogonalised_each_for_itself() -> None:
    torch.manual_seed(1)
    given = torch.randn(3, 16, 40)
    made = orthogonal(given)
    assert torch.allclose(made[1], orthogonal(given[1:2])[0], atol=1e-5)
    assert torch.linalg.svdvals(made).sub(1).abs().max() < 0.5
    assert torch.allclose(orthogonal(given.transpose(1, 2)), made.transpose(1, 2), atol=1e-5)
