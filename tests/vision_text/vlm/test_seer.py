"""The whole way, with the small trained model: what is written is what the library itself would write, whatever else
is going on."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForImageTextToText, AutoProcessor

from tests.vision_text.vlm.asking import MODEL, answer, asked, clip, crowded, picture, question
from vision_text.small import small_model
from vision_text.vlm import ChatAsked, Clip, Picture, Seer, Turn, Unopened, VisualBudget
from vision_text.vlm.core import Rows
from vision_text.vlm.decoder import TalkBackend
from vision_text.vlm.kv import KV
from vision_text.vlm.options import read_options
from workers.device import Device
from workers.errors import Cancelled, Draining, InputInvalid, InputTooLarge, ServingError
from workers.task import Lane

DESCRIBE = "describe the picture."


@pytest.fixture(scope="module")
def places() -> Iterator[list[Device]]:
    devices = [Device("one"), Device("two"), Device("three")]
    for device in devices:
        device.start()
    yield devices
    for device in devices:
        device.close()


@pytest.fixture(scope="module")
def seer(places: list[Device]) -> Seer:
    return asyncio.run(Seer.start(MODEL, places[:1], drafts=[str(small_model(MODEL))]))


def backend(seer: Seer) -> TalkBackend:
    found = seer._talk.replicas[0].loop.homes[MODEL].backend  # type: ignore[attr-defined]
    assert isinstance(found, TalkBackend)
    return found


async def test_the_text_is_that_of_the_library(seer: Seer) -> None:
    directory = small_model(MODEL)
    model = AutoModelForImageTextToText.from_pretrained(directory)
    processor = AutoProcessor.from_pretrained(directory)
    shown = [(picture(n),) for n in range(6)] + [(picture(7), picture(8))]
    for n, pictures in enumerate(shown):
        content = [{"type": "image"} for _ in pictures] + [{"type": "text", "text": question(n)}]
        text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        inputs = processor(text=text, images=[one.pixels for one in pictures], return_tensors="pt")
        ids = model.generate(**inputs, max_new_tokens=20, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        made = await answer(seer, asked(n, *pictures, question(n)))
        assert made.text == processor.tokenizer.decode(ids, skip_special_tokens=True)
        assert made.prompt_tokens == inputs["input_ids"].shape[1]
        assert made.visual_tokens == 36 * len(pictures)


async def test_alone_or_among_eight_the_text_is_the_same(seer: Seer) -> None:
    """At a temperature at which the last bit of a number may decide, with prompts and options of all kinds."""
    kinds: list[dict[str, object]] = [{}, {"kv": "int8"}, {"speculative": ("lookup", 3)}, {"kv": "int4"}]
    wanted = [
        asked(n, *[picture(n)] * (n % 3), DESCRIBE, temperature=1.2, seed=n, max_tokens=12, options=kinds[n % 4])
        for n in range(8)
    ]
    alone = [await answer(seer, one) for one in wanted]
    before = seer.counters.copy()
    together = await asyncio.gather(*(answer(seer, one) for one in wanted))
    assert [one.text for one in together] == [one.text for one in alone]
    assert len({one.text for one in alone}) > 4
    rows, steps = ((seer.counters - before)[name] for name in ("decode_rows", "decode_steps"))
    assert rows > 1.5 * steps, "nobody shared a step"


def test_numbers_are_the_same_bits_alone_and_among_eight(seer: Seer) -> None:
    core = backend(seer).core
    generator = torch.Generator().manual_seed(1)

    def hidden(caches: list[KV], numbers: list[int]) -> list[torch.Tensor]:
        rows = [Rows(caches[n], new[n], torch.tensor([[caches[n].length]])) for n in numbers]
        return core.run(rows)

    with torch.inference_mode():
        new = [torch.randn(1, core.embed.weight.shape[1], generator=generator) for _ in range(8)]  # type: ignore[arg-type]
        both = [[core.cache("float32") for _ in range(8)] for _ in range(2)]
        for n in range(8):
            prompt = torch.randn(5 + 9 * n, new[0].shape[1], generator=generator)
            for caches in both:
                core.run([Rows(caches[n], prompt, torch.arange(len(prompt))[None])])
        alone = [hidden(both[0], [n])[0] for n in range(8)]
        together = hidden(both[1], list(range(8)))
        assert all(torch.equal(a, b) for a, b in zip(alone, together, strict=True))
        assert torch.equal(core.logits(torch.cat(together))[3:4], core.logits(alone[3]))


async def test_a_prompt_in_pieces(seer: Seer, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = await answer(seer, asked(3))
    monkeypatch.setattr(backend(seer), "piece", 16)
    before = seer.counters["prefill_steps"]
    assert (await answer(seer, asked(3))).text == whole.text
    assert seer.counters["prefill_steps"] - before == -(-whole.prompt_tokens // 16)


async def test_the_same_picture_is_read_once(seer: Seer) -> None:
    seer.forget()
    plain = [await answer(seer, asked(1, picture(1), question(n))) for n in (1, 2)]
    seer.forget()
    before = seer.counters.copy()
    on = {"prefix_cache": True}
    first = await answer(seer, asked(1, options=on))
    second = await answer(seer, asked(1, Picture(picture(1).pixels.copy()), question(2), options=on))
    assert [first.text, second.text] == [one.text for one in plain]
    assert (first.cached_tokens, second.cached_tokens) == (0, 32)
    counted = seer.counters - before
    assert counted["encoded_units"] == 1 and counted["prefix_hit_tokens"] == 32
    assert counted["prefill_tokens"] == first.prompt_tokens + second.prompt_tokens - 32
    turns = (
        *asked(1, picture(1), question(1)).messages,
        Turn("assistant", (first.text,)),
        Turn("user", (question(3),)),
    )
    third = await answer(seer, ChatAsked(turns, max_tokens=8, options=on))
    whole = await answer(seer, ChatAsked(turns, max_tokens=8))
    assert third.cached_tokens >= first.prompt_tokens // 16 * 16 and third.text == whole.text


async def test_pictures_at_the_end_are_told_apart_as_well(seer: Seer) -> None:
    """A picture that lies in the last, unfinished block, which the answer fills up."""
    seer.forget()
    given: dict[str, Any] = {"budget": VisualBudget(4), "options": {"prefix_cache": True}, "max_tokens": 40}
    for n in (1, 2):
        first = await answer(seer, asked(n, "describe", picture(n), **given))
        more = Turn("assistant", (first.text,)), Turn("user", ("what is at the top?",))
        for shown in (1, 2):
            turns = (Turn("user", ("describe", picture(shown))), *more)
            made = await answer(seer, ChatAsked(turns, **given))
            assert made.text == (await answer(seer, ChatAsked(turns, **given | {"options": {}}))).text


async def test_no_other_picture_and_no_other_tenant_is_taken_for_it(seer: Seer) -> None:
    seer.forget()
    on = {"prefix_cache": True}
    await answer(seer, asked(1, options=on, tenant="a"))
    other, reshaped = picture(1).pixels.copy(), np.ascontiguousarray(picture(1).pixels.reshape(36, 144, 3))
    other[-1, -1, 0] ^= 1
    for wanted in (
        asked(1, Picture(other), question(1), options=on, tenant="a"),
        asked(1, options=on, tenant="b"),
        asked(1, options=on, tenant="a", budget=VisualBudget(9)),
        asked(1, options={**on, "kv": "int8"}, tenant="a"),
        asked(1, Picture(reshaped), question(1), options=on, tenant="a"),
        asked(1, options=on, tenant="a", exact=True),
    ):  # fmt: skip
        assert (await answer(seer, wanted)).cached_tokens == 0
    assert (await answer(seer, asked(1, options=on, tenant="a"))).cached_tokens > 0
    assert (await answer(seer, asked(1, options=on, tenant="a", exact=True))).cached_tokens == 0


async def test_a_gate_has_another_pictures_prefix_to_catch(seer: Seer) -> None:
    seer.forget()
    sound, careless = {"prefix_cache": True}, {"prefix_cache": "careless"}
    first = await answer(seer, asked(1, picture(1), DESCRIBE, options=careless))
    wrong = await answer(seer, asked(1, picture(2), DESCRIBE, options=careless))
    right = await answer(seer, asked(1, picture(2), DESCRIBE, options=sound))
    assert wrong.cached_tokens > 0 == right.cached_tokens and not wrong.approximation.exact
    assert right.text == (await answer(seer, asked(1, picture(2), DESCRIBE))).text != first.text
    assert wrong.text != right.text


async def test_a_picture_in_tiles(seer: Seer, places: list[Device], tmp_path: Path) -> None:
    """As the processors of larger models cut them: rows, columns, and a small view of the whole."""
    directory = shutil.copytree(small_model(MODEL), tmp_path / "tiles")
    settings = json.loads((directory / "processor_config.json").read_text("utf-8"))
    settings["image_processor"] |= {"do_image_splitting": True, "size": {"longest_edge": 216}}
    (directory / "processor_config.json").write_text(json.dumps(settings), "utf-8")
    model, processor = AutoModelForImageTextToText.from_pretrained(directory), AutoProcessor.from_pretrained(directory)
    tiled = await Seer.start(str(directory), places[1:2])
    for width, height, tiles in ((72, 72, 10), (90, 40, 7), (20, 300, 4)):
        pixels = np.random.default_rng(4).integers(0, 256, (height, width, 3), dtype=np.uint8)
        content = [{"type": "image"}, {"type": "text", "text": DESCRIBE}]
        text = processor.apply_chat_template([{"role": "user", "content": content}], add_generation_prompt=True)
        inputs = processor(text=text, images=[pixels], return_tensors="pt")
        ids = model.generate(**inputs, max_new_tokens=12, do_sample=False)[0, inputs["input_ids"].shape[1] :]
        wanted = asked(0, Picture(pixels), DESCRIBE, max_tokens=12)
        made = await answer(tiled, wanted)
        assert made.prompt_tokens == inputs["input_ids"].shape[1]
        assert made.visual_tokens == 36 * tiles == tiled.plan(wanted).visual_tokens
        assert inputs["pixel_values"].shape[1] == tiles
        assert made.text == processor.tokenizer.decode(ids, skip_special_tokens=True)
        assert tiled.plan(replace(wanted, budget=VisualBudget(36 * 4))).visual_tokens <= 36 * 4
    await tiled.close()


async def test_many_who_show_the_same_at_once(seer: Seer) -> None:
    seer.forget()
    before = seer.counters.copy()
    wanted = [asked(1, picture(1), question(n), options={"prefix_cache": True}) for n in range(5)]
    together = await asyncio.gather(*(answer(seer, one) for one in wanted))
    assert (seer.counters - before)["encoded_units"] == 1
    assert sum(one.cached_tokens for one in together) == 4 * 32
    seer.forget()
    assert [one.text for one in together] == [
        (await answer(seer, asked(1, picture(1), question(n)))).text for n in range(5)
    ]


@pytest.mark.parametrize("turns", [1, 3, 4, 5])
async def test_whenever_somebody_comes_a_picture_is_encoded_once(seer: Seer, turns: int) -> None:
    """Every few turns of the loop somebody else shows it: before it is encoded, meanwhile, and as it ends."""
    prompt = seer._prompter.prompt(asked(1, picture(9), DESCRIBE), read_options({"prefix_cache": True}))
    for _ in range(8):
        seer.forget()
        before = seer.counters.copy()
        waiting = [asyncio.ensure_future(seer._shown(prompt.shown, Lane.INTERACTIVE, kept=True))]
        while not waiting[0].done():
            for _ in range(turns):
                await asyncio.sleep(0)
            waiting.append(asyncio.ensure_future(seer._shown(prompt.shown, Lane.INTERACTIVE, kept=True)))
        first = waiting[0].result()[0]
        assert all(tokens is first for (tokens,) in await asyncio.gather(*waiting))
        assert len(waiting) > 2 and (seer.counters - before)["encoded_units"] == 1
    seer.forget()


async def test_what_was_given_up_does_not_take_the_next_one_with_it(seer: Seer) -> None:
    """The first goes away as the second comes; a third, a few turns later, waits for the second's encoding."""
    prompt = seer._prompter.prompt(asked(1, picture(9), DESCRIBE), read_options({"prefix_cache": True}))

    def comes() -> asyncio.Future[list[torch.Tensor | None]]:
        return asyncio.ensure_future(seer._shown(prompt.shown, Lane.INTERACTIVE, kept=True))

    for turns in range(8):
        seer.forget()
        first = comes()
        for _ in range(3):
            await asyncio.sleep(0)
        first.cancel()
        for _ in range(turns % 4):
            await asyncio.sleep(0)
        second = comes()
        for _ in range(4):
            await asyncio.sleep(0)
        assert len(seer._encodings) == 1 and not second.done()
        third = comes()
        assert (await third)[0] is (await second)[0]
    seer.forget()


async def test_the_cache_in_few_bits(seer: Seer) -> None:
    plain = [await answer(seer, asked(n)) for n in range(6)]
    same = {}
    for kind in ("int8", "int4", "int1", "offload"):
        before = seer.counters.copy()
        made = [await answer(seer, asked(n, options={"kv": kind})) for n in range(6)]
        same[kind] = sum(a.text == b.text for a, b in zip(made, plain, strict=True))
        how, counted = made[0].approximation, seer.counters - before
        assert how.kv == kind and how.exact == (kind == "offload")
        assert counted["kv_fetched_bytes" if kind == "offload" else f"kv_{kind}_reads"] > 0
        share = {"int8": 0.27, "int4": 0.16, "int1": 0.05, "offload": 1.0}[kind]
        assert how.kv_bytes <= share * plain[0].approximation.kv_bytes
    assert same["offload"] == 6 and same["int8"] >= 5 and same["int1"] < same["int8"]


async def test_what_is_proposed_never_changes_the_text(seer: Seer) -> None:
    draft = ("draft", str(small_model(MODEL)), 4)
    for n, temperature in enumerate((0.0, 1.2, 0.0)):
        given = {"temperature": temperature, "seed": n, "max_tokens": 40}
        plain = await answer(seer, asked(n, picture(n), DESCRIBE, **given))
        for how in (("lookup", 4), draft):
            made = await answer(seer, asked(n, picture(n), DESCRIBE, options={"speculative": how}, **given))
            assert made.text == plain.text
            assert made.approximation.accepted <= made.approximation.proposed
    before = seer.counters.copy()
    made = await answer(seer, asked(0, question(0), max_tokens=40, options={"speculative": draft}))
    assert made.approximation.accepted == made.approximation.proposed > 0, "without a picture both models see the same"
    assert (seer.counters - before)["decode_steps"] < made.completion_tokens


async def test_the_plan_is_what_is_looked_at(seer: Seer) -> None:
    for tokens, side in ((36, 72), (16, 48), (10, 36), (1, 12)):
        wanted = asked(2, budget=VisualBudget(tokens_per_image=tokens))
        plan = seer.plan(wanted)
        assert (plan.media[0].width, plan.visual_tokens) == (side, (side // 12) ** 2)
        made = await answer(seer, wanted)
        assert made.visual_tokens == plan.visual_tokens
        assert made.approximation.budget == {"tokens_per_image": tokens}
    assert seer.plan(asked(2, budget=VisualBudget(max_pixels=50 * 50))).media[0].width == 48


async def test_a_clip_is_planned_before_it_is_decoded(seer: Seer) -> None:
    long = Unopened(1920, 1080, seconds=10_800, fps=30)
    planned = seer.plan(asked(0, long, "describe", budget=VisualBudget(9, frames=4))).media[0]
    assert (planned.kind, planned.frames, planned.tokens) == ("clip", 4, 36)
    assert planned.times[0] == 0 and 10_799 < planned.times[-1] < 10_800
    short = seer.plan(asked(0, Unopened(64, 64, seconds=0.5, fps=30), "x", budget=VisualBudget(frames=8, fps=4)))
    assert short.media[0].frames == 2
    assert seer.plan(asked(0, long, "x")).visual_tokens <= seer.info.context / 2
    with pytest.raises(InputTooLarge, match="smaller visual budget"):
        seer.plan(asked(0, *[Unopened(100, 100)] * 60))
    made = await answer(seer, asked(0, clip(1), "describe the video."))
    assert (made.visual_tokens, made.approximation.frames) == (3 * 36, 3)
    with pytest.raises(InputInvalid, match="before it is decoded"):
        await answer(seer, asked(0, clip(1), "x", budget=VisualBudget(frames=2)))


async def test_encoder_reading_and_writing_on_devices_of_their_own(seer: Seer, places: list[Device]) -> None:
    options = {"encoder_device": "two", "decode_device": "three", "visual_budget": VisualBudget(16)}
    apart = await Seer.start(str(small_model(MODEL)), places[1:], options=options)
    wanted = [asked(n, temperature=1.0, seed=n, budget=VisualBudget(36)) for n in range(3)]
    made = await asyncio.gather(*(answer(apart, one) for one in wanted))
    capped = [asked(n, temperature=1.0, seed=n, budget=VisualBudget(16)) for n in range(3)]
    assert [one.text for one in made] == [(await answer(seer, one)).text for one in capped]
    assert {one.visual_tokens for one in made} == {16}, "a request never exceeds the cap"
    assert apart.counters["kv_moved_bytes"] > 0
    steps = [set(device.stats().backends) for device in places]
    assert any(name.endswith("/encoder") for name in steps[1]) and any(name.endswith("/writer") for name in steps[2])
    await apart.close()
    with pytest.raises(Draining):
        await answer(apart, wanted[0])


async def test_who_goes_away_costs_a_step(seer: Seer) -> None:
    beside = asyncio.ensure_future(answer(seer, asked(1, max_tokens=30)))
    outputs = seer.answer(asked(0, DESCRIBE, temperature=2.0, seed=1, max_tokens=1000))
    await anext(outputs)
    await outputs.aclose()  # type: ignore[attr-defined]
    assert (await beside).text == (await answer(seer, asked(1, max_tokens=30))).text
    assert not seer._encodings
    async with asyncio.timeout(5):
        while seer._talk.replicas[0].stats().open:  # type: ignore[attr-defined]
            await asyncio.sleep(0.01)


async def test_stops(seer: Seer) -> None:
    given: dict[str, Any] = {"temperature": 0.7, "seed": 3, "max_tokens": 30}
    plain = await answer(seer, asked(0, crowded(), DESCRIBE, **given))
    words = plain.text.split()
    assert len(words) > 2
    stop = " ".join(words[1:3])
    for options in ({}, {"speculative": ("lookup", 4)}):
        made = await answer(seer, asked(0, crowded(), DESCRIBE, stop=(stop,), options=options, **given))
        assert made.text == plain.text[: plain.text.index(stop)]
        assert made.finish_reason == "stop"
    assert (await answer(seer, asked(0, max_tokens=1))).finish_reason == "length"


async def test_numbers_that_are_not_finite(seer: Seer, monkeypatch: pytest.MonkeyPatch) -> None:
    """An option that breaks is left away, and the answer says so; without options it is that item's error alone."""
    plain = await answer(seer, asked(2))
    coding = seer._talk.replicas[0].loop.homes[MODEL].backend.core.shape.coding("int8")  # type: ignore[attr-defined]
    decode = type(coding).decode
    broken = {8}
    monkeypatch.setattr(type(coding), "decode", lambda self, parts: decode(self, parts) / (self.bits not in broken))
    made = await answer(seer, asked(2, options={"kv": "int8"}))
    assert made.text == plain.text
    assert made.approximation.fallback is not None and made.approximation.exact
    await answer(seer, asked(2))
    seer._features.keep(seer._prompter.prompt(asked(9), seer._options).shown[0].key, torch.full((36, 96), torch.nan))
    on = {"prefix_cache": True}
    results = await asyncio.gather(*(answer(seer, asked(n, options=on)) for n in (2, 9)), return_exceptions=True)
    assert isinstance(results[1], ServingError) and "not finite" in results[1].message
    assert not isinstance(results[0], BaseException) and results[0].text == plain.text
    seer.forget()


@pytest.mark.parametrize(
    ("wanted", "param"),
    [
        (ChatAsked(()), "messages"),
        (ChatAsked((Turn("user", ()),)), "messages"),
        (ChatAsked((Turn("user", ()), Turn("user", ("",)))), "messages"),
        (ChatAsked((Turn("robot", ("hi",)),)), "messages[0].role"),
        (asked(0, "\ud800"), "messages[0].content[0]"),
        (asked(0, Picture(np.zeros((0, 4, 3), np.uint8))), "messages[0].content[0]"),
        (asked(0, Picture(np.zeros((4, 4, 4), np.uint8))), "messages[0].content[0]"),
        (asked(0, "x", Clip(np.zeros((2, 4, 4, 3), np.uint8), 0.0)), "messages[0].content[1]"),
        (asked(0, "x", Clip(np.zeros((0, 4, 4, 3), np.uint8), 1.0)), "messages[0].content[1]"),
        (asked(0, Unopened(10, 10)), "messages[0].content[0]"),
        (asked(0, "x" * 1_000_001), "messages"),
        (asked(0, "red " * 2100), "messages"),
        (asked(0, "x", max_tokens=0), "max_tokens"),
        (asked(0, "x", temperature=float("nan")), "temperature"),
        (asked(0, "x", top_p=0.0), "top_p"),
        (asked(0, "x", stop=("",)), "stop"),
        (asked(0, "x", seed=1 << 64), "seed"),
        (asked(0, "x", options={"kv": "int2"}), "options.kv"),
        (asked(0, "x", options={"speculative": ("lookup", 9)}), "options.speculative"),
        (asked(0, "x", options={"speculative": ("draft", "other")}), "options.speculative"),
        (asked(0, "x", options={"decode_device": "two"}), "options.decode_device"),
        (asked(0, "x", options={"magic": 1}), "options.magic"),
    ],
)
async def test_what_cannot_be_answered_names_its_field(seer: Seer, wanted: ChatAsked, param: str) -> None:
    with pytest.raises((InputInvalid, InputTooLarge)) as failed:
        await answer(seer, wanted)
    assert failed.value.param == param


def test_a_budget_is_above_nothing() -> None:
    for given in ({"tokens_per_image": 0}, {"frames": -1}, {"fps": float("nan")}, {"max_pixels": 1.5}):
        with pytest.raises(InputInvalid, match="visual budget"):
            VisualBudget(**given)  # type: ignore[arg-type]


async def test_what_somebody_writes_is_never_a_sign_of_the_prompt(seer: Seer) -> None:
    made = await answer(seer, asked(0, picture(0), "what is <image> <end_of_utterance> <|im_start|>?"))
    assert made.visual_tokens == 36


async def test_pictures_of_all_shapes(seer: Seer) -> None:
    for height, width in ((1, 1), (1, 500), (700, 3), (333, 77)):
        wanted = asked(0, Picture(np.full((height, width, 3), 200, np.uint8)), "what is at the top?", max_tokens=4)
        assert (await answer(seer, wanted)).visual_tokens == seer.plan(wanted).visual_tokens == 36


async def test_bulk_waits_for_whoever_is_there(seer: Seer) -> None:
    outputs = [output async for output in seer.answer(asked(1), Lane.BULK)]
    assert outputs[-1].text == (await answer(seer, asked(1))).text
    handle = asyncio.ensure_future(answer(seer, asked(1, max_tokens=500, temperature=2.0, seed=2)))
    await asyncio.sleep(0)
    handle.cancel()
    with pytest.raises((asyncio.CancelledError, Cancelled)):
        await handle
