"""What a client wants of its job, from the fields of a form or of a JSON object: every refusal names its field."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Self, cast

from batch_jobs.job import Channels, JobOptions, Priority, SubtitleRules
from gateway.batch.webhook_hosts import WebhookHosts
from gateway.fields import Fields, choice, language, nothing_else, number, one
from gateway.transcriptions import resolve_model
from speech.languages import check_language
from workers.errors import InputInvalid

if TYPE_CHECKING:
    from speech.engine import Engine

NAME_CHARACTERS = 255
MAX_KEYWORDS = 500
KEYWORD_CHARACTERS = 100
PROMPT_CHARACTERS = 4096
NO_NAME = "recording"

SUBTITLES = {
    "line": (10, 1000),
    "lines": (1, 10),
    "reading_speed": (5, 1000),
    "shortest": (0, 10),
    "longest": (1, 60),
    "gap": (0, 2),
}
"""Field, least and most: cues that nobody can read are a mistake of whoever asks."""

LISTS, SWITCHES, NUMBERS = ("keywords", "languages"), ("repair",), tuple(f"subtitle_{name}" for name in SUBTITLES)
"""Fields that are no plain text."""


@dataclass(frozen=True, slots=True)
class JobRequest:
    """Checked fields. `name` is "" when none was given; `upload` is the id of a resumable upload."""

    options: JobOptions
    name: str
    upload: str | None

    @classmethod
    def parse(cls, fields: Fields, engine: Engine, hosts: WebhookHosts) -> Self:
        """Raises `InputInvalid` with the field's name, `ModelNotFound` for a model that is not loaded."""
        left = dict(fields)
        model = resolve_model(engine, one(left, "model") or None)
        spoken = language(left)
        check_language(engine.models(), model, spoken)
        keywords = tuple(word.strip() for word in left.pop("keywords", []) if word.strip())
        if len(keywords) > MAX_KEYWORDS:
            raise InputInvalid(f"keywords holds more than {MAX_KEYWORDS} words.", param="keywords")
        if any(len(word) > KEYWORD_CHARACTERS for word in keywords):
            raise InputInvalid(f"A keyword has more than {KEYWORD_CHARACTERS} characters.", param="keywords")
        prompt = one(left, "prompt") or ""
        if len(prompt) > PROMPT_CHARACTERS:
            raise InputInvalid(f"prompt has more than {PROMPT_CHARACTERS} characters; shorten it.", param="prompt")
        webhook = one(left, "webhook") or None
        options = JobOptions(
            model=model,
            language=spoken,
            prompt=prompt,
            keywords=keywords,
            channels=Channels(choice(left, "channels", tuple(Channels), Channels.MIX)),
            priority=Priority(choice(left, "priority", tuple(Priority), Priority.NORMAL)),
            repair=choice(left, "repair", ("true", "false"), "true") == "true",
            repair_model=_repair_model(left, engine),
            subtitles=_subtitles(left),
            webhook=hosts.check(webhook).url if webhook is not None else None,
        )
        request = cls(options, clean_name(one(left, "name") or ""), one(left, "upload"))
        nothing_else(left)
        return request


def json_fields(body: Any) -> Fields:
    """A JSON object as fields; raises `InputInvalid` for a value that is not of its field's type. Null: not given."""
    if not isinstance(body, Mapping):
        raise InputInvalid("Send a JSON object.")
    fields: Fields = {}
    for name, value in body.items():
        if value is None:
            continue
        if name in LISTS and not isinstance(value, list):
            raise InputInvalid(f"{name} must be a list of texts.", param=name)
        for item in value if name in LISTS else [value]:
            fields.setdefault(name, []).append(_as_text(name, item))
    return fields


def _as_text(name: str, value: Any) -> str:
    """A value as a form would have it."""
    if name in SWITCHES:
        if not isinstance(value, bool):
            raise InputInvalid(f"{name} must be true or false.", param=name)
        return str(value).lower()
    if name in NUMBERS:
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InputInvalid(f"{name} must be a number.", param=name)
        return str(value)
    if not isinstance(value, str):
        raise InputInvalid(f"{name} must be text.", param=name)
    if any("\ud800" <= letter <= "\udfff" for letter in value):
        raise InputInvalid(f"{name} holds half a character (a lone surrogate).", param=name)
    return value


def clean_name(name: str) -> str:
    """A file's name as it may be shown: without folders and control characters, not too long."""
    last = PurePosixPath(name.replace("\\", "/")).name
    return "".join(letter for letter in last if letter.isprintable())[:NAME_CHARACTERS]


def _repair_model(fields: Fields, engine: Engine) -> str | None:
    name = one(fields, "repair_model")
    if not name:
        return None
    try:
        return resolve_model(engine, name)
    except InputInvalid as error:
        error.param = "repair_model"
        raise


def _subtitles(fields: Fields) -> SubtitleRules:
    plain = SubtitleRules()
    values = {}
    for name, (least, most) in SUBTITLES.items():
        default = getattr(plain, name)
        field = f"subtitle_{name}"
        value = number(fields, field, least, most, default)
        if isinstance(default, int) and value != int(value):
            raise InputInvalid(f"{field} is {value:g} but must be a whole number.", param=field)
        values[name] = type(default)(value)
    rules = SubtitleRules(**cast(Any, values))
    if rules.shortest > rules.longest:
        raise InputInvalid("subtitle_shortest is longer than subtitle_longest.", param="subtitle_shortest")
    return rules
