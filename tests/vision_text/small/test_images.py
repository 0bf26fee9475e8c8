"""The small image model, through FluxPipeline itself, and the files that every small model consists of."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from vision_text import small
from vision_text.models import ModelUnusable, resolve
from vision_text.scenes.pictures import WORDS, prompt
from vision_text.small import SmallDamaged, small_model, small_models
from vision_text.training import publish as publishing
from vision_text.training.images import Stage, autoencoder, train_painter
from vision_text.training.images_score import GUIDANCE, held_out_scenes, load, paint, score

NAME = "shapes-image"


@pytest.fixture(scope="module", autouse=True)
def _one_thread() -> Any:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def pipeline() -> Any:
    return load(small_model(NAME))


def test_it_paints_what_it_is_told_though_it_never_learned_these_scenes(pipeline: Any) -> None:
    scenes = held_out_scenes(32, seed=9)
    found = score(paint(pipeline, scenes, steps=12, guidance=GUIDANCE), scenes)
    assert found.all >= 0.8, found


def test_the_same_seed_gives_the_same_picture_and_another_one_another(pipeline: Any) -> None:
    scenes = held_out_scenes(2)
    first, again, other = (paint(pipeline, scenes, steps=3, guidance=GUIDANCE, seed=seed) for seed in (1, 1, 2))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_all_words_of_scenes_are_known(pipeline: Any) -> None:
    longest = max((prompt(scene) for scene in held_out_scenes(20)), key=len)
    for tokens in (pipeline.tokenizer, pipeline.tokenizer_2):
        assert tokens.model_max_length == 12
        ids = tokens([*WORDS, longest], padding="max_length").input_ids
        assert {len(row) for row in ids} == {12}
        assert not any(tokens.unk_token_id in row for row in ids)
        assert all(tokens.eos_token_id in row for row in ids)
        assert tokens.unk_token_id in tokens("a purple giraffe").input_ids


def test_a_picture_is_36_tokens_in_single_precision(pipeline: Any) -> None:
    assert pipeline.vae_scale_factor == 4
    assert pipeline.transformer.config.guidance_embeds is False
    assert {weight.dtype for part in pipeline.components.values() if isinstance(part, torch.nn.Module)
            for weight in part.parameters()} == {torch.float32}  # fmt: skip


@pytest.mark.parametrize("name", sorted(small_models()))
def test_every_small_model_is_hashed_whole_and_holds_nothing_that_runs(name: str) -> None:
    home = small_model(name)
    files = {path.relative_to(home).as_posix() for path in home.rglob("*") if path.is_file()}
    assert files == set(small_models()[name].sha256)
    assert {Path(file).suffix for file in files} <= {".json", ".jinja", ".safetensors", ".txt"}
    assert sum((home / file).stat().st_size for file in files) < 8 * 2**20
    assert not any("name_or_path" in (home / file).read_text() for file in files if file.endswith(".json"))


def test_it_resolves_by_name_like_other_models_and_has_the_revision_of_its_weights() -> None:
    found = resolve(NAME)
    assert (found.name, found.directory, found.origin) == (NAME, small_model(NAME), "package")
    assert found.revision == resolve(str(found.directory)).revision


def test_a_damaged_file_is_not_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(small_model(NAME), tmp_path / NAME)
    monkeypatch.setattr(small, "__file__", str(tmp_path / "__init__.py"))
    assert small_model(NAME) == tmp_path / NAME
    config = tmp_path / NAME / "model_index.json"
    config.write_text(config.read_text() + " ")
    with pytest.raises(SmallDamaged, match=r"model_index.json.*sha256.*vision_text.training.images"):
        small_model(NAME)
    config.unlink()
    with pytest.raises(ModelUnusable, match="nothing"):
        resolve(NAME)


def test_nobody_knows_a_model_that_is_not_there() -> None:
    with pytest.raises(KeyError):
        small_model("shapes-nothing")


def test_training_leaves_a_directory_that_the_library_loads_and_publishing_names_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage("brief", steps=2, planned=2, rate=1e-3, mistold=0.5)
    trained = train_painter(tmp_path / "work", autoencoder().eval(), stage, small_model(NAME), kept=50)
    (picture,) = paint(load(trained), held_out_scenes(1), steps=1, guidance=1.0)
    assert picture.shape == (48, 48, 3)

    room = tmp_path / "room"
    room.mkdir()
    manifest = room / "manifest.toml"
    manifest.write_text('# Models.\n\n[[bundle]]\nname = "other"\n\n[[small]]\nname = "shapes-new"\nscore = 0.1\n')
    monkeypatch.setattr(publishing, "_ROOM", room)
    (trained / "notes.bin").write_bytes(b"pickled")
    for seed in (1, 2):
        home = publishing.publish(
            "shapes-new", trained, task="image", script="x", seed=seed, score=0.91234, measure="all right"
        )
    assert not (home / "notes.bin").exists()
    table = manifest.read_text()
    assert table.startswith('# Models.\n\n[[bundle]]\nname = "other"\n\n[[small]]\nname = "shapes-new"\n')
    assert table.count("[[small]]") == 1
    assert "score = 0.9123\n" in table
    assert "seed = 2\n" in table
