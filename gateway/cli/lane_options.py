"""Options that several commands of the batch lane share: what is asked of a job, and where queue and spool are."""

from __future__ import annotations

import inspect
import os
import re
import tomllib
import typing
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import unquote, urlsplit, urlunsplit

import typer

from gateway.cli.console import fail
from gateway.settings import ENV_PREFIX

if TYPE_CHECKING:
    from batch_jobs.job import JobOptions, Priority
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


def _asked(
    model: Model = "tiny.en",
    language: Language = None,
    prompt: Prompt = "",
    keyword: Keyword = None,
    channels: ChannelsOption = "mix",
    repair: Repair = True,
    repair_model: RepairModel = None,
    subtitle_line: SubtitleLine = 42,
    subtitle_lines: SubtitleLines = 2,
    reading_speed: ReadingSpeed = 21.0,
    subtitle_shortest: SubtitleShortest = 0.8,
    subtitle_longest: SubtitleLongest = 7.0,
    subtitle_gap: SubtitleGap = 0.0,
) -> JobOptions:
    """What is asked of a job; ends the command on what is wrong."""
    from batch_jobs.job import Channels, JobOptions, SubtitleRules
    from gateway.languages import language_code

    code = language_code(language) if language else None
    if language and code is None:
        fail(f"--language is {language}; give an ISO-639-1 code such as en, de or fr", 2)
    if channels not in CHANNELS:
        fail(f"--channels is {channels}; there is {' and '.join(CHANNELS)}", 2)
    rules = SubtitleRules(
        subtitle_line, subtitle_lines, reading_speed, subtitle_shortest, subtitle_longest, subtitle_gap
    )
    if rules.longest < rules.shortest:
        fail("--subtitle-longest is under --subtitle-shortest; no cue could be made", 2)
    return JobOptions(
        model=model,
        language=code,
        prompt=prompt,
        keywords=tuple(keyword or ()),
        channels=Channels(channels),
        repair=repair,
        repair_model=repair_model,
        subtitles=rules,
    )


def with_job_options(function: Callable[..., None]) -> Callable[..., None]:
    """A command out of a function that takes `options`: it has the options of a job in their place."""
    shared = typing.get_type_hints(_asked, include_extras=True, localns={"JobOptions": object})
    kinds = typing.get_type_hints(function, include_extras=True, localns={"JobOptions": object, "Jobs": object})

    def command(*places: Any, **given: Any) -> None:
        options = _asked(**{name: given.pop(name) for name in inspect.signature(_asked).parameters})
        function(*places, options=options, **given)

    parameters: list[inspect.Parameter] = []
    for one in inspect.signature(function).parameters.values():
        if one.name != "options":
            parameters.append(one.replace(annotation=kinds[one.name]))
            continue
        parameters += [
            each.replace(annotation=shared[each.name]) for each in inspect.signature(_asked).parameters.values()
        ]
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def priority(given: str) -> Priority:
    """Ends the command on a wrong one."""
    from batch_jobs.job import Priority

    if given not in PRIORITIES:
        fail(f"--priority is {given}; there is {', '.join(PRIORITIES)}", 2)
    return Priority(given)


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
    if (url := given.get("redis_url")) and _scheme(url) not in ("redis", "rediss", "unix"):
        fail("redis_url: it looks like redis://HOST:6379/0, rediss:// for TLS, or unix:///PATH", 2)
    if (url := given.get("spool_url")) and _scheme(url) is None:
        fail("spool_url: it looks like s3://BUCKET/PREFIX, or is a folder", 2)
    return replace(BatchSettings(), **given)


def _scheme(url: str) -> str | None:
    """None: it is no URL."""
    try:
        return urlsplit(url).scheme
    except ValueError:
        return None


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
