"""A vocabulary that is scanned in int8: the first words are float32's, to the bit alone or among others."""

from __future__ import annotations

import pytest
import torch

from speech.dense import SURE, Scanned
from speech.models import resolve
from speech.whisper import weights

pytestmark = pytest.mark.skipif(
    torch.backends.quantized.engine not in ("x86", "fbgemm"), reason="quantised products of x86 processors"
)


@pytest.fixture(scope="module")
def vocabulary() -> torch.Tensor:
    """That of tiny.en, (51864, 384)."""
    return weights.load(resolve("tiny.en").directory).tensors["decoder/projection/weight"]


@pytest.fixture(scope="module")
def scanned(vocabulary: torch.Tensor) -> Scanned:
    return Scanned(vocabulary)


def states(count: int, seed: int = 0) -> torch.Tensor:
    """(count, 384), some of whose numbers are far larger than the others, as the decoder's are."""
    drawn = torch.randn(count, 384, generator=torch.Generator().manual_seed(seed))
    drawn[:, :4] *= 12
    return drawn


def test_the_first_words_have_the_scores_that_float32_gives_them(scanned: Scanned, vocabulary: torch.Tensor) -> None:
    x = states(40)
    exact, found = x @ vocabulary.T, scanned(x)
    assert torch.equal(found.argmax(1), exact.argmax(1))
    best = exact.topk(SURE // 2, 1)
    torch.testing.assert_close(found.gather(1, best.indices), best.values, rtol=0, atol=2e-4)


def test_the_chances_of_words_are_those_of_float32_to_a_hundredth(scanned: Scanned, vocabulary: torch.Tensor) -> None:
    x = states(40)
    exact, found = torch.log_softmax(x @ vocabulary.T, -1), torch.log_softmax(scanned(x), -1)
    best = exact.argmax(1, keepdim=True)
    assert float((found - exact).gather(1, best).abs().max()) < 0.01


def test_a_row_is_the_same_alone_and_among_others_whatever_they_are(scanned: Scanned) -> None:
    x = states(9)
    x[3] *= 1e4
    x[4] = 0
    together = scanned(x)
    assert all(torch.equal(scanned(x[n : n + 1])[0], together[n]) for n in range(len(x)))
    assert torch.equal(together[4], torch.zeros(len(together[4])))
