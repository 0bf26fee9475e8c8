"""A codec language model of a production class with some 150,000 random weights, saved in the published layouts.

Nobody understands what it says. It serves to test the path that a real one takes, from the files to the samples.
"""

from __future__ import annotations

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers, processors

from speech.voices.codec.checkpoint import llama_config, snac_config
from speech.voices.codec.layout import FRAME

CODEBOOK = 16
SCALING = {
    "rope_type": "llama3",
    "factor": 32.0,
    "low_freq_factor": 1.0,
    "high_freq_factor": 4.0,
    "original_max_position_embeddings": 8192,
}


def save(folder: Path, *, tied: bool = False, shards: int = 1, old_names: bool = False) -> tuple[Path, Path]:
    """The folders of the language model and of the codec, made below `folder`."""
    language_model, codec = folder / "language-model", folder / "codec"
    language_model.mkdir(parents=True)
    codec.mkdir()
    generator = torch.Generator().manual_seed(7)
    vocabulary = save_tokenizer(language_model)
    save_llama(language_model, vocabulary, generator, tied=tied, shards=shards)
    save_snac(codec, generator, old_names=old_names)
    return language_model, codec


def save_tokenizer(folder: Path) -> int:
    """Bytes, a text's beginning and end, the marks and codes of a speech model; how many tokens that makes."""
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    tokenizer = Tokenizer(models.BPE(vocab={byte: i for i, byte in enumerate(alphabet)}, merges=[]))
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = ["<|begin_of_text|>", "<|eot_id|>", *(f"<custom_token_{n}>" for n in range(10 + FRAME * CODEBOOK))]
    tokenizer.add_special_tokens([AddedToken(mark, special=True) for mark in marks[:2]])
    tokenizer.add_tokens([AddedToken(mark) for mark in marks[2:]])
    begin = tokenizer.token_to_id(marks[0])
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{marks[0]} $A", special_tokens=[(marks[0], begin)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    return tokenizer.get_vocab_size()


def save_llama(folder: Path, vocabulary: int, generator: torch.Generator, *, tied: bool, shards: int) -> None:
    end = Tokenizer.from_file(str(folder / "tokenizer.json")).token_to_id("<custom_token_2>")
    config = {
        "model_type": "llama",
        "architectures": ["LlamaForCausalLM"],
        "hidden_size": 64,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 16,
        "intermediate_size": 128,
        "vocab_size": vocabulary,
        "max_position_embeddings": 131072,
        "rms_norm_eps": 1e-5,
        "rope_theta": 500000.0,
        "rope_scaling": SCALING,
        "tie_word_embeddings": tied,
        "hidden_act": "silu",
        "torch_dtype": "float32",
    }
    (folder / "config.json").write_text(json.dumps(config))
    weights = {}
    for name, shape in llama_config(folder).shapes().items():
        if "norm" in name:
            weights[name] = torch.ones(shape)
        else:
            weights[name] = torch.randn(shape, generator=generator) * (0.2 if "mlp" in name or "head" in name else 0.3)
    if not tied:  # with random weights it would seldom end by itself
        weights["lm_head.weight"][end] *= 1.3
    if shards == 1:
        save_file(weights, folder / "model.safetensors")
        return
    names = sorted(weights)
    files = {f"model-{n + 1:05}-of-{shards:05}.safetensors": names[n::shards] for n in range(shards)}
    for file, part in files.items():
        save_file({name: weights[name] for name in part}, folder / file)
    where = {name: file for file, part in files.items() for name in part}
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": where}))


def save_snac(folder: Path, generator: torch.Generator, *, old_names: bool) -> None:
    config = {
        "sampling_rate": 24000,
        "encoder_dim": 2,
        "encoder_rates": [2, 4, 8, 8],
        "decoder_dim": 64,
        "decoder_rates": [8, 8, 4, 2],
        "attn_window_size": None,
        "codebook_size": CODEBOOK,
        "codebook_dim": 8,
        "vq_strides": [4, 2, 1],
        "noise": True,
        "depthwise": True,
    }
    (folder / "config.json").write_text(json.dumps(config))
    state = {}
    for name, shape in snac_config(folder).shapes().items():
        if name.endswith("alpha"):
            state[name] = torch.rand(shape, generator=generator) + 0.5
        elif name.endswith("bias") or "codebook" in name:
            state[name] = torch.randn(shape, generator=generator) * (1.0 if "codebook" in name else 0.1)
        else:  # a convolution under weight norm: a length for each of its first dimension, and a direction
            base = name.removesuffix("weight")
            old = (f"{base}weight_g", f"{base}weight_v")
            new = (f"{base}parametrizations.weight.original0", f"{base}parametrizations.weight.original1")
            length, direction = old if old_names else new
            # Quiet where something is added to what there is, and in the last one, so that samples are not all 1 or -1.
            loud = 0.1 if name.endswith(("block.3.weight", "linear.weight")) or shape[0] == 1 else 1.0
            state[length] = (torch.rand(shape[0], 1, 1, generator=generator) * 0.5 + 0.75) * loud
            state[direction] = torch.randn(shape, generator=generator)
    torch.save(state, folder / "pytorch_model.bin")
