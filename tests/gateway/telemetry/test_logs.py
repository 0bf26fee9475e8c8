"""Lines of the log: one for each record, whoever wrote it, and none that a client could have made."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from gateway.telemetry.logs import MOST_CHARACTERS, configure, formatter
from tests.conftest import clean_environment
from tests.gateway.telemetry.conftest import Lines
from workers.labels import label, labelled

NASTY = "a\n2026-01-01 00:00:00.000 ERROR   speechlane: forged\r\x1b[2K\u2028b\u202ec"


def written(record: logging.LogRecord) -> str:
    return formatter("text").format(record)


def record(message: str, *args: object, error: BaseException | None = None, **extra: object) -> logging.LogRecord:
    trace = (type(error), error, error.__traceback__) if error is not None else None
    made = logging.LogRecord("speech.x", logging.WARNING, "x.py", 1, message, args, trace)
    made.__dict__ |= extra
    return made


def failure(text: str) -> BaseException:
    secret = "what nobody may see"  # a local of the frame
    try:
        try:
            raise KeyError(text) from None
        except KeyError as error:
            raise ValueError(text + secret[:0]) from error
    except ValueError as error:
        return error


def test_a_json_line_has_its_fields_and_those_of_its_context(lines: Lines) -> None:
    with labelled(session="sess_1", key="key-1"):
        label(utterance="3")
        logging.getLogger("speech.any").info("took %d steps", 3, extra={"seconds": 1.23456789})
    logging.getLogger("speech.any").info("outside")
    first, second = lines.of(logger="speech.any")
    assert first.pop("timestamp").endswith("Z")
    assert first == {
        "level": "info", "logger": "speech.any", "event": "took 3 steps", "seconds": 1.234568,
        "session": "sess_1", "key": "key-1", "utterance": "3",
    }  # fmt: skip
    assert "session" not in second


@pytest.mark.parametrize("where", ["message", "field", "name", "exception"])
@pytest.mark.parametrize("form", ["json", "text"])
def test_a_client_cannot_make_lines(form: str, where: str) -> None:
    made = {
        "message": record("said %s", NASTY),
        "field": record("said", path=NASTY),
        "name": record("said", **{NASTY: 1}),
        "exception": record("failed", error=failure(NASTY)),
    }[where]
    text = formatter("json" if form == "json" else "text").format(made)
    assert not {"\r", "\x1b", "\u2028", "\u202e"} & set(text)
    lines = text.split("\n")
    if form == "json":
        assert len(lines) == 1
        assert "forged" in json.dumps(json.loads(text))
    else:
        assert all(line.startswith("    ") for line in lines[1:]), "all that follows a line is indented"
        assert len(lines) == 1 or where == "exception"


def test_exceptions_are_structured_without_values_of_variables() -> None:
    line = json.loads(formatter("json").format(record("failed", error=failure("why"))))
    last, first = line["exception"]
    assert (last["type"], last["message"]) == ("ValueError", "why")
    assert first["type"] == "KeyError"
    assert any(frame.endswith(" failure") for frame in last["frames"])
    assert "what nobody may see" not in json.dumps(line)


def test_values_of_any_kind_and_length() -> None:
    odd = record("x" * 10_000, object=object(), bytes=b"\xff", none=None, map={"a": 1.0, 2: [1]}, long="y" * 9_000)
    line = json.loads(formatter("json").format(odd))
    assert line["none"] is None
    assert line["map"] == {"a": 1.0, "2": "[1]"}
    assert len(line["event"]) < MOST_CHARACTERS + 50 > len(line["long"])
    assert "map=" in written(odd)


def test_the_form_follows_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    for stream, form in ((Terminal(), "text"), (io.StringIO(), "json")):
        assert configure("debug", "auto", stream) == form
        logging.getLogger("any").info("hello")
        logging.getLogger("any").debug("what another library receives")
        logging.getLogger("speech.any").debug("details")
        thread = threading.Thread(target=lambda: 1 / 0, name="worker")
        thread.start()
        thread.join()
        said = stream.getvalue()
        assert said.startswith("{") == (form == "json")
        assert "details" in said and "what another library receives" not in said
        assert "hello" in said and "the thread worker failed" in said and "ZeroDivisionError" in said


def test_serve_tells_an_error_once_and_nothing_but_json(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "gateway.cli", "serve", "--port", "0", "--models", "nosuch"],
        cwd=tmp_path,
        env=clean_environment(SPEECHLANE_BATCH="false"),
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert not done.stdout
    assert done.stderr.count("no model is called 'nosuch'") == 1
    assert {json.loads(line)["level"] for line in done.stderr.splitlines()} == {"info", "error"}
