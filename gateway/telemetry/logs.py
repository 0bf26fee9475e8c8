"""The log: one record a line, as JSON for machines or as text for people, whoever has written it.

Records come from the standard library's loggers, those of other libraries among them. A record carries the labels of
what it was written for (`workers/labels.py`) and the fields given as `extra`. What a client has chosen cannot make a
line of its own: control characters are escaped, and a traceback is indented.
"""

from __future__ import annotations

import json
import logging
import re
import sys
import threading
import traceback
from collections.abc import MutableMapping
from typing import Any, Literal, TextIO

from structlog.processors import TimeStamper
from structlog.stdlib import ExtraAdder, ProcessorFormatter, add_log_level, add_logger_name
from structlog.tracebacks import ExceptionDictTransformer
from structlog.typing import EventDict, Processor, WrappedLogger

from workers.labels import LABELS

Form = Literal["json", "text"]

OWN = ("speechlane", "gateway", "batch_jobs", "speech", "vision_text", "workers")
MOST_CHARACTERS = 4096
"""Of one value; what is longer is cut."""
MOST_FRAMES = 40
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff]")
"""What ends a line, moves the cursor or turns the order of what is read."""
_COLOURS = {"debug": "2", "info": "32", "warning": "33", "error": "31", "critical": "1;31"}
_PLAIN = re.compile(r"[^\s\"'=]+")


def configure(level: str, form: Literal["auto", "json", "text"] = "auto", stream: TextIO | None = None) -> Form:
    """Send all records of `level` and above to `stream` (stderr), in place of what was configured before.

    "debug" is for our own loggers: other libraries would tell there what they send and receive. "auto" is text on a
    terminal, else JSON. The form that was chosen.
    """
    stream = stream if stream is not None else sys.stderr
    terminal = stream.isatty()
    chosen: Form = ("text" if terminal else "json") if form == "auto" else form
    handler = logging.StreamHandler(stream)
    handler.setFormatter(formatter(chosen, colours=terminal))
    least = logging.getLevelNamesMapping()[level.upper()]
    logging.basicConfig(level=max(least, logging.INFO), handlers=[handler], force=True)
    for name in OWN:
        logging.getLogger(name).setLevel(least)
    logging.captureWarnings(True)
    # aiohttp's access log holds whole URLs, and with them whatever a client put into a query.
    logging.getLogger("aiohttp.access").disabled = True
    threading.excepthook = _thread_failed
    return chosen


def formatter(form: Form, *, colours: bool = False) -> logging.Formatter:
    """Makes lines of records."""
    common: list[Processor] = [add_log_level, add_logger_name, ExtraAdder(), _labels]
    if form == "json":
        return ProcessorFormatter(processors=[*common, TimeStamper(fmt="iso", utc=True), _as_json])
    stamp = TimeStamper(fmt="%Y-%m-%d %H:%M:%S.%f", utc=False)
    return ProcessorFormatter(processors=[*common, stamp, _Text(colours=colours)])


def _thread_failed(args: threading.ExceptHookArgs) -> None:
    if args.exc_value is not None:
        name = args.thread.name if args.thread is not None else "?"
        logging.getLogger("speechlane").error("the thread %s failed", name, exc_info=args.exc_value)


def _labels(logger: WrappedLogger, method: str, event: EventDict) -> EventDict:
    """Ids of what the record was written for; fields of its own go before them."""
    for name, value in LABELS.get().items():
        event.setdefault(name, value)
    return event


def _as_json(logger: WrappedLogger, method: str, event: EventDict) -> str:
    trace, stack = _parts(event)
    fields: dict[str, Any] = {
        "timestamp": event.pop("timestamp"),
        "level": event.pop("level"),
        "logger": event.pop("logger"),
        "event": _cut(str(event.pop("event"))),
        **{name: _value(value) for name, value in event.items()},
    }
    if trace is not None:
        fields["exception"] = _structured(trace)
    if stack:
        fields["stack"] = stack.splitlines()[-MOST_FRAMES:]
    return json.dumps(fields)


class _Text:
    """A line for people: time, level, logger, what happened, and the fields behind it."""

    def __init__(self, *, colours: bool) -> None:
        self._colours = colours

    def __call__(self, logger: WrappedLogger, method: str, event: EventDict) -> str:
        trace, stack = _parts(event)
        stamp, level, name = event.pop("timestamp")[:-3], event.pop("level"), event.pop("logger")
        shown = f"{level.upper():<7}"
        if self._colours:
            shown = f"\x1b[{_COLOURS.get(level, '0')}m{shown}\x1b[0m"
        line = f"{stamp} {shown} {_escaped(name)}: {_escaped(_cut(str(event.pop('event'))))}"
        if event:
            line += "  " + " ".join(f"{_escaped(key)}={_shown(_value(value))}" for key, value in event.items())
        lines = [line]
        if trace is not None:
            lines += "".join(traceback.format_exception(*trace, limit=-MOST_FRAMES)).splitlines()
        lines += stack.splitlines()
        return "\n    ".join([lines[0], *(_escaped(_cut(part)) for part in lines[1:])])


def _parts(event: EventDict) -> tuple[Any, str]:
    """The exception, if there is one, and the stack that was asked for: taken out of the fields."""
    # The last two are left there by another handler's formatter.
    for internal in ("_record", "_from_structlog", "message", "asctime"):
        event.pop(internal, None)
    stack = event.pop("stack_info", None) or event.pop("stack", None) or ""
    trace = event.pop("exc_info", None)
    return trace if trace and trace[0] is not None else None, str(stack)


_transformer = ExceptionDictTransformer(show_locals=False, max_frames=MOST_FRAMES)


def _structured(trace: Any) -> list[MutableMapping[str, Any]]:
    """The exception and those that led to it: type, message, and frames as file, line and function."""
    chain: list[MutableMapping[str, Any]] = []
    for link in _transformer(trace):
        frames = [f"{frame['filename']}:{frame['lineno']} {frame['name']}" for frame in link["frames"]]
        chain.append({"type": link["exc_type"], "message": _cut(str(link["exc_value"])), "frames": frames})
    return chain


def _value(value: object) -> object:
    if isinstance(value, float):
        return round(value, 6)
    if value is None or isinstance(value, bool | int):
        return value
    if isinstance(value, dict):
        return {str(key): _value(part) for key, part in list(value.items())[:100]}
    return _cut(str(value))


def _shown(value: object) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    if isinstance(value, dict):
        return json.dumps(value)
    text = _escaped(str(value))
    return text if _PLAIN.fullmatch(text) else json.dumps(text, ensure_ascii=False)


def _escaped(text: str) -> str:
    return _STEERING.sub(lambda found: f"\\u{ord(found[0]):04x}" if ord(found[0]) > 255 else _short(found[0]), text)


def _short(character: str) -> str:
    return {"\n": "\\n", "\r": "\\r", "\t": "\\t"}.get(character, f"\\x{ord(character):02x}")


def _cut(text: str) -> str:
    return text if len(text) <= MOST_CHARACTERS else f"{text[:MOST_CHARACTERS]}… ({len(text)} characters)"
