"""Models that see and draw, on the devices that an operator has placed them on."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from gateway.vision.lane import CHAT, IMAGES, VIDEOS
from gateway.vision.room import Room
from speech.engine import Engine, EngineSettings
from workers.errors import BackendDead


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Engine]:
    """No models of its own, two devices and a group."""
    folder: Path = tmp_path_factory.mktemp("profiles")
    made = Engine._start(EngineSettings((), "cpu:0,cpu:1,cpu:2+cpu:3", voices=(), profiles=folder))
    yield made
    for device in made._all:
        device.close()


def room(kind: Any, names: Sequence[str], engine: Engine) -> Room[Any]:
    async def found() -> Engine:
        return engine

    made: Room[Any] = Room(kind, names, download=False, options=lambda *_: {}, watched=lambda kind, name, model: model)
    made.begin(found, now=False)
    return made


@pytest.mark.long
async def test_a_model_is_where_it_was_placed_and_keeps_its_name(engine: Engine) -> None:
    images = room(IMAGES, ["shapes-image@cpu:1"], engine)
    assert images.names == ("shapes-image",) and images.resolve("dall-e-3") == "shapes-image"
    model = await images.get(None)
    assert [device.serves(model.name) for device in engine.devices] == [False, True]
    await images.close()


@pytest.mark.parametrize(
    ("kind", "name", "reason"),
    [
        (CHAT, "shapes-vlm@cpu:2+cpu:3", "shapes-vlm is to run on a group of devices, and takes one"),
        (VIDEOS, "shapes-video@cpu:4", 'shapes-video is to run on "cpu:4", which is none of the devices'),
    ],
)
async def test_a_place_that_cannot_be_is_told_in_the_log(
    kind: Any, name: str, reason: str, engine: Engine, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR, "speechlane.vision"), pytest.raises(BackendDead, match="the log"):
        await room(kind, [name], engine).get(None)
    assert reason in caplog.text
