"""`speechlane doctor`: is everything here that the service needs, and if not, how to mend it."""

from __future__ import annotations

import http.client
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Annotated, Literal

import typer
from rich.text import Text

from gateway.cli.console import out
from gateway.settings import SettingsInvalid, load_settings

HELP = """Check this machine: Python, packages, weights, processor, port, audio libraries, microphone.

Every line that is not in order says how to mend it. Exits with 1 when something that the service needs is missing;
a warning is something it can do without.

Examples:

  speechlane doctor

  speechlane doctor --port 9000

  speechlane doctor --json
"""

State = Literal["ok", "warning", "failed"]
PACKAGES = (
    "torch", "ctranslate2", "faster-whisper", "onnxruntime", "silero-vad", "av", "soxr", "aiohttp", "websockets"
)  # fmt: skip
MARKS: dict[State, tuple[str, str]] = {
    "ok": ("ok      ", "green"),
    "warning": ("warning ", "yellow"),
    "failed": ("FAILED  ", "bold red"),
}


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that was looked at; `remedy` is empty when it is in order."""

    what: str
    state: State
    detail: str
    remedy: str = ""


def command(
    port: Annotated[int | None, typer.Option(help="Port to look at; unset: the configured one.")] = None,
    config: Annotated[Path | None, typer.Option(help="TOML file of settings.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="As JSON lines.")] = False,
) -> None:
    failed = False
    for finding in examine(port, config):
        failed = failed or finding.state == "failed"
        if as_json:
            fields = {name: getattr(finding, name) for name in ("what", "state", "detail", "remedy")}
            typer.echo(json.dumps(fields, ensure_ascii=False))
            continue
        mark, style = MARKS[finding.state]
        out.print(Text.assemble((mark, style), f"{finding.what:<11} {finding.detail}"))
        if finding.remedy:
            out.print(Text.assemble(" " * 20, ("mend: ", "bold"), finding.remedy))
    if failed:
        raise typer.Exit(1)


def examine(port: int | None, config: Path | None) -> Iterator[Finding]:
    """All findings, as they are made."""
    checks: list[Callable[[], Iterator[Finding]]] = [
        _python,
        _packages,
        _weights,
        _processor,
        lambda: _configuration(port, config),
        _cache,
        _audio_libraries,
        _microphone,
    ]
    for check in checks:
        try:
            yield from check()
        except Exception as error:  # a check that cannot even run is itself a finding
            name = getattr(check, "__name__", "check").strip("_")
            yield Finding(name, "failed", f"{type(error).__name__}: {error}", "Run: make install")


def _python() -> Iterator[Finding]:
    found = platform.python_version()
    if (3, 11) <= sys.version_info[:2] <= (3, 13):
        yield Finding("python", "ok", f"{found}, {platform.machine()}, {platform.system()}")
    else:
        yield Finding("python", "failed", found, "Use Python 3.11 to 3.13, then run: make install")


def _packages() -> Iterator[Finding]:
    found, missing = [], []
    for name in PACKAGES:
        try:
            found.append(f"{name} {version(name)}")
        except PackageNotFoundError:
            missing.append(name)
    if missing:
        yield Finding("packages", "failed", f"missing: {', '.join(missing)}", "Run: make install")
    else:
        yield Finding("packages", "ok", ", ".join(found))


def _weights() -> Iterator[Finding]:
    from speech.models import verify

    for result in verify():
        if result.state == "ok":
            yield Finding("weights", "ok", f"{result.name}: every file has the sha256 of the manifest")
        elif result.state == "missing":
            # One model is enough to serve; a missing one matters when it is configured, which serving says.
            yield Finding("weights", "warning", f"{result.name} is not installed", result.detail)
        else:
            yield Finding("weights", "failed", f"{result.name} is damaged", result.detail)


def _processor() -> Iterator[Finding]:
    import torch

    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    capability = torch.backends.cpu.get_cpu_capability()
    flags = _cpu_flags()
    int8 = [name for name in ("avx512_vnni", "avx_vnni", "amx_int8", "asimddp", "i8mm") if name in flags]
    detail = f"{cores} cores, {capability}, int8 instructions: {', '.join(int8) or 'none'}"
    if capability in ("DEFAULT", "NO AVX"):
        yield Finding(
            "processor", "warning", detail, "Live speech needs AVX2 or better to keep up; use another machine"
        )
    else:
        yield Finding("processor", "ok", detail)
    if torch.cuda.is_available():
        names = ", ".join(torch.cuda.get_device_name(index) for index in range(torch.cuda.device_count()))
        yield Finding("gpu", "ok", f"{names}; use it with: speechlane serve --device cuda:0")


def _cpu_flags() -> set[str]:
    try:
        lines = Path("/proc/cpuinfo").read_text("utf-8").splitlines()
    except OSError:
        return set()
    return {flag for line in lines if line.lower().startswith(("flags", "features")) for flag in line.split()}


def _configuration(port: int | None, config: Path | None) -> Iterator[Finding]:
    from gateway.server import CannotListen, bind

    try:
        settings = load_settings(port=port, config=config)
    except SettingsInvalid as error:
        yield Finding("settings", "failed", str(error), "Correct the flag, the variable or the TOML file named there")
        return
    yield Finding("settings", "ok", f"{len(settings.keys())} API keys, models {', '.join(settings.models)}")
    try:
        bind(settings.host, settings.port).close()
    except CannotListen as error:
        if (status := _running(settings.host, settings.port)) is not None:
            yield Finding("port", "ok", f"{settings.host}:{settings.port}: a service is running there, {status}")
            return
        yield Finding("port", "failed", f"{settings.host}:{settings.port} cannot be listened on", str(error))
    else:
        yield Finding("port", "ok", f"{settings.host}:{settings.port} is free")


def _running(host: str, port: int) -> str | None:
    """What a Speechlane service on the port says of itself; None when it is something else."""
    connection = http.client.HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", "/readyz")
        status = json.loads(connection.getresponse().read())["status"]
    except (OSError, http.client.HTTPException, ValueError, KeyError, TypeError):
        return None
    finally:
        connection.close()
    return str(status)


def _cache() -> Iterator[Finding]:
    from speech.models import cache_dir

    path = cache_dir()
    existing = next(parent for parent in (path, *path.parents) if parent.exists())
    if os.access(existing, os.W_OK):
        yield Finding("cache", "ok", f"{path} can be written")
    else:
        remedy = "Set SPEECHLANE_CACHE to a directory that can be written"
        yield Finding("cache", "failed", f"{path} cannot be written", remedy)


def _audio_libraries() -> Iterator[Finding]:
    import av

    wanted = ("opus", "mp3", "flac", "aac", "vorbis")
    missing = [name for name in wanted if name not in av.codecs_available]
    libraries = ", ".join(f"{name} {'.'.join(map(str, found))}" for name, found in sorted(av.library_versions.items()))
    if missing:
        remedy = "Run: pip install --force-reinstall av (its wheels bring FFmpeg)"
        yield Finding("ffmpeg", "failed", f"no decoder for {', '.join(missing)}", remedy)
    else:
        yield Finding("ffmpeg", "ok", f"{libraries}; decodes {', '.join(wanted)}")


def _microphone() -> Iterator[Finding]:
    remedy = (
        f"Only 'listen mic' and 'say --play' need it: {sys.executable} -m pip install sounddevice; "
        "on Debian also: apt-get install libportaudio2"
    )
    try:
        import sounddevice  # type: ignore[import-not-found,import-untyped,unused-ignore]
    except (ImportError, OSError) as error:
        yield Finding("microphone", "warning", f"not usable: {error}", remedy)
        return
    inputs = [device["name"] for device in sounddevice.query_devices() if device["max_input_channels"] > 0]
    if inputs:
        yield Finding("microphone", "ok", ", ".join(inputs))
    else:
        yield Finding("microphone", "warning", "no input device", "Only 'listen mic' needs one: connect a microphone")
