"""Where models run, as an operator writes it."""

from __future__ import annotations

import pytest

from speech.places import Place, kind, placed, places, usual


def names(wanted: str, gpus: int = 4) -> list[tuple[str, str]]:
    return [(place.name, place.torch_device) for place in places(wanted, lambda: gpus)]


def test_devices_as_they_are_asked_for() -> None:
    assert names("cpu", 0) == [("cpu", "cpu")]
    assert names("cpu:0, cpu:1", 0) == [("cpu:0", "cpu"), ("cpu:1", "cpu")]
    assert names("cuda:2") == [("cuda:2", "cuda:2")]
    assert names("cuda", 2) == [("cuda:0", "cuda:0"), ("cuda:1", "cuda:1")]
    assert names("cuda:0,cuda:2+cuda:3") == [("cuda:0", "cuda:0"), ("cuda:2+cuda:3", "cuda:2+cuda:3")]
    assert [place.group for place in places("cpu:0,cpu:1+cpu:2", lambda: 0)] == [False, True]
    assert places("cpu:0,cpu:1+cpu:2", lambda: 0)[1] == Place("cpu:1+cpu:2", ("cpu", "cpu"))


@pytest.mark.parametrize(
    ("wanted", "gpus", "reason"),
    [
        ("gpu:0", 1, 'there is no device "gpu:0"'),
        ("", 1, 'there is no device ""'),
        ("cuda:0,", 1, 'there is no device ""'),
        ("cuda:x", 1, 'there is no device "cuda:x"'),
        ("cuda:0", 0, "torch sees no GPU"),
        ("cuda:4", 4, "only cuda:0 to cuda:3"),
        ("cuda:0,cuda:1+cuda:4", 4, "only cuda:0 to cuda:3"),
        ("cuda:0,cuda:0", 4, '"cuda:0" is in'),
        ("cuda,cuda:1", 4, '"cuda:1" is in'),
        ("cuda:0,cuda:0+cuda:1", 4, '"cuda:0" is in'),
        ("cpu,cuda:0", 4, "mixes kinds"),
        ("cuda:0+cuda:1", 4, "nothing but groups"),
        ("cuda:0,cuda:1+cuda", 4, "name the GPUs of a group"),
        (",".join(f"cpu:{n}" for n in range(65)), 0, "at most 64"),
    ],
)
def test_what_cannot_be_is_refused_with_the_reason(wanted: str, gpus: int, reason: str) -> None:
    with pytest.raises(ValueError, match=reason.replace("(", r"\(")):
        names(wanted, gpus)


def test_a_model_and_its_places() -> None:
    assert placed("tiny.en") == ("tiny.en", ())
    assert placed("base@cuda:1") == ("base", ("cuda:1",))
    assert placed("base@cuda:0@cuda:1") == ("base", ("cuda:0", "cuda:1"))
    assert placed("shapes-video@cuda:2+cuda:3") == ("shapes-video", ("cuda:2+cuda:3",))
    assert placed("/models/me@home/tiny") == ("/models/me@home/tiny", ())
    assert placed("/models/me@home/tiny@cpu") == ("/models/me@home/tiny", ("cpu",))
    assert placed("@cpu") == ("@cpu", ())
    assert placed("") == ("", ())


def test_what_stands_for_several() -> None:
    assert [kind(one) for one in ("cpu", "cpu:0,cpu:1", "cuda:1", "cuda", "cuda:0+cuda:1,cuda:2")] == (
        ["cpu", "cpu", "cuda", "cuda", "cuda"]
    )
    assert [usual(one) for one in ("cpu:0,cpu:1", "cpu", "cuda:1", "cuda:0,cuda:1", "cuda")] == (
        ["cpu", "cpu", "cuda:1", "cuda", "cuda"]
    )
