"""What must hold of the repository as a whole: its form, its documents and the package it builds."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
import typer.main

from speech.models import verify

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text("utf-8")
MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    """Every file that git tracks and that exists, relative to the root."""
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    return [Path(name) for name in listing.split("\0") if name and (ROOT / name).is_file()]


def test_no_file_names_a_place_on_somebodys_machine(tracked: list[Path]) -> None:
    homes = r"/(?:home|Users)/[A-Za-z]\w*"
    place = re.compile("|".join((re.escape(f"{ROOT}/"), re.escape(f"{Path.home()}/"), homes)))
    found = []
    for path in tracked:
        data = (ROOT / path).read_bytes()
        if b"\0" not in data:
            found += [f"{path}: {hit.group()}" for hit in place.finditer(data.decode("utf-8", "replace"))]
    assert found == []


def test_no_python_file_of_the_product_is_longer_than_350_lines(tracked: list[Path]) -> None:
    product = [path for path in tracked if path.suffix == ".py" and path.parts[0] != "tests"]
    lengths = {path: len((ROOT / path).read_text("utf-8").splitlines()) for path in product}
    assert {str(path): lines for path, lines in lengths.items() if lines > 350} == {}


def test_every_directory_has_a_purpose_in_the_architecture(tracked: list[Path]) -> None:
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    directories = {path.parts[0] for path in tracked if len(path.parts) > 1 and not path.parts[0].startswith(".")}
    assert directories
    assert [name for name in sorted(directories) if f"| `{name}/` |" not in text] == []


def test_installed_weights_are_those_of_the_manifest() -> None:
    assert [found for found in verify() if found.state != "ok"] == []


def test_make_knows_every_target_the_readme_names() -> None:
    targets = set(re.findall(r"^([a-z-]+):", MAKEFILE, re.MULTILINE))
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", README, re.MULTILINE))
    assert {"serve", "test", "install", "lint"} <= named
    assert named <= targets


def test_the_command_line_has_every_command_the_readme_names() -> None:
    from gateway.cli import app

    group = typer.main.get_command(app)
    commands = group.list_commands(group.make_context("speechlane", [], resilient_parsing=True))  # type: ignore[attr-defined]
    named = set(re.findall(r"\.venv/bin/speechlane ([a-z]+)", README))
    assert {"serve", "listen", "transcribe", "models", "doctor", "load", "capacity"} <= named
    assert named <= set(commands)


def test_the_recordings_that_the_readme_names_exist() -> None:
    named = set(re.findall(r"tests/data/[\w./-]+", README))
    assert named
    assert [name for name in sorted(named) if not (ROOT / name).is_file()] == []


@pytest.mark.parametrize("name", ["README.md", "docs/batch.md", "docs/realtime.md", "docs/speak.md"])
def test_python_in_the_documents_compiles(name: str) -> None:
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / name).read_text("utf-8"), re.DOTALL)
    assert blocks
    for block in blocks:
        compile(block, name, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


def test_every_dependency_is_pinned_and_within_its_range() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    lines = (ROOT / "constraints.txt").read_text("utf-8").splitlines()
    pins = {
        canonicalize_name(name): version
        for name, _, version in (line.partition("==") for line in lines if not line.startswith("#"))
    }
    wanted = [*PROJECT["dependencies"], *(row for rows in PROJECT["optional-dependencies"].values() for row in rows)]
    for requirement in map(Requirement, wanted):
        if requirement.name != PROJECT["name"]:
            assert requirement.specifier.contains(pins[canonicalize_name(requirement.name)]), requirement


def test_the_package_carries_the_page_and_the_manifest(tracked: list[Path], tmp_path: Path) -> None:
    source = tmp_path / "source"  # setuptools builds inside the tree it is given
    rooms = ("workers", "speech", "batch_jobs", "gateway", "speechlane")
    for path in tracked:
        if path.parts[0] in rooms or len(path.parts) == 1:
            (source / path).parent.mkdir(parents=True, exist_ok=True)
            (source / path).write_bytes((ROOT / path).read_bytes())
    subprocess.run(
        [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation", "-w", tmp_path, source],
        check=True,
        stdin=subprocess.DEVNULL,
    )
    (wheel,) = tmp_path.glob("speechlane-*.whl")
    with zipfile.ZipFile(wheel) as archive:
        packed = set(archive.namelist())
        entry_points = next(name for name in packed if name.endswith("entry_points.txt"))
        assert "speechlane = gateway.cli:app" in archive.read(entry_points).decode()
    wanted = {str(path) for path in tracked if path.parts[0] in rooms}
    assert "speech/models/manifest.toml" in wanted
    assert any(name.startswith("gateway/web/") for name in wanted)
    assert wanted - packed == set(), "every tracked file of the rooms is in the wheel"
    assert {name.split("/")[0] for name in packed if ".dist-info/" not in name} == set(rooms)
