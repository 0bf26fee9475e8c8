"""Which bars are missed follows from the figures; what is installed is named with its version."""

from __future__ import annotations

import argparse
import importlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
import soundfile
import soxr
import torch
from faster_whisper.feature_extractor import FeatureExtractor
from faster_whisper.tokenizer import Tokenizer
from tokenizers import Tokenizer as Words

from load.peers import __main__ as run
from load.peers import ggml, onnx_layout
from load.peers.checkpoint import alignment_heads, renamed
from load.peers.install import MODULES, listed
from load.peers.measure import Step
from load.peers.peer import Peer, Said, Serving, weights
from load.script import Script
from speech.whisper.weights import load
from tests.load.peers.test_settling import said


def step(streams: int, seconds: float, heard: str = "good morning") -> Step:
    """One recording of which `heard` was final so many seconds behind its end."""
    return Step(streams, [said("good morning", shown=((102.0 + seconds, heard),))])


class Other:
    environment: str | None = None
    note = ""

    def __init__(self, name: str, same_weights: bool = True) -> None:
        self.name, self.same_weights = name, same_weights
        self.served: list[int] = []

    @contextmanager
    def serve(self, environments: Path, cpus: list[int]) -> Iterator[Serving]:
        self.served.append(0)
        yield Serving(0, psutil.Process())

    async def say(self, serving: Serving, script: Script) -> Said:
        raise NotImplementedError


def missed(own: dict[int, Step], **others: dict[int, Step]) -> list[str]:
    peers: list[Peer] = [Other(name, same_weights=name != "other_weights") for name in others]
    return run.missed({run.OWN: own, **others}, peers, bar=2)


def test_most_streams_are_those_without_a_failure_before() -> None:
    assert run.most({1: step(1, 0.5), 2: step(2, 0.9), 4: step(4, 1.5)}) == 2
    assert run.most({1: step(1, 1.5), 2: step(2, 0.9)}) == 0
    assert run.most({}) == 0


def test_bars() -> None:
    own = {1: step(1, 0.5), 2: step(2, 0.9)}
    assert missed(own, one={1: step(1, 0.6)}, two={1: step(1, 1.6)}) == []
    assert missed({1: step(1, 0.5), 2: step(2, 1.1)}) == ["Speechlane passes with 1 streams; the bar is 2"]
    (slower,) = missed(own, one={1: step(1, 0.4)})
    assert "Speechlane 500 ms, one 400 ms" in slower
    wrong = {1: step(1, 0.5, "good evening"), 2: step(2, 0.9, "bad evening")}
    (words,) = missed(wrong, one={1: step(1, 0.6)})
    assert "Speechlane 50.0 %, one 0.0 % of the same recordings" in words
    (words,) = missed(wrong, one={1: step(1, 0.6), 2: step(2, 1.5)})  # with as many streams as both were given
    assert "Speechlane 100.0 %, one 0.0 %" in words
    assert missed(wrong, one={1: step(1, 0.6, "bad evening")}) == []
    other = step(1, 0.6)
    other.said[0].script.samples[0] += 1  # not the same recording
    assert missed(wrong, one={1: other}) == []
    assert missed(wrong, other_weights={1: step(1, 0.6)}) == []
    assert run.missed({"one": {1: step(1, 0.4)}}, [Other("one")], bar=6) == []  # nothing is compared with nothing


def test_a_turn_climbs_until_it_fails_and_later_comes_back_to_the_most(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[int, int]] = []

    def measured(peer: Peer, serving: Serving, one: Step, seconds: float, seed: int) -> None:
        asked.append((one.streams, seed))
        one.said += step(one.streams, 0.5 if one.streams < 4 else 1.5).said

    monkeypatch.setattr(run, "measure", measured)
    monkeypatch.setattr(run, "warm", lambda peer, serving: None)
    options = argparse.Namespace(streams="1,2,4,8", into=Path(), cpus=[], seconds=1.0, seed=7)
    steps: dict[int, Step] = {}
    run.turn(Other("one"), steps, options, 0)
    assert asked == [(1, 7), (2, 7), (4, 7)]
    run.turn(Other("one"), steps, options, 1)
    assert asked[3:] == [(1, 8), (2, 8)]
    assert [len(one.said) for one in steps.values()] == [2, 2, 1]
    late = {1: step(1, 2.5)}
    one = Other("late")
    run.turn(one, late, options, 1)
    assert one.served == []  # more than twice too late: not asked again


def test_everything_that_is_installed_has_a_version_and_a_server() -> None:
    environments = listed()
    for name, asked in environments.items():
        assert set(asked) <= {"packages", "alone"}, name
        for package in [*asked["packages"], *asked.get("alone", [])]:
            assert re.fullmatch(r"[A-Za-z0-9_.-]+(\[[a-z,-]+\])?==[0-9][0-9A-Za-z.]*", package), package
    needed = {peer.environment for name in MODULES for peer in importlib.import_module(f"load.peers.{name}").PEERS}
    assert needed - {None} == set(environments)


def test_the_checkpoint_holds_the_same_numbers_under_other_names() -> None:
    found = load(weights())
    new = renamed(found)
    joined = found.tensors["decoder/layer_2/attention/linear_1/weight"]
    parts = [new[f"decoder.blocks.2.cross_attn.{name}.weight"] for name in ("key", "value")]
    assert torch.equal(torch.cat(parts), joined)
    own = [new[f"encoder.blocks.0.attn.{name}.weight"] for name in ("query", "key", "value")]
    assert torch.equal(torch.cat(own), found.tensors["encoder/layer_0/self_attention/linear_0/weight"])
    assert not any(name.endswith("key.bias") for name in new)
    assert not found.tensors["encoder/layer_0/self_attention/linear_0/bias"].chunk(3)[1].any()
    # The published mask of tiny.en, which says which heads its word times come from.
    assert alignment_heads(weights()).startswith("ABz")
    parameters = sum(values.numel() for name, values in new.items())
    assert parameters == 37_760_256  # what tiny.en is published with


def test_the_file_of_whisper_cpp_holds_the_words_and_every_number(tmp_path: Path) -> None:
    words = ggml.tokens(weights())
    assert words[262] == b" the"
    assert sorted(word[0] for word in words[:256]) == list(range(256))  # every byte is a token
    found = load(weights())
    file = ggml.write(weights(), tmp_path)
    matrices = sum(values.numel() for values in found.tensors.values() if values.ndim >= 2)
    assert file.stat().st_size > 2 * (matrices - found.vocabulary * found.dim)  # the embeddings stand there once
    assert int.from_bytes(file.read_bytes()[:4], "little") == 0x67676D6C
    assert b"decoder.blocks.3.cross_attn.out.weight" in file.read_bytes()


def test_whisper_in_the_layout_of_sherpa_onnx_says_what_is_said() -> None:
    found = load(weights())
    own = renamed(found)
    samples, rate = soundfile.read("tests/data/prompts/vm-nobodyavail.wav", dtype="float32")
    heard = soxr.resample(samples, rate, 16_000)
    heard = np.pad(heard, (0, 480_000 - len(heard)))
    mel = torch.from_numpy(FeatureExtractor()(heard, padding=0)).float()[None]
    words = Tokenizer(Words.from_file(str(weights() / "tokenizer.json")), multilingual=False)
    said = [words.sot, words.no_timestamps]
    cache = torch.zeros(found.decoder_layers, 1, 448, found.dim)
    with torch.no_grad():
        keys, values = onnx_layout.Encoder(found, own)(mel)
        assert keys.shape[:2] == (found.decoder_layers, 1)
        decoder, new, past = onnx_layout.Decoder(found, own), said, (cache, cache)
        while said[-1] != words.eot and len(said) < 30:
            before = torch.tensor([len(said) - len(new)])
            logits, *past = decoder(torch.tensor([new]), *past, keys, values, before)
            new = [int(logits[0, -1].argmax())]
            said = [*said, *new]
    assert words.decode(said[2:-1]).strip() == "Nobody is available to take your call at the moment."
