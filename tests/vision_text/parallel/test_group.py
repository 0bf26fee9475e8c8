"""Two processes make what one makes, say how much they told each other, and end with a reason."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.vision_text.numerics import small
from vision_text.parallel.context import enable_context_parallel, obstacle, tokens_of
from vision_text.parallel.group import Group
from vision_text.parallel.member import load_transformer
from workers.errors import BackendDead, InputInvalid


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("transformer")
    small.cogvideox().save_pretrained(path)
    return path


@pytest.fixture(scope="module")
def group(directory: Path) -> Iterator[Group]:
    made = Group.start(directory, timeout=100)
    yield made
    made.close()


@pytest.fixture(scope="module")
def model(directory: Path) -> Any:
    return load_transformer(str(directory))


def alone(model: Any, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.inference_mode():
        made: torch.Tensor = model(**inputs, return_dict=False)[0]
    return made


def test_each_branch_on_a_rank_of_its_own_gives_what_one_process_gives_bit_for_bit(group: Group, model: Any) -> None:
    given = small.inputs()
    evaluated = group.evaluate("guidance", **given)
    rows = [{name: value if value is None else value[n : n + 1] for name, value in given.items()} for n in range(2)]
    assert torch.equal(evaluated.made, torch.cat([alone(model, row) for row in rows]))
    assert len(evaluated.seconds) == 2 and all(seconds > 0 for seconds in evaluated.seconds)
    # What one rank has made goes to the other, once each way.
    assert evaluated.sent == {"all_gather": evaluated.made.nbytes} and evaluated.calls == {"all_gather": 1}


def test_a_context_over_two_ranks_gives_what_one_gives(group: Group, model: Any) -> None:
    given = small.inputs()
    evaluated = group.evaluate("ulysses", **given)
    # Not bit for bit: keys come to a rank in another order, and so does what is summed over them.
    assert torch.allclose(evaluated.made, alone(model, given), atol=3e-6, rtol=0)
    assert torch.equal(evaluated.made, group.evaluate("ulysses", **given).made)


def test_what_is_said_is_what_the_method_says_must_be(group: Group) -> None:
    """Four exchanges in each block (queries, keys, values, results), of which half stays at home on each of two ranks,
    and one gathering of the result's tokens."""
    rows, text, width, layers, out = 2, 8, 96, 2, 4 * 2 * 2
    tokens = tokens_of(group.config, small.inputs()["hidden_states"])
    assert tokens == 8 * 4 * 4
    sent = group.evaluate("ulysses", **small.inputs()).sent
    exchanged = 2 * layers * 4 * (rows * (text + tokens) // 2 * width * 4) // 2
    assert sent == {"all_to_all": exchanged, "all_gather": rows * tokens * out * 4}


def test_what_cannot_be_shared_is_refused_before_anybody_is_asked(group: Group) -> None:
    given = small.inputs()
    odd = given | {"encoder_hidden_states": given["encoder_hidden_states"][:, :7]}
    with pytest.raises(InputInvalid, match="7 tokens of text") as refused:
        group.evaluate("ulysses", **odd)
    assert refused.value.param == "parallel"
    with pytest.raises(InputInvalid, match="as many rows, not 1"):
        group.evaluate("guidance", **small.inputs(1))
    assert group.evaluate("guidance", **given).made.isfinite().all()
    assert "3 heads" in str(obstacle({"num_attention_heads": 3}, text=8, tokens=128, ranks=2))
    with pytest.raises(ValueError, match="Ulysses alone"):
        enable_context_parallel(small.cogvideox(), ring=2)


def test_a_rank_that_dies_ends_the_group_and_not_this_process(directory: Path, group: Group) -> None:
    """Runs last: the group is over after it."""
    process = group._members[1][0]
    os.kill(process.pid, signal.SIGKILL)
    process.join()
    with pytest.raises(BackendDead, match=r"rank 1 (is gone|ended with -9)"):
        group.evaluate("guidance", **small.inputs())
    assert not any(member.is_alive() for member, _ in group._members)
    with pytest.raises(BackendDead, match="over"):
        group.evaluate("guidance", **small.inputs())
    group.close()


def test_only_models_are_loaded(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps({"_class_name": "DiffusionPipeline"}))
    with pytest.raises(ValueError, match="no model of the class"):
        load_transformer(str(tmp_path))
