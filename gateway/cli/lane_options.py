"""Options that several commands of the batch lane share: what is asked of a job, and where queue and spool are."""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from gateway.cli.console import fail
from gateway.settings import ENV_PREFIX

if TYPE_CHECKING:
    from batch_jobs.job import JobOptions
    from batch_jobs.settings import BatchSettings

FORMATS = ("txt", "srt", "vtt", "tsv", "json")
PRIORITIES = ("high", "normal", "low")
CHANNELS = ("mix", "each")

Model = Annotated[str, typer.Option(help="A bundled name, a directory or a hub name.")]
Language = Annotated[str | None, typer.Option(help="Language code; unset: detected, or the model's own.")]
Prompt = Annotated[str, typer.Option(help="Text that came before, in the recording's language.")]
Keyword = Annotated[
    list[str] | None, typer.Option("--keyword", help="A name or term to expect; may be given several times.")
]
ChannelsOption = Annotated[
    str, typer.Option(help="mix, or each: every channel for itself, as the two sides of a call.", metavar="mix|each")
]
Repair = Annotated[
    bool, typer.Option("--repair/--no-repair", help="Transcribe spans that look like loops or inventions again.")
]
RepairModel = Annotated[str | None, typer.Option(help="Another model for the last attempt of a repair.")]
SubtitleLine = Annotated[int, typer.Option(help="Subtitles: characters in a line.", min=10)]
SubtitleLines = Annotated[int, typer.Option(help="Subtitles: lines in a cue.", min=1)]
ReadingSpeed = Annotated[float, typer.Option(help="Subtitles: characters a second that one can read.", min=1.0)]
SubtitleShortest = Annotated[float, typer.Option(help="Subtitles: seconds that a cue stays at least.", min=0.0)]
SubtitleLongest = Annotated[float, typer.Option(help="Subtitles: seconds that a cue stays at most.", min=0.1)]
SubtitleGap = Annotated[float, typer.Option(help="Subtitles: seconds free between two cues.", min=0.0)]

RedisUrl = Annotated[
    str | None,
    typer.Option(
        help="The queue, redis://HOST; a password is better given in the variable. Unset: a server of our own. "
        "[SPEECHLANE_REDIS_URL]",
        metavar="URL",
    ),
]
SpoolUrl = Annotated[
    str | None,
    typer.Option(
        help="Where recordings and results lie, a directory or s3://BUCKET/PREFIX. Unset: in the batch directory. "
        "[SPEECHLANE_SPOOL_URL]",
        metavar="URL",
    ),
]
BatchDir = Annotated[
    Path | None, typer.Option(help="Directory of our own queue and spool. [SPEECHLANE_BATCH_DIR]", metavar="PATH")
]
Config = Annotated[Path | None, typer.Option(help="TOML file of settings. [SPEECHLANE_CONFIG]")]
Json = Annotated[bool, typer.Option("--json", help="For scripts: a JSON object a line.")]
JobId = Annotated[str, typer.Argument(metavar="JOB", help="The id of a job.")]
JobIds = Annotated[list[str], typer.Argument(metavar="JOB...", help="Ids of jobs.")]


def formats(given: Iterable[str] | None) -> tuple[str, ...]:
    """The formats of --format, which may be given several times and with commas; ends the command on a wrong one."""
    names = [name.strip().lower() for part in given or () for name in part.split(",") if name.strip()]
    names = ["txt" if name == "text" else name for name in names]
    for name in names:
        if name not in FORMATS:
            fail(f"--format is {name}; there is {', '.join(FORMATS)}", 2)
    return tuple(dict.fromkeys(names))


def job_options(
    *,
    model: str,
    language: str | None,
    prompt: str,
    keyword: Sequence[str] | None,
    channels: str,
    repair: bool,
    repair_model: str | None,
    subtitles: tuple[int, int, float, float, float, float],
    priority: str = "normal",
    webhook: str | None = None,
) -> JobOptions:
    """What is asked of a job; ends the command on what is wrong. `subtitles`: the fields of SubtitleRules in order."""
    from batch_jobs.job import Channels, JobOptions, Priority, SubtitleRules
    from gateway.languages import language_code

    code = language_code(language) if language else None
    if language and code is None:
        fail(f"--language is {language}; give an ISO-639-1 code such as en, de or fr", 2)
    if channels not in CHANNELS:
        fail(f"--channels is {channels}; there is {' and '.join(CHANNELS)}", 2)
    if priority not in PRIORITIES:
        fail(f"--priority is {priority}; there is {', '.join(PRIORITIES)}", 2)
    rules = SubtitleRules(*subtitles)
    if rules.longest < rules.shortest:
        fail("--subtitle-longest is under --subtitle-shortest; no cue could be made", 2)
    return JobOptions(
        model=model,
        language=code,
        prompt=prompt,
        keywords=tuple(keyword or ()),
        channels=Channels(channels),
        priority=Priority(priority),
        repair=repair,
        repair_model=repair_model,
        subtitles=rules,
        webhook=webhook,
    )


_SETTINGS: dict[str, tuple[str, Callable[[str], Any]]] = {
    "redis_url": ("redis_url", str),
    "spool_url": ("spool_url", str),
    "batch_dir": ("directory", lambda text: Path(text).expanduser()),
    "batch_max_file_bytes": ("max_file_bytes", int),
    "batch_max_seconds": ("max_seconds", float),
    "batch_spool_bytes": ("spool_bytes", int),
    "batch_keep_seconds": ("keep", float),
}
"""The service's settings that concern queue and spool: their fields of BatchSettings and how they are read."""


def batch_settings(
    redis_url: str | None, spool_url: str | None, batch_dir: Path | None, config: Path | None
) -> BatchSettings:
    """Where queue and spool are and what they hold. Ends the command when that cannot be read."""
    from batch_jobs.settings import BatchSettings

    flags = {"redis_url": redis_url, "spool_url": spool_url, "batch_dir": batch_dir}
    given: dict[str, Any] = {}
    for name, (field, read) in _SETTINGS.items():
        value = setting(name, flags.get(name), config)
        if value is None:
            continue
        try:
            given[field] = read(str(value))
        except ValueError:
            fail(f"{name}: it must be a number", 2)
    url = given.get("redis_url")
    if url and urlsplit(url).scheme not in ("redis", "rediss", "unix"):
        fail("redis_url: it looks like redis://HOST:6379/0, rediss:// for TLS, or unix:///PATH", 2)
    return replace(BatchSettings(), **given)


def setting(name: str, flag: object, config: Path | None) -> object | None:
    """A setting of the service: the flag, else the environment, else the TOML file; None when nobody sets it.

    The file may be that of a service: what else is in it means nothing here and is not checked.
    """
    if flag is not None:
        return flag
    return os.environ.get(f"{ENV_PREFIX}{name.upper()}") or _file_settings(config).get(name)


def _file_settings(config: Path | None) -> dict[str, Any]:
    path = config or os.environ.get(f"{ENV_PREFIX}CONFIG")
    if not path:
        return {}
    try:
        with Path(path).open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        fail(f"config: there is no file {path}", 2)
    except (OSError, tomllib.TOMLDecodeError) as error:
        fail(f"config: {path} cannot be used: {error}", 2)


def shown_url(url: str) -> str:
    """A URL without what is secret in it: no user, no password, no query."""
    parts = urlsplit(url)
    place = parts.netloc.rpartition("@")[2]
    return urlunsplit((parts.scheme, place, parts.path, "", ""))


def without_secrets(message: str, settings: BatchSettings) -> str:
    """A message of a library with the addresses of queue and spool as they may be shown."""
    for url in (settings.redis_url, settings.spool_url):
        if url:
            message = message.replace(url, shown_url(url))
            if password := urlsplit(url).password:
                for form in (password, unquote(password)):
                    message = message.replace(form, "***")
    return re.sub(r"(\w+://)[^/\s@]*@", r"\1", message)


_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}


def duration(text: str, flag: str) -> float:
    """Seconds of "90", "90s", "15m", "12h", "7d" or "2w"; ends the command on anything else."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*([smhdw]?)", text.strip().lower())
    if found is None:
        fail(f"{flag} is {text}; give a number with s, m, h, d or w, such as 7d", 2)
    return float(found[1]) * _UNITS[found[2] or "s"]
