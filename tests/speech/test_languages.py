"""Which languages may be asked of a model, wherever a client asks."""

from __future__ import annotations

import pytest

from speech.engine import ModelInfo
from speech.languages import check_language
from workers.errors import InputInvalid

MODELS = [
    ModelInfo("english", "asr", ("en",), ()),
    ModelInfo("all", "asr", ("*",), ()),
    ModelInfo("unknown", "asr", (), ()),
    ModelInfo("many", "asr", tuple(f"x{n}" for n in range(20)), ()),
]


@pytest.mark.parametrize(
    ("model", "language", "refused"),
    [
        ("english", None, None),
        ("english", "en", None),
        ("english", "de", "The model english knows en, not de."),
        ("all", "de", None),
        ("unknown", "de", None),
        ("nobody", "de", None),
        ("many", "x19", None),
        ("many", "de", "x7 and 12 more, not de."),
    ],
)
def test_a_language_that_a_model_does_not_know_is_refused(
    model: str, language: str | None, refused: str | None
) -> None:
    if refused is None:
        check_language(MODELS, model, language)
        return
    with pytest.raises(InputInvalid) as caught:
        check_language(MODELS, model, language)
    assert refused in caught.value.message
    assert caught.value.param == "language"
