"""The checker of clips against drawn ones, and against clips that are wrong in one thing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from vision_text.scenes.clips import (
    DIRECTIONS,
    HELD_OUT,
    PACES,
    Scene,
    check,
    combinations,
    draw,
    parse,
    prompt,
    random_scene,
    see,
)
from vision_text.scenes.pictures import COLOURS, GROUND

RED_LEFT = Scene("red", "left", "quickly")


@pytest.mark.parametrize(("size", "frames"), [(16, 8), (24, 8), (24, 3), (24, 25), (33, 9), (64, 8), (128, 5)])
def test_what_is_drawn_is_right(size: int, frames: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(20):
        scene = random_scene(rng)
        assert check(draw(scene, size, frames), scene).all_right, scene


def test_all_combinations_are_seen_as_what_they_are() -> None:
    for scene in combinations():
        seen = see(draw(scene))
        assert (seen.whole, seen.colour, seen.direction, seen.pace) == (
            True,
            scene.colour,
            scene.direction,
            scene.pace,
        )


@pytest.mark.parametrize(
    ("drawn", "right"),
    [
        (replace(RED_LEFT, colour="yellow"), (True, False, True, True)),
        (replace(RED_LEFT, direction="right"), (True, True, False, True)),
        (replace(RED_LEFT, direction="up"), (True, True, False, True)),
        (replace(RED_LEFT, pace="slowly"), (True, True, True, False)),
    ],
)
def test_one_thing_wrong_is_found(drawn: Scene, right: tuple[bool, ...]) -> None:
    found = check(draw(drawn), RED_LEFT)
    assert (found.whole, found.colour_right, found.direction_right, found.pace_right) == right
    assert not found.all_right


def test_a_clip_run_backwards_moves_the_other_way() -> None:
    assert see(draw(RED_LEFT)[::-1]).direction == "right"


def test_a_ball_that_is_missing_in_one_frame_moves_nowhere() -> None:
    clip = draw(RED_LEFT)
    clip[3] = GROUND
    found = check(clip, RED_LEFT)
    assert (found.whole, found.colour_right, found.direction_right) == (False, True, False)


def test_a_ball_of_another_colour_in_one_frame_has_no_colour() -> None:
    clip = draw(RED_LEFT)
    clip[3] = draw(replace(RED_LEFT, colour="blue"))[3]
    found = check(clip, RED_LEFT)
    assert (found.whole, found.colour_right, found.direction_right) == (True, False, True)


@pytest.mark.parametrize(
    "order",
    [
        [0] * 8,
        [0, 1, 2, 3, 3, 2, 1, 0],
        [7, 1, 2, 3, 4, 5, 6, 0],
        [0, 0, 0, 0, 7, 7, 7, 7],
        [0, 4, 1, 6, 2, 7, 3, 5],
    ],
)
def test_a_ball_that_stands_turns_back_or_jumps_has_no_direction(order: list[int]) -> None:
    seen = see(draw(RED_LEFT)[order])
    assert (seen.whole, seen.colour, seen.direction, seen.pace) == (True, "red", None, None)


def test_a_ball_that_drifts_to_the_side_has_no_direction() -> None:
    clip = draw(Scene("red", "right", "slowly"), 48)
    tilted = np.stack([np.roll(frame, 2 * number - 7, axis=0) for number, frame in enumerate(clip)])
    assert see(tilted).direction is None


def test_two_balls_are_not_one() -> None:
    clip = np.maximum(draw(RED_LEFT), draw(replace(RED_LEFT, direction="right")))
    assert not see(clip).whole


def test_a_smeared_ball_is_not_round() -> None:
    clip = draw(RED_LEFT)
    trail = np.maximum.reduce([clip, np.roll(clip, 2, axis=2), np.roll(clip, 4, axis=2)])
    assert not see(trail).whole


@pytest.mark.parametrize("value", [0, 24, 128, 255])
def test_constant_clips_are_wrong(value: int) -> None:
    seen = see(np.full((8, 24, 24, 3), value, np.uint8))
    assert (seen.whole, seen.colour, seen.direction, seen.pace) == (False, None, None, None)


def test_noise_is_wrong() -> None:
    rng = np.random.default_rng(0)
    assert not check(rng.integers(0, 256, (8, 24, 24, 3), dtype=np.uint8), RED_LEFT).all_right


def test_a_little_noise_is_forgiven() -> None:
    rng = np.random.default_rng(0)
    for scene in (random_scene(rng) for _ in range(50)):
        noisy = draw(scene).astype(np.float32) + rng.normal(0, 6, (8, 24, 24, 3))
        assert check(noisy.clip(0, 255).astype(np.uint8), scene).all_right


@pytest.mark.parametrize(
    "clip",
    [
        np.zeros((8, 24, 24, 3), np.float32),
        np.zeros((24, 24, 3), np.uint8),
        np.zeros((8, 24, 24, 4), np.uint8),
        np.zeros((8, 24, 32, 3), np.uint8),
        np.zeros((2, 24, 24, 3), np.uint8),
        np.zeros((8, 8, 8, 3), np.uint8),
    ],
)
def test_what_is_no_clip_of_a_ball_is_refused(clip: np.ndarray) -> None:
    with pytest.raises(ValueError, match="clip"):
        see(clip)


def test_words_and_back() -> None:
    assert prompt(RED_LEFT) == "a red ball moves left quickly"
    for scene in combinations():
        assert parse(prompt(scene)) == scene


@pytest.mark.parametrize("text", ["", "a red ball", "a pink ball moves left slowly", "x" * 10**6])
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ball"):
        parse(text)


def test_a_part_of_the_combinations_is_held_out_and_every_word_is_learned() -> None:
    scenes = list(combinations())
    assert len(scenes) == len(COLOURS) * len(DIRECTIONS) * len(PACES) == 40
    told = [scene for scene in scenes if not scene.held_out]
    assert abs(len(told) / len(scenes) - (1 - HELD_OUT)) < 0.1
    for names, field in ((COLOURS, "colour"), (DIRECTIONS, "direction"), (PACES, "pace")):
        assert {getattr(scene, field) for scene in told} == set(names)


@pytest.mark.parametrize("held_out", [False, True])
def test_random_scenes_keep_to_their_part_and_can_be_made_again(held_out: bool) -> None:
    first, again = (random_scene(np.random.default_rng(5), held_out=held_out) for _ in range(2))
    assert (first, first.offset, first.radius) == (again, again.offset, again.radius)
    rng = np.random.default_rng(6)
    assert all(random_scene(rng, held_out=held_out).held_out == held_out for _ in range(50))
