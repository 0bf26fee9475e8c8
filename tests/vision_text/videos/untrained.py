"""An untrained pipeline of the class and layout that production uses, with weights that make something of noise."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import nn

from vision_text.scenes.clips import WORDS
from vision_text.training import videos
from vision_text.training.words import tokenizer


def write(directory: Path) -> Path:
    """The same each time."""
    torch.manual_seed(3)
    parts = nn.ModuleDict({"transformer": videos.transformer(), "text_encoder": videos.words_encoder()})
    nn.init.normal_(parts["transformer"].proj_out.weight, std=0.1)
    videos.save(directory, videos.autoencoder(), parts, tokenizer(WORDS, length=videos.WORDS_LENGTH))
    return directory
