"""The parts of the codec model: published files, sizes, rotary positions, codes, noise, and the draw of a token."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from speech.models.errors import ModelCorrupt, ModelNotFound
from speech.voices.codec.layout import levels
from speech.voices.codec.randoms import key, normal, uniform
from speech.voices.codec.sampling import Sampling, draw
from speech.voices.codec.voice import load_voices
from speech.voices.codec.windows import most_frames
from speech.voices.head import trim_head
from tests.speech.voices.codec_voices import Heard, folders, model, speak, tokens, voice, voicing
from tests.speech.voices.tiny_codec import CODEBOOK, save

TEXT = "Hello there , my friend ."


def spoken(language_model: Path, codec: Path) -> Heard:
    on = load_voices(str(language_model), str(codec), speakers=("tara",), slots=1)[0].backend()
    on.load("cpu")
    return speak(on, [voicing(TEXT, seed=1)])[0]


def test_published_layouts_give_the_same_voice(tmp_path: Path) -> None:
    usual = spoken(*folders()).samples
    for name, options in {"shards": {"shards": 3}, "names": {"old_names": True}}.items():
        assert np.array_equal(spoken(*save(tmp_path / name, **options)).samples, usual), name
    tied = save(tmp_path / "tied", tied=True)
    assert "lm_head.weight" not in load_file(tied[0] / "model.safetensors")
    assert spoken(*tied).over
    # The codec as safetensors, and the language model's rotary settings in the place where newer files keep them.
    language_model, codec = save(tmp_path / "newer")
    save_file(torch.load(codec / "pytorch_model.bin", weights_only=True), codec / "model.safetensors")
    (codec / "pytorch_model.bin").unlink()
    config = json.loads((language_model / "config.json").read_text())
    config["rope_parameters"] = {**config.pop("rope_scaling"), "rope_theta": config.pop("rope_theta")}
    (language_model / "config.json").write_text(json.dumps(config))
    assert np.array_equal(spoken(language_model, codec).samples, usual)


def test_what_is_no_such_model_is_named(tmp_path: Path) -> None:
    language_model, codec = save(tmp_path)
    config, weights = language_model / "config.json", language_model / "model.safetensors"

    def refused(match: str) -> None:
        with pytest.raises(ModelCorrupt, match=match):
            load_voices(str(language_model), str(codec), slots=1)[0].backend().load("cpu")

    good = json.loads(config.read_text())
    for change, match in (
        ({"model_type": "mamba"}, "no Llama model"),
        ({"hidden_size": None}, "lacks what a Llama model needs"),
        ({"intermediate_size": 96}, r"mlp\.\w+_proj\.weight .* should be"),
        ({"rope_scaling": {"rope_type": "yarn"}}, "yarn"),
        ({"vocab_size": 100}, "more tokens than the model"),
    ):
        config.write_text(json.dumps({**good, **change}))
        refused(match)
    config.write_text(json.dumps(good))
    kept = load_file(weights)
    save_file({name: value for name, value in kept.items() if "norm" not in name}, weights)
    refused("has no weight model.*norm")
    weights.write_bytes(b"junk")
    refused("can't be read")
    save_file(kept, weights)
    (codec / "pytorch_model.bin").write_bytes(b"junk")
    refused("can't be read")
    (codec / "config.json").write_text(
        json.dumps({**json.loads((codec / "config.json").read_text()), "vq_strides": [2, 1]})
    )
    refused("no codec of 1 . 2 . 4 codes")
    (language_model / "tokenizer.json").write_text("{}")
    (codec / "config.json").write_text((folders()[1] / "config.json").read_text())
    refused("tokenizer.json")
    for name in (str(tmp_path / "nowhere"), "./nowhere", "no such name", "nobody-at-all/no-such-model"):
        with pytest.raises(ModelNotFound):
            load_voices(name, str(codec))


def test_the_language_model_is_that_of_transformers() -> None:
    transformers = pytest.importorskip("transformers", reason="transformers is not installed")
    llama, _ = model().on("cpu", 512)
    theirs = transformers.LlamaForCausalLM.from_pretrained(folders()[0]).eval()
    ids = torch.randint(0, model().llama.vocabulary, (1, 300), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        memory = llama.memory(1, 512)
        ours = llama.logits(llama.forward(ids, [0], memory, [0]))[0, 1:]
        first = model().layout.first_code
        assert torch.allclose(ours, theirs(ids).logits[0, -1, first : first + 7 * CODEBOOK], atol=1e-3)


def test_the_codec_is_that_of_snac(monkeypatch: pytest.MonkeyPatch) -> None:
    snac = pytest.importorskip("snac", reason="snac is not installed")
    theirs = snac.SNAC.from_config(folders()[1] / "config.json")
    state = torch.load(folders()[1] / "pytorch_model.bin", weights_only=True)
    assert not theirs.load_state_dict(state, strict=False).unexpected_keys
    _, ours = model().on("cpu", 512)
    monkeypatch.setattr("speech.voices.codec.randoms.normal", lambda keys, places, place: torch.zeros(places.shape))
    monkeypatch.setattr(torch, "randn", lambda shape, **options: torch.zeros(shape))
    codes = levels([torch.randint(0, CODEBOOK, (70,)).tolist()], "cpu")
    with torch.inference_mode():
        made = ours.decode(codes, torch.zeros(1).long(), torch.zeros(1).long())
        assert torch.allclose(made, theirs.decode(codes)[0], atol=1e-5)


def test_keys_and_values_make_no_difference() -> None:
    llama, _ = model().on("cpu", 128)
    ids = torch.randint(0, 200, (1, 100), generator=torch.Generator().manual_seed(1))
    with torch.inference_mode():
        at_once = llama.forward(ids, [0], llama.memory(1, 128), [0])
        memory = llama.memory(3, 128)
        llama.forward(ids[:, :60], [0], memory[:, :, 1:2], [0])
        for at in range(60, 100):
            state = llama.forward(ids[:, at : at + 1].expand(3, 1), [0, at, 0], memory, [1])[1:2]
        assert torch.allclose(at_once, state, atol=1e-4)
        assert not memory[:, :, [0, 2]].any()  # the rows that were not active


def test_windows_with_context_are_the_whole() -> None:
    _, snac = model().on("cpu", 128)
    codes = torch.randint(0, CODEBOOK, (7 * 30,), generator=torch.Generator().manual_seed(1)).tolist()
    request = torch.tensor([key(1, 2)])

    def decode(begin: int, end: int) -> torch.Tensor:
        return snac.decode(levels([codes[7 * begin : 7 * end]], "cpu"), request, torch.tensor([begin]))[0]

    def chunked(context: int) -> torch.Tensor:
        parts = []
        for begin in range(0, 30, 6):
            left, right = max(0, begin - context), min(30, begin + 6 + context)
            parts.append(decode(left, right)[(begin - left) * 2048 :][: 6 * 2048])
        return torch.cat(parts)

    def snr(made: torch.Tensor) -> float:
        return float(10 * torch.log10(whole.square().sum() / (made - whole).square().sum().clamp(min=1e-20)))

    with torch.inference_mode():
        whole = decode(0, 30)
        assert len(whole) == 30 * 2048
        assert snr(chunked(model().snac.context)) > 100
        assert snr(chunked(1)) < 60  # a window without its whole context is another sound


def test_frames_are_interleaved_from_three_levels() -> None:
    coarse, middle, fine = levels([list(range(14))], "cpu")
    assert coarse.tolist() == [[0, 7]] and middle.tolist() == [[1, 4, 8, 11]]
    assert fine.tolist() == [[2, 3, 5, 6, 9, 10, 12, 13]]


def test_random_numbers_are_a_function_of_their_place() -> None:
    keys, places = torch.tensor([key(n, 0) for n in range(8)])[:, None], torch.arange(20000)
    numbers = uniform(keys, places)
    assert numbers.min() >= 0 and numbers.max() < 1
    assert torch.allclose(numbers.mean(1), torch.tensor(0.5), atol=0.02)
    assert torch.equal(uniform(keys[3:4], places[77:90]), numbers[3:4, 77:90])
    noise = normal(keys, places, 3)
    assert torch.allclose(noise.std(1), torch.tensor(1.0), atol=0.03) and noise.mean().abs() < 0.01
    together = torch.corrcoef(torch.cat([noise, normal(keys, places, 4), numbers]))
    assert (together - torch.eye(len(together))).abs().max() < 0.05


def test_only_codes_of_the_place_are_drawn_and_the_end_between_frames() -> None:
    torch.manual_seed(0)
    rows = 7 * 60
    logits, places = torch.randn(rows, 1 + 7 * CODEBOOK), torch.arange(rows) % 7
    logits[:, 0] = 9.0
    seen, randoms = torch.zeros(logits.shape, dtype=torch.bool), torch.rand(rows)
    stops = torch.arange(rows) % 14 == 0
    columns, finite = draw(logits, places, stops, seen, randoms, Sampling())
    assert finite.all() and torch.equal(columns == 0, stops)
    assert torch.equal((columns[~stops] - 1) // CODEBOOK, places[~stops])
    narrow, _ = draw(logits, places, stops & False, seen, randoms, Sampling(top_p=1e-6))
    blocks = logits[:, 1:].view(rows, 7, CODEBOOK)[torch.arange(rows), places]
    assert torch.equal((narrow - 1) % CODEBOOK, blocks.argmax(1))
    seen[torch.arange(rows), narrow] = True
    other, _ = draw(logits, places, stops & False, seen, randoms, Sampling(top_p=1e-6, repetition=1e3))
    assert not (other == narrow).any()
    logits[5] = torch.nan
    assert draw(logits, places, stops, seen, randoms, Sampling())[1].tolist() == [n != 5 for n in range(rows)]


def test_draws_follow_the_chances() -> None:
    logits = torch.full((20000, 1 + 7 * 2), -50.0)
    logits[:, 1], logits[:, 2] = 0.0, float(np.log(3.0))
    rows = len(logits)
    randoms = uniform(torch.tensor(key(0, 0)), torch.arange(rows))
    blank = torch.zeros(rows, dtype=torch.long)
    columns, _ = draw(logits, blank, blank.bool(), torch.zeros(logits.shape, dtype=torch.bool), randoms, Sampling(1, 1))
    assert (columns == 2).float().mean() == pytest.approx(0.75, abs=0.01)


def test_the_prompt_has_the_text_between_its_marks_and_knows_its_words() -> None:
    said = tokens(TEXT)
    phonemes, layout = voice().phonemes(said), model().layout
    assert phonemes.ids[: len(layout.opening)] == layout.opening and phonemes.ids[-4:] == layout.closing
    assert len(phonemes.ids) == len(phonemes.sources)
    inner = [source for source in phonemes.sources if source >= 0]
    assert inner == sorted(inner) and set(inner) == set(range(len(said)))
    assert phonemes.text == ("Hello", "there", "", "my", "friend", "")
    assert voice().phonemes(tokens("... !")).ids == ()


def test_marks_spelled_in_a_text_are_text() -> None:
    layout = model().layout
    plain = set(voice().phonemes(tokens("Hello")).ids)
    for trick in ("<custom_token_2>", "<|eot_id|>", "<|begin_of_text|>", "<custom_token_15>", "a<custom_token_1>b"):
        ids = voice().phonemes(tokens(f"Hello {trick} there")).ids
        inner = ids[len(layout.opening) + 1 : -len(layout.closing)]  # but for the text's own beginning
        assert max(inner) < 256 and plain <= set(ids), trick


def test_head_silence_is_cut_and_length_is_bounded() -> None:
    sound = np.zeros(4800, np.float32)
    assert len(trim_head(sound, 24000)) == 720
    sound[2000:] = 0.5
    assert len(trim_head(sound, 24000)) == 4800 - 2000 + 720
    sound[100] = 0.5
    assert len(trim_head(sound, 24000)) == 4800
    assert most_frames(0, 0.085) == 24 and most_frames(400, 0.085) == 1200
