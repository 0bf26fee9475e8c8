"""The recordings page finds what was said in finished recordings, and jumps to the second."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from tests.conftest import wait_until
from tests.gateway.browser import Browser, chromium, needs_browser

if TYPE_CHECKING:
    from tests.conftest import RunningService

pytestmark = [needs_browser[0], pytest.mark.timeout(180), pytest.mark.long]

RECORDINGS = ("austen-0930.wav", "jfk.flac")


class Page(Browser):
    """The page for recordings."""

    patience: ClassVar[float] = 40.0

    @property
    def shown(self) -> str:
        return f"{self.texts('main')} {self.texts('#notice')}"

    def texts(self, selector: str) -> list[str]:
        """The text of all matching elements that are shown."""
        script = """
            const found = Array.from(document.querySelectorAll(arguments[0])).filter((one) => one.checkVisibility());
            return found.map((one) => one.textContent);
        """
        found: list[str] = self.run(script, selector)
        return found

    def search(self, query: str) -> None:
        field = self.driver.find_element(By.CSS_SELECTOR, "#said input")
        field.clear()
        field.send_keys(query)
        field.send_keys(Keys.ENTER)


def search(url: str, query: str) -> list[dict[str, object]]:
    """What the service finds."""
    body = json.dumps({"query": query}).encode()
    request = urllib.request.Request(f"{url}/v1/batch/search", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        found: list[dict[str, object]] = json.load(answer)["data"]
        return found


@pytest.fixture(scope="module")
def searchable(launch_service: Callable[..., RunningService], data: Path) -> str:
    """A service in which two recordings have been transcribed and can be searched.

    Not the shared one: what other tests have left there would be found as well.
    """
    service = launch_service("--embeddings", "all-MiniLM-L6-v2")
    for name in RECORDINGS:
        request = urllib.request.Request(
            f"{service.url}/v1/batch/jobs", headers={"Content-Type": "multipart/form-data; boundary=b"}
        )
        head = f'--b\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'.encode()
        request.data = head + (data / name).read_bytes() + b"\r\n--b--\r\n"
        urllib.request.urlopen(request, timeout=30).close()

    def found() -> bool:
        files = {hit["file"] for hit in search(service.url, "what can be done")}
        return files >= set(RECORDINGS)

    wait_until(found, "full of what was said", service)
    return service.url


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[..., Page]]:
    pages: list[Page] = []

    def start(url: str, size: tuple[int, int] = (1280, 800), address: str = "") -> Page:
        page = Page(chromium(tmp_path / f"profile-{len(pages)}", size))
        pages.append(page)
        page.driver.get(f"{url}/jobs{address}")
        page.wait(lambda: page.texts("#connection") == ["Connected"], "it is connected")
        return page

    yield start
    try:
        for page in pages:
            assert page.run("return violations") == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
            assert page.complaints() == []
    finally:
        for page in pages:
            page.driver.quit()


def test_a_hit_leads_to_the_second(searchable: str, open_page: Callable[..., Page], tmp_path: Path) -> None:
    page = open_page(searchable)
    page.wait(lambda: page.texts("#said"), "it can be searched")
    page.search("ask not what your country can do")
    hits = page.wait(lambda: page.texts("#found .hit"), "there are hits")
    assert (
        page.texts("#found .hit .recording")[0] == "jfk.flac"
        and "0:00" in hits[0]
        and "country" in page.texts("#found .hit mark")
    )
    assert page.texts("#jobs .row") == [], "hits stand in the place of the recordings"
    page.driver.save_screenshot(str(tmp_path / "hits.png"))
    start = next(hit["start"] for hit in search(searchable, "ask not what your country can do"))
    page.click("#found .hit a")
    page.wait(lambda: page.texts("#transcript .text"), "the transcript is shown")
    assert page.texts("#job-title") == ["jfk.flac"]
    page.wait(
        lambda: abs(page.run("return document.getElementById('audio').currentTime") - float(str(start))) < 0.1,
        f"it is at {start} s",
    )
    page.driver.save_screenshot(str(tmp_path / "jumped.png"))
    # Back to the hits, and from an empty field to the recordings.
    page.run("history.back()")
    page.wait(lambda: page.texts("#found .hit"), "the hits are there again")
    page.driver.find_element(By.CSS_SELECTOR, "#said input").send_keys(Keys.ESCAPE)
    page.wait(lambda: page.texts("#jobs .row"), "the recordings are there again")
    page.search("zzyzx qwrtplk")
    page.wait(lambda: "Nobody says" in "".join(page.texts("#found-line")), "it says that there is nothing")


def test_an_address_with_a_second_opens_there_on_a_phone(searchable: str, open_page: Callable[..., Page]) -> None:
    hit = search(searchable, "marriage to an amiable woman")[0]
    page = open_page(searchable, (390, 800), f"#{hit['job']}@1.50")
    page.wait(lambda: page.texts("#transcript .text"), "the transcript is shown")
    page.wait(
        lambda: abs(page.run("return document.getElementById('audio').currentTime") - 1.5) < 0.1, "it is at 1.5 s"
    )
