"""A document that is open: its pages as text layers or pictures, made in a process of its own (child.py)."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vision_text.documents.page import Box, Word
from workers.errors import InputInvalid, InputTooLarge

OPENING = 20.0
"""Seconds to start the process and open the file."""
PAGE = 20.0
"""Seconds to lay out or draw one page."""


@dataclass(frozen=True, slots=True)
class Sheet:
    """One page before it is read: `words` of its text layer, or its `picture`, uint8 [height, width, RGB]."""

    number: int
    width: float
    height: float
    unit: str
    words: tuple[Word, ...] | None
    picture: NDArray[np.uint8] | None


class OpenedDocument:
    """Blocking; from one thread at a time. `kind` is "pdf" or "picture"."""

    def __init__(self, data: bytes, *, password: str | None = None) -> None:
        """Raises `InputInvalid` (no document, damaged, encrypted: `param` says which) and `InputTooLarge`."""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = subprocess.Popen(  # noqa: S603 this interpreter
                [sys.executable, "-m", "vision_text.documents.child", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
        self._connection = ours
        self._stream = ours.makefile("rwb")
        try:
            answer, _ = self._ask({"bytes": len(data), "password": password}, data, OPENING)
        except BaseException:
            self.close()
            raise
        self.kind: str = answer["kind"]
        self.pages: int = answer["pages"]

    def sheet(self, number: int, *, dpi: int = 150, ocr: bool = False) -> Sheet:
        """Page `number`, from 1. `ocr`: as a picture even where the document carries its text.

        Raises `InputInvalid` and `InputTooLarge`; the next page can be asked for unless the process died of this one.
        """
        answer, body = self._ask({"page": number, "dpi": dpi, "ocr": ocr}, b"", PAGE)
        words = answer["words"]
        picture = None
        if answer["picture"] is not None:
            width, height = answer["picture"]
            picture = np.frombuffer(body, np.uint8).reshape(height, width, 3)
        return Sheet(
            number,
            answer["width"],
            answer["height"],
            answer["unit"],
            None if words is None else tuple(Word(text, Box(*box)) for text, *box in words),
            picture,
        )

    def close(self) -> None:
        """Idempotent."""
        self._process.kill()
        self._process.wait()
        with contextlib.suppress(OSError):  # what was being written when the process died
            self._stream.close()
        self._connection.close()

    def __enter__(self) -> OpenedDocument:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def _ask(self, question: dict[str, Any], body: bytes, seconds: float) -> tuple[dict[str, Any], bytes]:
        try:
            self._connection.settimeout(seconds)
            self._stream.write(json.dumps(question).encode() + b"\n" + body)
            self._stream.flush()
            line = self._stream.readline()
            answer = json.loads(line) if line else None
            made = self._stream.read(answer["body"]) if answer else b""
        except TimeoutError as error:
            self.close()
            raise InputTooLarge(f"The document takes longer than {seconds:g} s for a page.", param="file") from error
        except (OSError, ValueError) as error:  # ValueError: closed, after an earlier page
            raise InputInvalid("The document cannot be opened: its reader died of it.", param="file") from error
        if answer is None:
            raise InputInvalid("The document cannot be opened: its reader died of it.", param="file")
        if "error" in answer:
            param = "password" if answer["code"] == "password" else "file"
            raise (InputTooLarge if answer["code"] == "large" else InputInvalid)(answer["error"], param=param)
        return answer, made
