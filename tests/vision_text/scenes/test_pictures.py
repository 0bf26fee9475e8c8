"""The checker against drawn pictures, and against pictures that are wrong in one thing."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from vision_text.scenes.pictures import (
    COLOURS,
    GROUND,
    HELD_OUT,
    PLACES,
    SHAPES,
    Object,
    Scene,
    check,
    combinations_of,
    draw,
    parse,
    prompt,
    random_scene,
    see,
)

RED_CIRCLE = Object("red", "circle", "top left")
BLUE_SQUARE = Object("blue", "square", "bottom right")
BOTH = Scene((RED_CIRCLE, BLUE_SQUARE))


@pytest.mark.parametrize("size", [24, 33, 48, 64, 128])
def test_what_is_drawn_is_right(size: int) -> None:
    rng = np.random.default_rng(size)
    for _ in range(150):
        scene = random_scene(rng)
        assert check(draw(scene, size), scene).all_right, scene


def test_all_single_objects_are_seen_as_what_they_are() -> None:
    for scene in combinations_of(1):
        (one,) = scene.objects
        (seen,) = see(draw(scene))
        assert (seen.place, seen.colour, seen.shape) == (one.place, one.colour, one.shape)


@pytest.mark.parametrize(
    ("drawn", "right"),
    [
        (Scene((replace(RED_CIRCLE, colour="green"), BLUE_SQUARE)), (False, True, True)),
        (Scene((replace(RED_CIRCLE, shape="triangle"), BLUE_SQUARE)), (True, False, True)),
        (Scene((replace(RED_CIRCLE, place="top right"), BLUE_SQUARE)), (False, False, False)),
        (Scene((RED_CIRCLE,)), (False, False, False)),
        # The attributes of the two changed about: each word is in the picture, but on the wrong object.
        (Scene((replace(RED_CIRCLE, colour="blue"), replace(BLUE_SQUARE, colour="red"))), (False, True, True)),
        (Scene((replace(RED_CIRCLE, shape="square"), replace(BLUE_SQUARE, shape="circle"))), (True, False, True)),
    ],
)
def test_one_thing_wrong_is_found(drawn: Scene, right: tuple[bool, bool, bool]) -> None:
    found = check(draw(drawn), BOTH)
    assert (found.colours_right, found.shapes_right, found.places_right) == right
    assert not found.all_right


def test_an_object_that_nobody_asked_for_is_found() -> None:
    found = check(draw(BOTH), Scene((RED_CIRCLE,)))
    assert (found.colours_right, found.shapes_right, found.places_right) == (True, True, False)


def test_the_order_of_the_objects_does_not_matter() -> None:
    assert check(draw(BOTH), Scene((BLUE_SQUARE, RED_CIRCLE))).all_right


def test_an_object_of_two_colours_has_no_colour() -> None:
    picture = draw(BOTH)
    picture[: 48 // 4, :24] = draw(Scene((replace(RED_CIRCLE, colour="green"),)))[: 48 // 4, :24]
    found = check(picture, BOTH)
    assert (found.colours_right, found.places_right) == (False, True)


def test_a_colour_between_two_is_none() -> None:
    picture = draw(Scene((RED_CIRCLE,)))
    orange = (232, 128, 48)
    picture[picture[..., 0] > 200] = orange
    assert [seen.colour for seen in see(picture)] == [None]


@pytest.mark.parametrize("shape", SHAPES)
def test_a_smeared_object_has_no_shape(shape: str) -> None:
    scene = Scene((replace(RED_CIRCLE, shape=shape),))
    picture = draw(scene).astype(np.float32)
    for _ in range(12):
        picture = sum(np.roll(picture, (dy, dx), (0, 1)) for dy in (-1, 0, 1) for dx in (-1, 0, 1)) / 9
    found = check(picture.astype(np.uint8), scene)
    assert found.places_right
    assert not found.shapes_right


def test_a_bite_out_of_an_object_is_found() -> None:
    picture = draw(Scene((BLUE_SQUARE,)))
    picture[36:, 36:] = GROUND
    assert not check(picture, Scene((BLUE_SQUARE,))).shapes_right


@pytest.mark.parametrize("value", [0, 24, 128, 255])
def test_constant_pictures_are_wrong(value: int) -> None:
    assert not check(np.full((48, 48, 3), value, np.uint8), BOTH).all_right


def test_noise_is_wrong() -> None:
    rng = np.random.default_rng(0)
    assert not check(rng.integers(0, 256, (48, 48, 3), dtype=np.uint8), BOTH).all_right


def test_a_little_noise_is_forgiven() -> None:
    rng = np.random.default_rng(0)
    for scene in (random_scene(rng) for _ in range(50)):
        noisy = draw(scene).astype(np.float32) + rng.normal(0, 6, (48, 48, 3))
        assert check(noisy.clip(0, 255).astype(np.uint8), scene).all_right


@pytest.mark.parametrize(
    "picture",
    [
        np.zeros((48, 48, 3), np.float32),
        np.zeros((48, 48), np.uint8),
        np.zeros((48, 48, 4), np.uint8),
        np.zeros((48, 32, 3), np.uint8),
        np.zeros((8, 8, 3), np.uint8),
    ],
)
def test_what_is_no_picture_of_a_scene_is_refused(picture: np.ndarray) -> None:
    with pytest.raises(ValueError, match="picture"):
        see(picture)


def test_words_and_back() -> None:
    assert prompt(BOTH) == "a red circle top left, a blue square bottom right"
    rng = np.random.default_rng(0)
    for scene in (random_scene(rng) for _ in range(100)):
        back = parse(prompt(scene))
        assert [(one.colour, one.shape, one.place) for one in back.objects] == [
            (one.colour, one.shape, one.place) for one in scene.objects
        ]


@pytest.mark.parametrize(
    "text", ["", "a red circle", "a pink circle top left", "a red circle top left, a blue square top left", "x" * 10**6]
)
def test_other_words_are_refused(text: str) -> None:
    with pytest.raises(ValueError, match="object"):
        parse(text)


@pytest.mark.parametrize("objects", [(), (RED_CIRCLE, RED_CIRCLE), (RED_CIRCLE, BLUE_SQUARE, BLUE_SQUARE)])
def test_a_scene_has_one_or_two_objects_in_quarters_of_their_own(objects: tuple[Object, ...]) -> None:
    with pytest.raises(ValueError, match="scene"):
        Scene(objects)


def test_a_fifth_of_the_combinations_is_held_out_whichever_object_is_told_first() -> None:
    scenes = [*combinations_of(1), *combinations_of(2)]
    assert len(scenes) == 60 + 1350
    held_out = [scene for scene in scenes if scene.held_out]
    assert abs(len(held_out) / len(scenes) - HELD_OUT) < 0.02
    assert all(Scene(scene.objects[::-1]).held_out for scene in held_out)
    told = [one for scene in scenes if not scene.held_out for one in scene.objects]
    assert {one.colour for one in told} == set(COLOURS)
    assert {(one.shape, one.place) for one in told} == {(shape, place) for shape in SHAPES for place in PLACES}


@pytest.mark.parametrize("held_out", [False, True])
def test_random_scenes_keep_to_their_part_and_can_be_made_again(held_out: bool) -> None:
    scenes = [random_scene(np.random.default_rng(5), held_out=held_out) for _ in range(2)]
    assert scenes[0] == scenes[1]
    rng = np.random.default_rng(6)
    some = list(islice(iter(lambda: random_scene(rng, held_out=held_out), None), 100))
    assert all(scene.held_out == held_out for scene in some)
    assert {len(scene.objects) for scene in some} == {1, 2}
