"""One thread: the models are too small for more, and threads that wait for each other on a busy machine stand still."""

from collections.abc import Iterator

import pytest
import torch

from vision_text.denoise.backend import DenoiseBackend
from vision_text.denoise.loading import read_pipeline


@pytest.fixture(scope="package", autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="package")
def backend() -> Iterator[DenoiseBackend]:
    made = DenoiseBackend("image", *read_pipeline("shapes-image"))
    made.load("cpu")
    yield made
    made.close()
