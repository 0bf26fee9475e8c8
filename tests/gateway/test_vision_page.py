"""The page for pictures and clips in headless Chromium, on a service with the small models."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from tests.gateway.browser import Browser, chromium, messages, needs_browser, outside_requests
from tests.gateway.seeing import Seeing, seeing
from vision_text.scenes.grids import draw, random_grid

pytestmark = [*needs_browser, pytest.mark.long]


class Page(Browser):
    """The page."""

    @property
    def shown(self) -> str:
        return str(self.run("return document.querySelector('main').innerText.slice(0, 500)"))

    def write(self, text: str) -> None:
        self.run("document.getElementById('text').value = arguments[0]", text)

    def idle(self) -> bool:
        return bool(self.run("return document.body.dataset.state === 'idle'"))


@pytest.fixture(scope="module")
def service() -> Iterator[Seeing]:
    with seeing(chat_models=("shapes-vlm",), image_models=("shapes-image",), video_models=("shapes-video",)) as found:
        yield found


@pytest.fixture
def open_page(service: Seeing, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []

    def start(tab: str, size: tuple[int, int] = (1280, 900)) -> Page:
        page = Page(chromium(tmp_path / f"profile-{len(pages)}", size))
        pages.append(page)
        messages(page.driver)
        page.driver.get(f"{service.url}/vision#{tab}")
        page.wait(lambda: page.run("return document.body.dataset.tab") == tab, "the page is there")
        return page

    yield start
    try:
        for page in pages:
            assert page.run("return violations") == []
            assert page.complaints() == []
            assert outside_requests(page.driver, service.url) == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    finally:
        for page in pages:
            page.driver.quit()


def test_pictures_are_drawn_as_they_become_clearer(open_page: Callable[..., Page]) -> None:
    page = open_page("imagine")
    page.run("document.getElementById('steps').value = 6; document.getElementById('seed').value = 7")
    page.write("a red circle top left")
    page.click("#go")
    done = "return document.querySelectorAll('#pictures figure[data-done=true] img').length"
    page.wait(lambda: page.run(done) == 2 and page.idle(), "two are drawn")
    facts = page.run("return [...document.querySelectorAll('#pictures small')].map((one) => one.textContent)")
    assert [fact.split(" · ")[0] for fact in facts] == ["seed 7", "seed 8"]
    assert all("12 evaluations" in fact for fact in facts)
    assert page.run("return document.querySelector('#pictures img').naturalWidth") == 48
    page.run("document.getElementById('steps').value = 10000")
    page.click("#go")
    page.wait(lambda: page.run("return !document.getElementById('notice').hidden"), "it is refused")
    assert "steps" in page.run("return document.querySelector('#notice p').textContent")
    assert page.run(done) == 2
    page.driver.get_log("browser")  # type: ignore[no-untyped-call]  # the refusal is no fault of the page


def test_a_conversation_about_a_picture(open_page: Callable[..., Page], tmp_path: Path) -> None:
    picture = tmp_path / "grid.png"
    Image.fromarray(draw(random_grid(np.random.default_rng(5)))).save(picture)
    page = open_page("imagine", (390, 844))
    page.drop(picture)
    page.wait(lambda: page.run("return document.body.dataset.tab") == "look", "a picture is to be looked at")
    page.wait(
        lambda: page.run("return document.querySelectorAll('#tray img').length") == 1, "it goes with the question"
    )
    for turn, question in enumerate(("how many shapes are there", "what colour is there")):
        page.write(question)
        page.click("#go")
        done = f"return document.querySelectorAll('#turns [data-role=assistant] small').length === {turn + 1}"
        page.wait(lambda done=done: page.run(done) and page.idle(), "it is answered")
    facts = page.run("return [...document.querySelectorAll('#turns small')].map((one) => one.textContent)")
    assert all("tokens" in one and "first word after" in one for one in facts)
    assert page.run("return document.querySelectorAll('#turns img').length") == 1
    page.click("#forget")
    assert page.run("return document.getElementById('turns').children.length") == 0
