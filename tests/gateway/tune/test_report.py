"""The report of a trial is one file that loads nothing, and says everything that was found."""

from __future__ import annotations

import base64
import hashlib
import io
import re
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pytest
from PIL import Image

from gateway.tune.plots import Dot, png, scatter
from gateway.tune.report import report
from tests.workers.gate.virtual import Virtual, Ways
from workers.gate.subject import Option
from workers.gate.trial import Gate
from workers.gate.tuning import tune


class Looking(Virtual):
    """What it makes can be looked at."""

    def show(self, output: Any) -> Any:
        value = 0.0 if output[1] != output[1] else output[1]
        return np.full((8, 8, 3), int(255 * min(1, max(0, value))), np.uint8)

    def caption(self, item: Any) -> str:
        return f"<item> {item[0]} & more"


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))


@pytest.fixture(scope="module")
def html() -> str:
    ways = {"cache": Ways(speed=2, unlike=0.001), "awful": Ways(speed=4, loss=0.5), "idle": Ways(acts=False)}
    gate = Gate(Looking(ways))
    found = tune(
        gate, [Option("cache", True), Option("awful", True, harmful=True), Option("idle", True), Option("fewer", 40)]
    )
    return report(gate, found.profile(gate))


def test_it_loads_and_runs_nothing(html: str) -> None:
    page = Page()
    page.feed(html)
    assert not [tag for tag, _ in page.tags if tag in ("script", "link", "iframe", "object", "form", "base")]
    for tag, attributes in page.tags:
        assert not any(name == "style" or name.startswith("on") for name in attributes), (tag, attributes)
        for name in ("src", "href"):
            assert (attributes.get(name) or "data:").startswith("data:")
    assert "url(" not in html and "@import" not in html
    policy = next(a["content"] for tag, a in page.tags if tag == "meta" and a.get("http-equiv"))
    style = re.search("<style>(.*?)</style>", html, re.DOTALL)
    assert style is not None and policy is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert f"style-src 'sha256-{digest}'" in policy and "default-src 'none'" in policy


def test_it_says_what_was_found_and_what_it_rests_on(html: str) -> None:
    said = (
        "cache=true|passed|harmful|made to be caught|no effect|it does nothing|quality: loses|Side by side|&lt;item&gt;"
    )
    for words in (*said.split("|"), "weights", "abc", "worst twentieth", "fewer="):
        assert words in html, words
    assert "<item>" not in html
    assert html.count("<svg") == 2 and 'circle class="control"' in html


def test_plots_hold_what_they_are_given() -> None:
    assert scatter([], x_name="x", y_name="y") == ""
    one = scatter([Dot(1.0, 1.0, "<a>", "passed")], x_name="x", y_name="y", bar=0.9)
    assert "&lt;a&gt;" in one and "nan" not in one
    many = scatter([Dot(1.0, 0.2, "a", "other", 0.5, 9.0), Dot(3.0, 0.99, "b", "passed")], x_name="x", y_name="y")
    places = [float(x) for x in re.findall(r'cx="([\d.-]+)"', many)]
    assert len(places) == 2 and all(0 <= x <= 640 for x in places)


def test_pictures_are_what_they_were() -> None:
    pixels = np.arange(8 * 6 * 3, dtype=np.uint8).reshape(8, 6, 3)
    with Image.open(io.BytesIO(base64.b64decode(png(pixels, least=16).partition(",")[2]))) as found:
        assert found.size == (12, 16)
        assert np.array_equal(np.asarray(found)[::2, ::2], pixels)
