"""Pictures through the real step loop, for whoever asks."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import aclosing

import numpy as np
import pytest
import pytest_asyncio
import torch

from tests.vision_text.denoise.drawing import PROMPTS, asked, same
from vision_text.denoise.request import Made, Preview
from vision_text.images.painter import Painter
from vision_text.models import ModelUnusable
from workers.device import Device
from workers.errors import Draining, InputInvalid
from workers.task import Lane


@pytest.fixture(scope="module", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def painter() -> AsyncIterator[Painter]:
    device = Device("cpu:pictures")
    device.start()
    made = await Painter.start("shapes-image", [device], options={"guidance_interval": (0.0, 0.6)})
    yield made
    await made.close()
    with pytest.raises(Draining):
        await anext(made.make(asked()))
    device.close()


@pytest.mark.asyncio(loop_scope="module")
async def test_a_picture_with_previews(painter: Painter) -> None:
    async with aclosing(painter.make(asked(5, previews=1))) as making:
        parts = [part async for part in making]
    assert [type(part) for part in parts] == [Preview, Made]
    made = parts[-1]
    assert isinstance(made, Made)
    assert made.frames.shape == (1, 48, 48, 3) and made.frames.dtype == np.uint8
    assert made.seed == 3 and made.seconds > 0
    how = made.approximation.as_dict()
    assert (how["evaluations"], how["skipped"], how["options"]) == (8, 2, {"guidance_interval": [0.0, 0.6]})
    info = painter.info
    assert info.name == "shapes-image" and info.default_size in info.sizes and info.max_frames == 1


@pytest.mark.asyncio(loop_scope="module")
async def test_many_at_once_are_the_same_as_one_by_one(painter: Painter) -> None:
    wanted = [asked(5, seed=n, prompt=PROMPTS[n % 3], exact=n % 2 == 0) for n in range(8)]
    calls = painter.counters["calls"]
    together = await asyncio.gather(*(painter.made(one, lane=Lane(2 + n % 2)) for n, one in enumerate(wanted)))
    assert painter.counters["calls"] - calls < 8 * 5  # they shared steps
    for one, made in list(zip(wanted, together, strict=True))[:3]:
        assert same(await painter.made(one), made)


@pytest.mark.asyncio(loop_scope="module")
async def test_closing_cancels_within_a_step(painter: Painter) -> None:
    options = {"step_cache": ("first_block", 0.1)}
    (backend,) = painter.backends
    making = painter.make(asked(200, previews=16, options=options))
    assert isinstance(await anext(making), Preview)
    await making.aclose()
    await painter.made(asked(1))  # the device has come round
    assert not backend.held()
    before = painter.counters["evaluations"]
    await asyncio.sleep(0.3)
    assert painter.counters["evaluations"] == before


@pytest.mark.asyncio(loop_scope="module")
async def test_what_is_wrong_fails_alone(painter: Painter) -> None:
    wanted = [asked(3), asked(3, options={"sampler": "ddim"}), asked(3, options={"attention": "sage"})]
    good, *bad = await asyncio.gather(*map(painter.made, wanted), return_exceptions=True)
    assert isinstance(good, Made)
    assert [one.param for one in bad if isinstance(one, InputInvalid)] == ["options.sampler", "options.attention"]
    with pytest.raises(InputInvalid):
        await painter.made(asked(3, width=13))


async def test_what_does_not_draw_pictures_is_not_started() -> None:
    device = Device("cpu:none")
    with pytest.raises(ModelUnusable, match="no pipeline"):
        await Painter.start("shapes-vlm", [device])
    with pytest.raises(InputInvalid):
        await Painter.start("shapes-image", [device], options={"attention": "sage"})
