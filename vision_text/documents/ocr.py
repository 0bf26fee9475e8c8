"""Reading text from pictures: PP-OCR's detector and recogniser of the `rapidocr` package, each a backend of its own.

Finding the lines of a page and reading a line are different work: one page makes one large step of the detector and
fifty small items for the recogniser, which are batched over all pages that are being read.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from rapidocr import RapidOCR

from workers.backend import Limits, Spec
from workers.onestep import OneStep

Pixels = NDArray[np.uint8]
"""[height, width, RGB]."""
Quad = NDArray[np.float32]
"""[4, 2]: x and y of the corners, clockwise from where the line's text begins."""

_NICE = 10
_LINE = 48
"""Pixels of a line's height, as the recogniser was trained."""
_WIDTHS = (160, 240, 320, 480, 640, 960, 1280, 1920, 2880)
"""Pixels; a line is padded to the next, so that what it is read as does not depend on its batch mates."""
_UPSIDE_DOWN = 0.9
_CONFIDENT = 0.5
"""Of a line; below it is taken for no text (the package's own threshold)."""
TALL = 1.5
"""Height to width from which a line is taken to be standing, and laid down to be read."""


def lower_priority() -> None:
    """Of the calling thread, where the system can (Linux counts it by thread)."""
    if hasattr(os, "setpriority"):
        with contextlib.suppress(OSError):
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), _NICE)


def _engine(threads: int) -> RapidOCR:
    """The package, whose models are in its wheel. It loads each when asked to."""
    one = "EngineConfig.onnxruntime."
    return RapidOCR(
        params={
            one + "intra_op_num_threads": threads,
            one + "inter_op_num_threads": 1,
            "Global.log_level": "error",
        }
    )


class Detector(OneStep):
    """Payload: a page's pixels. Result: its lines as quads, [lines, 4, 2]."""

    spec = Spec("ocr", "ocr-detector", revision="PP-OCRv6_det_small")
    limits = Limits(items=1)  # pages differ in size, and one keeps a device busy

    def __init__(self, threads: int = 1) -> None:
        self._engine = _engine(threads)

    def load(self, device: str) -> None:
        lower_priority()
        self._detector = self._engine._load_det_model()  # type: ignore[no-untyped-call]
        self.run([np.full((320, 320, 3), 255, np.uint8)])

    def cost(self, payload: Pixels) -> float:
        return float(payload.shape[0] * payload.shape[1] / 1e6)

    def run(self, payloads: Sequence[Pixels]) -> list[Quad]:
        return [self._lines(pixels) for pixels in payloads]

    def _lines(self, pixels: Pixels) -> Quad:
        if min(pixels.shape[:2]) < 3:
            return np.zeros((0, 4, 2), np.float32)
        shrunk, record = self._engine.preprocess_img(pixels[:, :, ::-1])
        found = self._detector(shrunk)
        if found.boxes is None:
            return np.zeros((0, 4, 2), np.float32)
        ratio = np.array([record["preprocess"]["ratio_w"], record["preprocess"]["ratio_h"]], np.float32)
        return np.asarray(found.boxes, np.float32) * ratio


@dataclass(frozen=True, slots=True)
class Read:
    """What a line says. `words`: text, confidence, and where it begins and ends as shares of the line's width.

    `upside_down`: it had to be turned by half a turn; the shares count from its own left then.
    """

    words: tuple[tuple[str, float, float, float], ...]
    upside_down: bool = False


class Recogniser(OneStep):
    """Payload: a line's pixels, upright or upside down. Result: `Read`."""

    spec = Spec("ocr", "ocr-recogniser", revision="PP-OCRv6_rec_small")
    limits = Limits(items=16, cost=16 * 960)

    def __init__(self, threads: int = 1) -> None:
        self._engine = _engine(threads)

    def load(self, device: str) -> None:
        lower_priority()
        self._direction = self._engine._load_cls_model()  # type: ignore[no-untyped-call]
        self._recogniser = self._engine._load_rec_model()  # type: ignore[no-untyped-call]
        self.run([np.full((_LINE, width - 10, 3), 255, np.uint8) for width in _WIDTHS[:3]])

    def bucket(self, payload: Pixels) -> int:
        return _padded(payload)

    def cost(self, payload: Pixels) -> float:
        return _padded(payload)

    def run(self, payloads: Sequence[Pixels]) -> list[Read]:
        readings = self._read(payloads)
        # The classifier looks at a long line squeezed and is often wrong: what it doubts is read both ways.
        doubted = [index for index, turned in enumerate(self._upside_down(payloads)) if turned]
        for index, (turned, sure) in zip(
            doubted, self._read([np.rot90(payloads[at], 2) for at in doubted]), strict=True
        ):
            if sure > readings[index][1]:
                readings[index] = replace(turned, upside_down=True), sure
        return [read for read, _ in readings]

    def _read(self, lines: Sequence[Pixels]) -> list[tuple[Read, float]]:
        """Each line as it stands, and how certain it is."""
        if not lines:
            return []
        width = max(map(_padded, lines))
        batch = np.zeros((len(lines), 3, _LINE, width), np.float32)
        shares = []
        for item, line in zip(batch, lines, strict=True):
            natural = min(_natural(line), width)
            scaled = cv2.resize(np.ascontiguousarray(line[:, :, ::-1]), (natural, _LINE))
            item[:, :, :natural] = scaled.transpose(2, 0, 1) / 127.5 - 1.0
            shares.append(natural / _LINE)
        output = self._recogniser.session(batch)
        texts, infos = self._recogniser.postprocess_op(output, True, wh_ratio_list=shares, max_wh_ratio=width / _LINE)
        return [
            (Read(_words(text, info) if sure >= _CONFIDENT else ()), sure)
            for (text, sure), info in zip(texts, infos, strict=True)
        ]

    def _upside_down(self, lines: Sequence[Pixels]) -> list[bool]:
        found = self._direction([np.ascontiguousarray(line[:, :, ::-1]) for line in lines])
        return ["180" in label and score > _UPSIDE_DOWN for label, score in found.cls_res]


def cut(pixels: Pixels, quad: Quad) -> Pixels:
    """The line in a quad as a picture of its own, its longer side lying."""
    top, side = np.linalg.norm(quad[0] - quad[1]), np.linalg.norm(quad[0] - quad[3])
    width, height = max(1, round(float(top))), max(1, round(float(side)))
    corners = np.array([[0, 0], [width, 0], [width, height], [0, height]], np.float32)
    matrix = cv2.getPerspectiveTransform(quad.astype(np.float32), corners)
    line = cv2.warpPerspective(pixels, matrix, (width, height), borderMode=cv2.BORDER_REPLICATE, flags=cv2.INTER_CUBIC)
    return np.rot90(line) if height >= TALL * width else line  # type: ignore[return-value]


def _natural(line: Pixels) -> int:
    """Pixels of width when the line is made as high as the recogniser wants it."""
    return max(1, math.ceil(_LINE * int(line.shape[1]) / int(line.shape[0])))


def _padded(line: Pixels) -> int:
    natural = _natural(line)
    return next((width for width in _WIDTHS if natural <= width), _WIDTHS[-1])


def _words(text: str, info: Any) -> tuple[tuple[str, float, float, float], ...]:
    """The words of a line and where they are; the package's decoder counts in columns of the model's output."""
    letters = [at for group in info.word_cols for at in group]
    if not letters:
        return ()
    columns = info.line_txt_len
    sure = [certain for letter, certain in zip(text, info.confs, strict=True) if not letter.isspace()]
    half = min((letters[-1] - letters[0]) / max(1, len(letters) - 1), columns) / 2 or columns / 2
    words, first = [], 0
    for word in text.split():
        last = first + len(word) - 1
        begin, end = (letters[first] + 0.5 - half) / columns, (letters[last] + 0.5 + half) / columns
        words.append((word, min(sure[first : last + 1]), max(0.0, begin), min(1.0, end)))
        first = last + 1
    return tuple(words)
