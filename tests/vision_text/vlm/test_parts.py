"""The parts of the model that sees, each by itself."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from vision_text.models import Found, ModelUnusable
from vision_text.small import small_model
from vision_text.vlm import Seer
from vision_text.vlm.kv import KV, Block, Shape
from vision_text.vlm.options import Options
from vision_text.vlm.prefix import BLOCK, PrefixCache, block_keys, digest_of
from vision_text.vlm.quantise import Coding
from vision_text.vlm.sampling import choose
from vision_text.vlm.speculate import FIRST_PAUSE, Lookup, Speculation
from vision_text.vlm.vllm import VllmBackend, VllmSettings
from vision_text.vlm.writing import Writer
from workers.backend import Done, More
from workers.device import Device


@pytest.fixture(scope="module")
def bytewise() -> PreTrainedTokenizerFast:
    """A token for each byte, so that most characters take several."""
    names = {sign: n for n, sign in enumerate(sorted(pre_tokenizers.ByteLevel.alphabet()))}
    fast = Tokenizer(models.BPE(vocab=names, merges=[]))
    fast.pre_tokenizer, fast.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=fast)


TEXT = "Grüße 👩‍🚀🏳️‍🌈 in 東京, naïve — \u200bok"


def written(tokenizer: PreTrainedTokenizerFast, ids: list[int], stops: tuple[str, ...] = ()) -> list[str]:
    writer = Writer(tokenizer, stops)
    return [*(writer.push(one) for one in ids), writer.finish()]


def test_characters_are_never_split(bytewise: PreTrainedTokenizerFast) -> None:
    pieces = written(bytewise, bytewise(TEXT)["input_ids"])
    assert "".join(pieces) == TEXT
    assert not any("\N{REPLACEMENT CHARACTER}" in piece for piece in pieces)
    assert max(map(len, pieces)) == 1, "a character is handed out as soon as it is whole"
    broken = written(bytewise, bytewise(TEXT)["input_ids"][:-1] + bytewise("é")["input_ids"][:1])
    assert "".join(broken) == TEXT[:-1] + "\N{REPLACEMENT CHARACTER}"


def test_a_tokeniser_that_the_stream_cannot_follow(bytewise: PreTrainedTokenizerFast) -> None:
    class Lost:
        def step(self, tokenizer: Any, token: int) -> str:
            raise RuntimeError("invalid prefix")

    writer: Any = Writer(bytewise, ("naïve",))
    pieces = [writer.push(one) for one in bytewise(TEXT)["input_ids"][:9]]
    writer._stream = Lost()
    pieces += [writer.push(one) for one in bytewise(TEXT)["input_ids"][9:]] + [writer.finish()]
    assert "".join(pieces) == TEXT[: TEXT.index("naïve")]


@pytest.mark.parametrize("stop", ["東京", "🚀", "ok", "G", "e 👩"])
def test_nothing_of_a_stop_is_handed_out(bytewise: PreTrainedTokenizerFast, stop: str) -> None:
    ids = bytewise(TEXT)["input_ids"]
    assert "".join(written(bytewise, ids, ("never", stop))) == TEXT[: TEXT.index(stop)]
    begun = written(bytewise, ids, (TEXT[-3:] + "!",))
    assert "".join(begun) == TEXT, "what only began like a stop comes at the end"


@pytest.mark.parametrize(("bits", "worst"), [(8, 0.005), (4, 0.08), (1, 1.0)])
def test_few_bits_each_vector_by_itself(bits: int, worst: float) -> None:
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(2, 3, 10, 64, generator=generator) * torch.logspace(-3, 3, 10)[:, None]
    coding = Coding(bits, 64, torch.float32)
    parts = coding.encode(x)
    assert [(part.shape[-1], part.dtype) for part in parts] == list(coding.parts())
    assert coding.bytes * 60 == sum(part.nbytes for part in parts)
    made = coding.decode(parts)
    largest = x.abs().amax(-1, keepdim=True)
    assert bool(((made - x).abs() <= worst * largest + 1e-6).all())
    one = coding.decode(coding.encode(x[:, :, 4:5]))
    assert torch.equal(one, made[:, :, 4:5]), "a token's vector depends on no other"
    assert not coding.decode(coding.encode(torch.zeros(1, 64))).any()
    assert Coding(8, 128, torch.float32).bytes <= 0.51 * 256, "against half precision"


@pytest.mark.parametrize("kind", ["float32", "int8", "int4", "int1", "offload"])
def test_a_cache_grows_shares_and_forgets(kind: str) -> None:
    shape = Shape(2, 3, 32, torch.float32)
    generator = torch.Generator().manual_seed(3)
    keys, values = (torch.randn(3, 200, 32, generator=generator) for _ in range(2))

    def fill(kv: KV, start: int, end: int) -> torch.Tensor:
        kv.reserve(end)
        made = [kv.extend(layer, keys[:, start:end], values[:, start:end]) for layer in range(2)]
        kv.commit(end - start)
        return torch.stack([made[1][0], made[1][1]])

    whole = fill(KV(shape, kind, torch.device("cpu"), Counter()), 0, 200)
    pieces = KV(shape, kind, torch.device("cpu"), Counter())
    fill(pieces, 0, 70)
    fill(pieces, 70, 150)
    pieces.truncate(100)
    other = KV(shape, kind, torch.device("cpu"), Counter())
    other.adopt(pieces.block(0, 100))
    for kv in (pieces, other, other.moved(torch.device("cpu"))):
        kv.truncate(100)
        assert torch.equal(fill(kv, 100, 200), whole)
        assert kv.bytes == shape.bytes(kind, 200)


def block(size: int) -> Block:
    return Block((torch.zeros(1, 2, 1, BLOCK, size),))


def test_the_prefix_cache_is_bounded_and_keeps_what_is_used() -> None:
    each = block(8).bytes
    cache = PrefixCache(3 * each)
    keys = [bytes([n]) for n in range(5)]
    for key in keys[:3]:
        cache.keep(key, block(8))
    assert len(cache.match(keys)) == 3 and cache.bytes == 3 * each
    cache.keep(keys[3], block(8))
    assert len(cache.match(keys[:2])) == 2, "the end of a prefix goes before its beginning"
    assert not cache.has(keys[2])
    cache.keep(keys[4], block(1000))
    assert cache.bytes <= cache.limit and not cache.has(keys[4]), "what is larger than all there is stays out"


def test_keys_hold_all_that_precedes() -> None:
    ids = np.arange(4 * BLOCK + 3)
    places = np.arange(20, 40)
    keys = block_keys(b"root", ids, [(places, b"a" * 32)])
    assert len(keys) == 4
    other = block_keys(b"root", ids, [(places, b"b" * 32)])
    assert keys[0] == other[0] and not set(keys[1:]) & set(other[1:])
    moved = block_keys(b"root", ids, [(places[:10], b"a" * 32), (places[10:], b"a" * 32)])
    assert keys[1:] != moved[1:], "a picture twice is not a picture of twice the size"
    assert not set(keys) & set(block_keys(b"salt", ids, [(places, b"a" * 32)]))
    assert block_keys(b"root", ids[: 2 * BLOCK], [(places, b"a" * 32)])[0] == keys[0]
    assert digest_of(np.zeros((2, 3), np.uint8)) != digest_of(np.zeros((3, 2), np.uint8))
    assert digest_of("a", "bc") != digest_of("ab", "c") and digest_of(b"1") != digest_of("1")


def test_chance_depends_on_seed_and_place_alone() -> None:
    logits = torch.tensor([0.0, 1.0, 2.0, -5.0])
    assert choose(logits, 0.0, 1.0, 5, 0) == 2
    drawn = [choose(logits, 1.0, 1.0, 5, place) for place in range(2000)]
    assert drawn == [choose(logits, 1.0, 1.0, 5, place) for place in range(2000)]
    shares = torch.softmax(logits, 0).numpy()
    assert np.abs(np.bincount(drawn, minlength=4) / 2000 - shares).max() < 0.03
    assert {choose(logits, 1.0, 0.5, 7, place) for place in range(200)} == {2}
    assert {choose(logits, 2.0, 0.9, -7, place) for place in range(500)} == {0, 1, 2}
    assert choose(torch.zeros(9), 0.0, 1.0, 0, 0) == 0


def test_proposals_that_are_wrong_stop() -> None:
    text = [1, 2, 3, 4, 9, 1, 2, 3]
    assert Lookup(frozenset()).propose(text, 4) == [4, 9, 1, 2]
    assert Lookup(frozenset({9})).propose(text, 4) == [4]
    assert Lookup(frozenset({3})).propose(text, 4) == []
    assert Lookup(frozenset()).propose([5], 4) == []
    speculation = Speculation(Lookup(frozenset()), 4)
    while speculation.pauses == 0:
        speculation.verified(len(speculation.propose(text, 9)), 0, 1)
        assert speculation.proposed <= 16
    for _ in range(FIRST_PAUSE):
        assert speculation.propose(text, 9) == []
        speculation.verified(0, 0, 1)
    assert len(speculation.propose(text, 2)) == 2, "it is tried again, and never beyond what is wanted"
    good = Speculation(Lookup(frozenset()), 4)
    for _ in range(20):
        good.verified(len(good.propose(text, 9)), 2, 3)
    assert good.pauses == 0


async def test_vllm_says_what_it_needs() -> None:
    """The engine itself has never run here; this is what surrounds it."""
    found = Found("shapes-vlm", small_model("shapes-vlm"), "path", "0" * 12)
    settings = VllmSettings(tensor_parallel=2)
    assert settings.arguments(found, Options(prefix_cache=True))["tensor_parallel_size"] == 2
    with pytest.raises(ModelUnusable):
        settings.arguments(found, Options(kv="int1"))
    with pytest.raises(ValueError, match="tensor_parallel"):
        VllmSettings(tensor_parallel=0)
    backend = VllmBackend(found, settings, Options(), Counter())
    with pytest.raises(ModelUnusable, match="vLLM"):
        backend.load("cpu")
    with pytest.raises(ModelUnusable, match="vLLM"):
        await Seer.start("shapes-vlm", [Device("alone")], engine=settings)


def test_what_vllm_makes_goes_to_whom_it_belongs(monkeypatch: pytest.MonkeyPatch) -> None:
    found = Found("shapes-vlm", small_model("shapes-vlm"), "path", "0" * 12)
    backend = VllmBackend(found, VllmSettings(), Options(), Counter())

    def output(number: str, text: str, finished: bool) -> Any:
        made = SimpleNamespace(text=text, token_ids=[1], finish_reason="stop" if finished else None)
        return SimpleNamespace(request_id=number, outputs=[made], finished=finished, num_cached_tokens=0)

    class Scripted:
        def __init__(self) -> None:
            self.added: list[str] = []
            self.aborted: list[str] = []
            both = [output("0", "a", False), output("1", "b", False)]
            self.script = [both, [output("1", "c", True)], [output("0", "d", True)]]

        def add_request(self, request_id: str, prompt: Any, params: Any) -> None:
            self.added.append(request_id)

        def step(self) -> list[Any]:
            return self.script.pop(0)

        def abort_request(self, request_ids: list[str]) -> None:
            self.aborted += request_ids

    monkeypatch.setattr("vision_text.vlm.vllm._prompt", lambda talk: {})
    monkeypatch.setattr("vision_text.vlm.vllm._sampling", lambda talk: None)
    engine = backend._engine = Scripted()
    talk: Any = SimpleNamespace(options=Options())
    first, second = backend.open(talk), backend.open(talk)
    assert backend.step([first, second]) == [More(("a",)), More(("b",))]
    assert backend.step([first]) == [More()], "what the second got waits for it"
    done = backend.step([first, second])
    assert all(isinstance(one, Done) for one in done)
    assert [one.output.text for one in done] == ["d", "c"]  # type: ignore[union-attr]
    backend.discard(first)
    assert engine.added == ["0", "1"] and engine.aborted == ["0"]
