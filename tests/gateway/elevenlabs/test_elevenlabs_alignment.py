"""Characters of pieces of sound, from times of words."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from gateway.elevenlabs.alignment import Aligner, TimedCharacter, in_milliseconds
from speech.speaking.events import SpokenWord


def word(text: str, first: int, start: float, end: float) -> SpokenWord:
    return SpokenWord(text, first, first + len(text), start, end)


def shown(characters: list[TimedCharacter]) -> list[tuple[str, float, float]]:
    return [(character, round(start, 3), round(end, 3)) for character, start, end in characters]


def test_a_word_is_spread_and_a_piece_is_filled() -> None:
    aligner = Aligner()
    aligner.text("Hi you. ")
    aligner.words([word("Hi", 0, 0.1, 0.3)])
    assert shown(aligner.take(0.0, 0.2)) == [("H", 0.1, 0.2)]
    aligner.words([word("you", 3, 0.35, 0.65)])
    assert shown(aligner.take(0.2, 0.5)) == [("i", 0.2, 0.3), (" ", 0.3, 0.35), ("y", 0.35, 0.45), ("o", 0.45, 0.5)]
    assert shown(aligner.take(0.5, 0.8)) == [("u", 0.55, 0.65), (".", 0.65, 0.8)]
    assert shown(aligner.take(0.8, 1.0)) == [(" ", 0.8, 1.0)], "a pause has the space that was kept for it"
    assert aligner.take(1.0, 1.1) == []


def test_times_on_a_socket_begin_with_the_piece() -> None:
    characters = [TimedCharacter("a", 1.25, 1.3), TimedCharacter("b", 1.3, 1.5)]
    assert in_milliseconds(characters, 1.2) == {
        "chars": ["a", "b"], "charStartTimesMs": [50, 100], "charDurationsMs": [50, 200],
    }  # fmt: skip
    assert in_milliseconds([], 1.2) is None


@given(
    st.lists(
        st.tuples(st.text("ab.$ é\n", min_size=1, max_size=6), st.floats(0.02, 1.0), st.floats(0.0, 0.4)), max_size=8
    )
)
def test_every_character_comes_once_and_time_goes_on(parts: list[tuple[str, float, float]]) -> None:
    aligner, first, moment, words = Aligner(), 0, 0.0, []
    for text, seconds, pause in parts:
        aligner.text(text)
        stripped = text.strip()
        if stripped:
            words.append(word(stripped, first + text.index(stripped[0]), moment, moment + seconds))
            moment += seconds + pause
        first += len(text)
    given_text = "".join(part[0] for part in parts)
    heard: list[TimedCharacter] = []
    number = 0
    while number * 0.25 < moment:
        start, end = number * 0.25, number * 0.25 + 0.25
        new = [w for w in words if start <= w.start < end]
        aligner.words(new)
        taken = aligner.take(start, end)
        assert all(start - 1e-9 <= character.start < end for character in taken)
        assert not taken or taken[-1].end == end
        heard += taken
        number += 1
    assert given_text.startswith("".join(character.character for character in heard))
    if words:
        assert len(heard) >= words[-1].end_char
    assert all(one.start <= other.start for one, other in itertools.pairwise(heard))
