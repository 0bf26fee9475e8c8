"""Settings: one name in flags, environment and file; what is refused, and that no message shows a key."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.setting_values import is_loopback
from gateway.settings import Settings, SettingsInvalid, load_settings

SECRET = "very-secret-key-0123456789"


@pytest.fixture(autouse=True)
def no_settings_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(f"SPEECHLANE_{name.upper()}", raising=False)


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


def test_flags_win_over_variables_over_the_file_over_defaults(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = write(tmp_path / "s.toml", 'port = 1001\nmax_files = 2\nmodels = ["base"]\ndrain_seconds = 1.5\n')
    assert load_settings().port == 8700
    assert load_settings(config=config).port == 1001
    monkeypatch.setenv("SPEECHLANE_PORT", "1002")
    monkeypatch.setenv("SPEECHLANE_MAX_FILES", "3")
    settings = load_settings(config=config, port=1003)
    assert (settings.port, settings.max_files, settings.models, settings.drain_seconds) == (1003, 3, ("base",), 1.5)


def test_the_file_may_be_named_by_a_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECHLANE_CONFIG", str(write(tmp_path / "s.toml", "max_sessions = 7")))
    assert load_settings().max_sessions == 7


def test_lists_are_given_with_commas_or_as_toml_lists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPEECHLANE_MODELS", "tiny.en, base")
    assert load_settings().models == ("tiny.en", "base")
    assert load_settings(models="base").models == ("base",)
    config = write(tmp_path / "s.toml", f'api_keys = ["{SECRET}", "second"]')
    assert load_settings(config=config).keys() == (SECRET, "second")


@pytest.mark.parametrize(
    ("flags", "named", "remedy"),
    [
        ({"host": "0.0.0.0"}, "host 0.0.0.0", "SPEECHLANE_API_KEYS"),
        ({"host": "192.0.2.7"}, "host 192.0.2.7", "api_keys_file"),
        ({"port": 70000}, "port", "65535"),
        ({"port": "http"}, "port", "integer"),
        ({"max_files": 0}, "max_files", "greater than or equal to 1"),
        ({"models": ""}, "models", "tiny.en"),
        ({"log_level": "loud"}, "log_level", "'debug'"),
        ({"config": Path("nowhere.toml")}, "config", "no file"),
        ({"api_keys_file": Path("nowhere")}, "api_keys_file", "cannot be read"),
        ({"no_such": 1}, "no_such", "no such setting"),
    ],
)
def test_what_cannot_be_is_refused_by_name(flags: dict[str, Any], named: str, remedy: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(**flags)
    assert named in str(caught.value)
    assert remedy in str(caught.value)


def test_an_unknown_or_broken_file_is_refused_by_name(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="hots: there is no such setting"):
        load_settings(config=write(tmp_path / "a.toml", 'hots = "0.0.0.0"'))
    with pytest.raises(SettingsInvalid, match=r"config: .*line 1"):
        load_settings(config=write(tmp_path / "b.toml", "port = = 1"))


def test_any_address_may_be_used_with_a_key(tmp_path: Path) -> None:
    file = write(tmp_path / "keys", f"# of the office\n{SECRET}\n\n  second  \n")
    assert load_settings(host="0.0.0.0", api_keys_file=file).keys() == (SECRET, "second")
    assert load_settings(host="::", api_keys=SECRET).keys() == (SECRET,)
    with pytest.raises(SettingsInvalid, match="holds no key"):
        load_settings(api_keys_file=write(tmp_path / "empty", "# none yet\n"))


@pytest.mark.parametrize("bad", [f"{SECRET} with space", f"{SECRET}é", f'{SECRET}"', f"{SECRET}(x)"])
def test_a_key_that_browsers_cannot_send_is_refused_and_not_shown(bad: str) -> None:
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(api_keys=f"good-key,{bad}")
    assert "API key 2" in str(caught.value)
    assert SECRET not in str(caught.value)


def test_keys_do_not_show_in_settings_or_errors() -> None:
    settings = load_settings(api_keys=SECRET)
    assert SECRET not in repr(settings) + str(settings) + settings.model_dump_json()
    with pytest.raises(SettingsInvalid) as caught:
        load_settings(api_keys=[{"key": SECRET}])
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    ("host", "loopback"),
    [
        *((host, True) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost")),
        *((host, False) for host in ("0.0.0.0", "::", "10.0.0.1", "example.org", "localhost.example")),
    ],
)
def test_which_addresses_are_this_machines_own(host: str, loopback: bool) -> None:
    assert is_loopback(host) is loopback


@given(host=st.ip_addresses().map(str).filter(lambda host: not is_loopback(host)))
def test_no_foreign_address_starts_without_a_key(host: str) -> None:
    with pytest.raises(SettingsInvalid, match="API key is needed"):
        load_settings(host=host)
