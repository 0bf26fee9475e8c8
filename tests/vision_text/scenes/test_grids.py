"""Pictures and clips of grids: every question has the answer that the picture bears out."""

from __future__ import annotations

import numpy as np
import pytest

from vision_text.scenes.grids import (
    DIRECTIONS,
    HELD_OUT,
    KINDS,
    PLACES,
    SIDE,
    Clip,
    Grid,
    Object,
    ask,
    draw,
    draw_clip,
    questions,
    questions_of_clip,
    questions_of_several,
    random_clip,
    random_grid,
)
from vision_text.scenes.pictures import COLOURS, GROUND


def grid(*objects: tuple[str, str, str]) -> Grid:
    return Grid(tuple(Object(colour, shape, PLACES.index(place)) for colour, shape, place in objects))


TWO = grid(("red", "circle", "top left"), ("red", "square", "right"))
OTHER = grid(("blue", "triangle", "centre"))


def answers(among: list) -> dict[str, str]:
    told = {question.text: question.answer for question in among}
    assert len(told) == len(among), "no question is asked twice"
    return told


def test_answers_about_one_picture() -> None:
    told = answers(questions(TWO))
    assert told["describe the picture."] == "red circle top left and red square right"
    assert told["what is at the right?"] == "red square"
    assert told["what is at the centre?"] == "nothing"
    assert told["what colour is the object at the top left?"] == "red"
    assert told["what shape is the object at the right?"] == "square"
    assert "what shape is the object at the centre?" not in told
    assert told["how many objects are there?"] == told["how many red objects are there?"] == "2"
    assert told["how many white objects are there?"] == "0"
    assert (told["is there a red square?"], told["is there a blue square?"]) == ("yes", "no")
    assert (told["where is the red circle?"], told["where is the white circle?"]) == ("top left", "nowhere")


def test_answers_about_several_pictures_follow_their_order() -> None:
    told, turned = answers(questions_of_several([TWO, OTHER])), answers(questions_of_several([OTHER, TWO]))
    assert told["in picture 2, what is at the centre?"] == turned["in picture 1, what is at the centre?"]
    assert told["which picture has a blue triangle?"] == "picture 2"
    assert turned["which picture has a blue triangle?"] == "picture 1"
    assert "which picture has a green circle?" not in told
    assert "which picture has a red circle?" not in answers(questions_of_several([TWO, TWO]))


def test_answers_about_clips() -> None:
    clip = Clip(TWO, "red circle", "down", 2)
    told = answers(questions_of_clip(clip))
    assert (told["what moves?"], told["which way does the red circle move?"]) == ("red circle", "down")
    assert told["which way does the red square move?"] == "nowhere"
    assert told["where is the red circle at the start?"] == "top left"
    assert told["where is the red circle at the end?"] == "bottom left"
    assert np.array_equal(draw_clip(clip, 2)[-1], draw(clip.grid(2)))
    assert [len(np.unique(draw_clip(clip, frames), axis=0)) for frames in (2, 3, 9)] == [2, 3, 3]


def test_a_mover_neither_leaves_nor_meets() -> None:
    with pytest.raises(ValueError, match="leaves"):
        Clip(TWO, "red circle", "up").grid(1)
    with pytest.raises(ValueError, match="one a cell"):
        Clip(grid(("red", "circle", "left"), ("red", "square", "right")), "red circle", "right").grid(2)
    with pytest.raises(ValueError, match="two frames"):
        draw_clip(Clip(TWO, "red circle", "down"), 1)


@pytest.mark.parametrize("size", [24, 36, 72, 100])
def test_each_object_is_drawn_in_its_own_cell(size: int) -> None:
    rng = np.random.default_rng(3)
    for _ in range(12):
        one = random_grid(rng)
        picture = draw(one, size)
        assert picture.shape == (size, size, 3) and picture.dtype == np.uint8
        edges = np.rint(np.linspace(0, size, SIDE + 1)).astype(int)
        for cell in range(SIDE * SIDE):
            row, column = divmod(cell, SIDE)
            part = picture[edges[row] : edges[row + 1], edges[column] : edges[column + 1]].astype(int)
            found, ground = one.at(cell), np.abs(part - GROUND).sum(-1) < 100
            if found is None:
                assert ground.mean() > 0.9
            else:
                middle = part[part.shape[0] // 2, part.shape[1] // 2]
                assert np.abs(middle - COLOURS[found.colour]).max() <= 1, (found, middle)
                assert 0.3 < ground.mean() < 0.9


def test_the_three_shapes_differ_where_colour_and_place_are_the_same() -> None:
    pictures = [draw(grid(("red", shape, "centre")), 36).astype(int) for shape in ("circle", "square", "triangle")]
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (np.abs(pictures[one] - pictures[other]).sum(-1) > 60).sum() >= 4


def test_a_grid_refuses_what_would_make_a_question_ambiguous() -> None:
    red = [Object("red", "circle", cell) for cell in (0, 1)]
    with pytest.raises(ValueError, match="alike"):
        Grid(tuple(red))
    with pytest.raises(ValueError, match="one a cell"):
        Grid((red[1], Object("blue", "square", 0)))
    with pytest.raises(ValueError, match="one a cell"):
        Grid((Object("blue", "square", 9),))
    with pytest.raises(ValueError, match="kind"):
        Grid((Object("mauve", "square", 0),))


def test_held_out_is_a_property_of_what_is_shown_not_of_where_exactly_it_lies() -> None:
    rng = np.random.default_rng(0)
    share = np.mean([random_grid(rng).held_out for _ in range(2000)])
    assert HELD_OUT - 0.03 < share < HELD_OUT + 0.03
    one = random_grid(rng, held_out=True)
    moved = Grid(tuple(Object(each.colour, each.shape, each.cell) for each in one.objects))
    assert moved.held_out and one == moved
    assert not random_grid(rng, held_out=False).held_out
    assert random_clip(rng, held_out=True).held_out and not random_clip(rng, held_out=False).held_out


def test_everything_occurs_and_the_same_seed_gives_the_same() -> None:
    rng = np.random.default_rng(1)
    grids = [random_grid(rng) for _ in range(300)]
    assert {len(one.objects) for one in grids} == {1, 2, 3, 4, 5}
    assert {(each.colour, each.shape) for one in grids for each in one.objects} == set(KINDS)
    assert {random_clip(rng).direction for _ in range(60)} == set(DIRECTIONS)
    asked = [ask(np.random.default_rng(5), questions(grids[0]), 8) for _ in range(2)]
    assert asked[0] == asked[1] and len({question.text for question in asked[0]}) == len(asked[0]) > 3
