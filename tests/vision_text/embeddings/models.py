"""Small models with random weights, saved by the libraries that real ones are saved by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

_WORDS = "a the cat dog sat ran on mat blue sky query passage : . ##s ##ing"
WORDS = tuple(_WORDS.split())


def save_tokeniser(directory: Path, most: int) -> None:
    """A word-piece tokeniser in BERT's manner."""
    vocabulary = {word: n for n, word in enumerate(("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS))}
    tokeniser = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokeniser.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokeniser.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokeniser.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    from transformers import PreTrainedTokenizerFast

    fast = PreTrainedTokenizerFast(
        tokenizer_object=tokeniser,
        pad_token="[PAD]",
        unk_token="[UNK]",
        cls_token="[CLS]",
        sep_token="[SEP]",
        mask_token="[MASK]",
        model_max_length=most,
    )
    fast.save_pretrained(directory)


def save_encoder(directory: Path, kind: str = "bert", seed: int = 0, **changed: Any) -> Path:
    """An encoder of one of transformers' classes, with its tokeniser."""
    import transformers

    names = {
        "bert": ("BertConfig", "BertModel"),
        "roberta": ("RobertaConfig", "RobertaModel"),
        "xlm-roberta": ("XLMRobertaConfig", "XLMRobertaModel"),
        "mpnet": ("MPNetConfig", "MPNetModel"),
        "distilbert": ("DistilBertConfig", "DistilBertModel"),
        "modernbert": ("ModernBertConfig", "ModernBertModel"),
    }
    config, model = (getattr(transformers, name) for name in names[kind])
    torch.manual_seed(seed)
    sizes: dict[str, Any] = {
        "vocab_size": 64,
        "hidden_size": 32,
        "num_hidden_layers": 3,
        "num_attention_heads": 4,
        "intermediate_size": 64,
        "max_position_embeddings": 66,
        "pad_token_id": 1 if "roberta" in kind or kind == "mpnet" else 0,
    }
    if kind == "distilbert":
        sizes |= {"dim": 32, "n_layers": 3, "n_heads": 4, "hidden_dim": 64}
    if kind == "modernbert":
        sizes |= {"bos_token_id": 2, "eos_token_id": 3, "cls_token_id": 2, "sep_token_id": 3}
    made = model(config(**sizes | changed)).eval()
    for parameter in made.parameters():  # far from the small numbers that a fresh model has, so that mistakes show
        torch.nn.init.normal_(parameter, std=0.3) if parameter.dim() > 1 else torch.nn.init.normal_(parameter, 0.5, 0.3)
    directory.mkdir(parents=True, exist_ok=True)
    made.save_pretrained(directory)
    save_tokeniser(directory, 64)
    return directory


def save_sentence_model(
    directory: Path,
    kind: str = "bert",
    pooling: str = "mean",
    *,
    normalise: bool = True,
    dense: int | None = None,
    prompts: dict[str, str] | None = None,
    include_prompt: bool = True,
    sizes: tuple[int, ...] = (),
    seed: int = 0,
    **changed: Any,
) -> Path:
    """The same with what sentence-transformers puts behind it, saved by that library."""
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer import modules as models

    encoder = save_encoder(directory.with_name(directory.name + "-encoder"), kind, seed, **changed)
    transformer = models.Transformer(str(encoder), max_seq_length=64)
    parts: list[Any] = [transformer, models.Pooling(32, pooling_mode=pooling, include_prompt=include_prompt)]
    if dense is not None:
        parts.append(models.Dense(32, dense, activation_function=torch.nn.Tanh()))
    if normalise:
        parts.append(models.Normalize())
    SentenceTransformer(modules=parts, prompts=prompts, device="cpu").save(str(directory))
    if sizes:
        path = directory / "config_sentence_transformers.json"
        path.write_text(json.dumps(json.loads(path.read_text()) | {"matryoshka_dimensions": list(sizes)}))
    return directory


def save_clip(directory: Path, kind: str = "clip") -> Path:
    """A model of texts and pictures, with what prepares both."""
    import transformers

    torch.manual_seed(0)
    text = {"hidden_size": 32, "intermediate_size": 64, "num_attention_heads": 4, "num_hidden_layers": 2}
    vision = text | {"image_size": 30, "patch_size": 15}
    text |= {"vocab_size": 64, "max_position_embeddings": 16, "bos_token_id": 2, "eos_token_id": 3, "pad_token_id": 0}
    if kind == "clip":
        config = transformers.CLIPConfig(text_config=text, vision_config=vision, projection_dim=24)
        transformers.CLIPModel(config).save_pretrained(directory)
        transformers.CLIPImageProcessor(size=30, crop_size=30).save_pretrained(directory)
    else:
        config = transformers.SiglipConfig(text_config=text | {"projection_size": 32}, vision_config=vision)
        transformers.SiglipModel(config).save_pretrained(directory)
        transformers.SiglipImageProcessor(size={"height": 30, "width": 30}).save_pretrained(directory)
    save_tokeniser(directory, 16)
    return directory


def save_reranker(directory: Path) -> Path:
    """A cross-encoder."""
    import transformers

    torch.manual_seed(0)
    config = transformers.BertConfig(
        vocab_size=64,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        num_labels=1,
    )
    model = transformers.BertForSequenceClassification(config)
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(directory)
    save_tokeniser(directory, 64)
    return directory


def export_onnx(directory: Path, target: Path | None = None) -> None:
    """The encoder of a directory as ONNX, where sentence-transformers keeps it."""
    import transformers

    model = transformers.AutoModel.from_pretrained(directory, attn_implementation="eager").eval()
    target = target or directory / "onnx" / "model.onnx"
    target.parent.mkdir(exist_ok=True)

    class Bare(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.model = model

        def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> Any:
            return self.model(input_ids=input_ids, attention_mask=attention_mask).last_hidden_state

    names = ["input_ids", "attention_mask"]
    ids = torch.tensor([[2, 6, 7, 3], [2, 8, 9, 3]])
    axes = {name: {0: "texts", 1: "tokens"} for name in (*names, "output")}
    torch.onnx.export(
        Bare(),
        (ids, torch.ones_like(ids)),
        str(target),
        input_names=names,
        output_names=["output"],
        dynamic_axes=axes,
        dynamo=False,
        opset_version=17,
    )
