"""The engine's parts against faster-whisper's and CTranslate2's own: weights, features, encoder, decoder, alignment."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from speech.asr import SAMPLE_RATE
from speech.dense import Int8, Plain
from speech.models import resolve
from speech.whisper import alignment, weights
from speech.whisper.decoder import Feed, Sequence
from speech.whisper.encoder import FRAMES, Encoding, floor_of, frames_of
from speech.whisper.features import MEL_FRAMES, LogMel, MelFilter
from speech.whisper.probes import Probes
from speech.whisper.rules import Rules, looping, token_cap
from tests.speech.whisper_models import backend, recording, reference

TINY = resolve("tiny.en").directory


def full_features(samples: np.ndarray) -> np.ndarray:
    """What faster-whisper computes for the clip in its 30-second window."""
    padded = np.concatenate([samples, np.zeros(30 * SAMPLE_RATE - len(samples), np.float32)])
    mel: np.ndarray = reference().feature_extractor(padded, padding=0)[:, :MEL_FRAMES]
    return mel


@pytest.mark.parametrize("name", ["austen-0870.wav", "austen-0880.wav", "jfk.flac"])
def test_features_equal_faster_whispers_in_one_piece_and_grown(name: str) -> None:
    samples = recording(name)
    grown = LogMel(MelFilter(80))
    for end in [17, 300, 5000, 16000, 16001, 40123, len(samples)]:
        grown.extend(samples[:end])
    whole = LogMel(MelFilter(80))
    whole.extend(samples)
    assert np.abs(whole.window(0, MEL_FRAMES).numpy() - full_features(samples)).max() < 1e-4
    assert torch.equal(grown.window(0, MEL_FRAMES), whole.window(0, MEL_FRAMES))


@pytest.mark.long
def test_the_whole_window_gives_ctranslate2s_encoder_states() -> None:
    mel = full_features(recording("austen-0880.wav"))
    encoder = backend()._encoder
    with torch.inference_mode():
        e = Encoding(encoder.stem(torch.from_numpy(mel), 0, 0, FRAMES), 0, FRAMES, 0.0)
        encoder.run([e], 1)
        encoder.run([e], encoder.layers - 1)
    assert np.abs(e.x.numpy() - np.array(reference().encode(mel))[0]).max() < 1e-3


def test_greedy_decoding_makes_ctranslate2s_tokens() -> None:
    mel = full_features(recording("austen-0870.wav"))
    states = reference().encode(mel)
    vocabulary = backend().vocabulary
    prompt = [*vocabulary.english.sot_sequence, vocabulary.english.no_timestamps]
    theirs = reference().model.generate(states, [prompt], beam_size=1, max_length=100)[0].sequences_ids[0]
    decoder, rules, made = backend()._decoder, backend()._rules, list[int]()
    with torch.inference_mode():
        sequence = Sequence(decoder, decoder.cross(torch.from_numpy(np.array(states)[0])))
        feed = Feed(sequence, list(prompt), [len(prompt) - 1])
        while True:
            token = int(rules.apply(decoder.step([feed])[0], first=not made).argmax())
            if token == rules.eot:
                break
            made.append(token)
            feed = Feed(sequence, [token], [0])
    assert made == theirs


def test_a_rewound_sequence_continues_as_if_the_tokens_had_never_been() -> None:
    decoder = backend()._decoder
    with torch.inference_mode():
        cross = backend()._frozen_cross(-0.75)
        straight, detour = Sequence(decoder, cross), Sequence(decoder, cross)
        want = decoder.step([Feed(straight, [50257, 50362, 11, 12], [3])])[0]
        decoder.step([Feed(detour, [50257, 50362, *range(100, 180)], [0])])
        detour.rewind(2)
        got = decoder.step([Feed(detour, [11, 12], [1])])[0]
    assert torch.allclose(want, got, atol=1e-4)


def test_int8_rows_do_not_depend_on_the_other_rows() -> None:
    weight, x = torch.randn(256, 96), torch.randn(17, 96) * torch.logspace(-2, 2, 17)[:, None]
    layer = Int8(weight, torch.randn(256))
    together = layer(x)
    for row in range(17):
        assert torch.equal(layer(x[row : row + 1])[0], together[row])
    exact = Plain(weight, layer.bias)(x)
    assert ((together - exact).norm(dim=1) / exact.norm(dim=1)).max() < 0.02


@pytest.mark.parametrize(
    ("damage", "says"),
    [
        (lambda p: p.write_bytes(p.read_bytes()[:50_000]), "ends in the middle"),
        (lambda p: p.write_bytes(b""), "truncated"),
        (lambda p: p.write_bytes(b"\x06\0\0\0" + b"RIFF" * 100), "not a CTranslate2"),
        (lambda p: p.write_bytes(b"\x03\0\0\0" + p.read_bytes()[4:100]), "version 3"),
        (lambda p: p.unlink(), "can't be read"),
    ],
)
def test_a_damaged_model_says_what_is_wrong(damage, says: str, tmp_path: Path) -> None:
    for name in ("model.bin", "config.json"):
        shutil.copy(TINY / name, tmp_path / name)
    damage(tmp_path / "model.bin")
    with pytest.raises(weights.WeightsError, match=says):
        weights.load(tmp_path)


def test_warping_finds_the_cheapest_monotonic_path() -> None:
    random = np.random.default_rng(1)
    for rows, frames in [(1, 1), (1, 5), (3, 3), (3, 6), (4, 7), (5, 2)]:
        cost = random.standard_normal((rows, frames))
        starts = alignment.first_frames(cost)
        best = min(sum(cost[i, j] for i, j in path) for path in _paths(rows, frames))
        assert _cost_through(cost, starts) == pytest.approx(best)


def _paths(rows: int, frames: int):
    def walk(i: int, j: int):
        if (i, j) == (rows - 1, frames - 1):
            yield [(i, j)]
            return
        for di, dj in ((1, 1), (1, 0), (0, 1)):
            if i + di < rows and j + dj < frames:
                for rest in walk(i + di, j + dj):
                    yield [(i, j), *rest]

    yield from walk(0, 0)


def _cost_through(cost: np.ndarray, starts: np.ndarray) -> float:
    """The cheapest path whose rows begin at `starts`."""
    return min(
        sum(cost[i, j] for i, j in path)
        for path in _paths(*cost.shape)
        if [next(j for i, j in path if i == row) for row in range(len(starts))] == list(starts)
    )


def test_loops_are_told_from_speech() -> None:
    assert looping([7, 8, 9] * 6) and looping([5] * 20) and looping([1, 2] + [3, 4, 5, 6, 7] * 5)
    assert not looping([2949, 11] * 3)  # "no, no, no"
    assert not looping(list(range(60)))
    assert token_cap(3.0, multilingual=False) < token_cap(3.0, multilingual=True) <= token_cap(1e6, True) == 220


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**31))
def test_timestamps_come_in_pairs_and_never_go_back(seed: int) -> None:
    rules: Rules = backend()._rules
    random, made = torch.Generator().manual_seed(seed), list[int]()
    for _ in range(24):
        scores = rules.apply_timestamps(torch.randn(1, len(rules.blocked), generator=random), made)
        token = int(scores.argmax())
        assert scores[0, token] > -torch.inf
        if token == rules.eot:
            break
        made.append(token)
    times = [t for t in made if t >= rules.timestamps]
    assert made and made[0] >= rules.timestamps
    assert times == sorted(times)
    for three in zip(made, made[1:], made[2:], strict=False):
        assert not all(t >= rules.timestamps for t in three), "three timestamps in a row"


@pytest.mark.parametrize("first", [0, 60, 1400, 1490, 1498, 1499])
def test_probes_carry_a_change_to_all_the_padding(first: int) -> None:
    probes = Probes.over(first, FRAMES, 17, "cpu")
    assert len(probes.positions.unique()) == len(probes.positions) == min(17, FRAMES - first)
    assert (int(probes.positions[0]), int(probes.positions[-1])) == (first, FRAMES - 1)
    frozen, own = torch.randn(2, 3, FRAMES, 4), torch.randn(2, 3, first, 4)
    line = torch.arange(FRAMES)[:, None] * torch.tensor([0.0, 0.01, -0.02, 1.0]) + 5
    truth = torch.cat([own, (frozen + line)[..., first:, :]], -2)
    computed = torch.cat([own, truth[..., probes.positions, :]], -2)
    assert torch.allclose(probes.pad(computed, frozen), truth, atol=1e-2)


def test_probes_bring_the_padding_nearer_to_the_full_windows() -> None:
    samples, encoder = recording("austen-0880.wav"), backend()._encoder
    mel = LogMel(MelFilter(80))
    mel.extend(samples)
    n, floor = frames_of(len(samples)), floor_of(mel.floor)
    frozen = encoder.frozen(floor)
    with torch.inference_mode():
        whole = Encoding(encoder.stem(mel.window(0, MEL_FRAMES), 0, 0, FRAMES), 0, FRAMES, floor)
        encoder.run([whole], encoder.layers)
        begin, end = encoder.context(0, n)
        e = encoder.whole(encoder.stem(mel.window(2 * begin, 2 * end), begin, 0, n), mel.floor, floor)
        encoder.run([e], encoder.layers)
        assert e.probes is not None
        states = e.probes.pad(e.x[None], frozen.states[None])[0]
    deaf = (frozen.states[n:] - whole.x[n:]).norm()
    assert (states[n:] - whole.x[n:]).norm() < 0.6 * deaf
    assert (states[:n] - whole.x[:n]).norm() < 0.05 * whole.x[:n].norm()
