"""The page of the API in headless Chromium, on the real service."""

from __future__ import annotations

import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from tests.gateway.browser import Browser, chromium, messages, needs_browser, outside_requests

pytestmark = [*needs_browser, pytest.mark.long]


class Page(Browser):
    """The page of the API."""

    @property
    def shown(self) -> str:
        return str(self.run("return document.querySelector('main').innerText.slice(0, 500)"))

    def routes(self) -> list[str]:
        """Method and path of every route that is shown."""
        script = """
            return [...document.querySelectorAll(".route")].filter((one) => one.checkVisibility())
                .map((one) => one.querySelector(".method").textContent + " " + one.querySelector(".path").textContent);
        """
        found: list[str] = self.run(script)
        return found

    def text(self, selector: str) -> str:
        found: str = self.driver.find_element(By.CSS_SELECTOR, selector).text
        return found


@pytest.fixture
def open_page(service: str, tmp_path: Path) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []

    def start(address: str = "docs", size: tuple[int, int] = (1280, 900)) -> Page:
        page = Page(chromium(tmp_path / f"profile-{len(pages)}", size))
        pages.append(page)
        messages(page.driver)  # those of the browser's own first page
        page.driver.get(f"{service}/{address}")
        page.wait(lambda: page.run("return document.body.dataset.state") == "ready", "the document is shown")
        return page

    yield start
    try:
        for page in pages:
            assert page.run("return violations") == []
            assert page.complaints() == []
            assert outside_requests(page.driver, service) == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    finally:
        for page in pages:
            page.driver.quit()


def test_every_route_is_read_there(service: str, open_page: Callable[..., Page]) -> None:
    page = open_page()
    routes = page.routes()
    assert {"POST /v1/audio/transcriptions", "WS /v1/realtime", "DELETE /v1/batch/jobs/{job}"} <= set(routes)
    assert page.text("#found") == f"{len(routes)} routes"

    # All of them unfold, and say how they are called, what goes in and what comes back.
    page.run("for (const one of document.querySelectorAll('.route')) one.open = true")
    page.wait(lambda: page.run("return document.querySelectorAll('.route:not(:has(.body))').length") == 0, "all unfold")
    page.run("for (const one of document.querySelectorAll('details')) one.open = true")
    everything = page.run("return document.querySelector('#groups').innerText")
    assert "undefined" not in everything
    assert "[object" not in everything
    speech = page.text("#createSpeech")
    for said in (
        f"curl {service}/v1/audio/speech",
        "1 to 4,096 characters",
        "0.25 to 4",
        "heart",
        "default mp3",
        "429",
    ):
        assert said in speech

    # The guide to a socket is there as well.
    guide = page.run("return document.getElementById('ws/v1/realtime').querySelector('a').href")
    with urllib.request.urlopen(guide) as answer:
        assert "session.update" in answer.read().decode()


def test_it_is_searched_and_linked(open_page: Callable[..., Page]) -> None:
    page = open_page("docs#createSpeech")
    page.wait(lambda: page.run("return document.getElementById('createSpeech').open"), "the address opens its route")
    page.press("/")
    page.press("timestamp_granularities")
    assert page.routes() == ["POST /v1/audio/transcriptions"]
    assert page.text("#found") == "1 found"
    assert page.text("#contents") == "Transcription"
    page.press(Keys.ESCAPE, *"nothing has this")
    page.wait(lambda: page.routes() == [], "nothing is found")
    assert page.run("return document.getElementById('nothing').checkVisibility()")
    page.press(Keys.ESCAPE)
    assert len(page.routes()) > 40


def test_an_example_is_copied_on_a_narrow_screen(service: str, open_page: Callable[..., Page]) -> None:
    page = open_page("docs#createTranscription", (390, 844))
    page.driver.execute_cdp_cmd(
        "Browser.grantPermissions",
        {"origin": service, "permissions": ["clipboardReadWrite", "clipboardSanitizedWrite"]},
    )
    page.click("#createTranscription .copy")
    page.wait(lambda: page.text("#createTranscription .copy") == "Copied", "it is copied")
    copied = page.driver.execute_async_script("navigator.clipboard.readText().then(arguments[0])")
    assert re.sub(r"\s*\\\s*", " ", copied).startswith(f"curl {service}/v1/audio/transcriptions -F model=whisper-1 -F")


def test_every_page_leads_there(service: str) -> None:
    for path in ("", "jobs", "voice", "status"):
        with urllib.request.urlopen(f"{service}/{path}") as answer:
            assert '<a href="docs">API</a>' in answer.read().decode()
