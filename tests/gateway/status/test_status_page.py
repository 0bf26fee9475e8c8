"""The status page in headless Chromium, on the real service, while somebody speaks."""

from __future__ import annotations

import asyncio
import json
import re
import threading
import urllib.request
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestServer
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from gateway.app import build_app
from gateway.settings import Settings, load_settings
from speechlane.client import Final, connect, wav_file
from tests.gateway.browser import Browser, chromium, enter_key, needs_browser, outside_requests

pytestmark = [*needs_browser, pytest.mark.long]

KEY = "a-key-that-nobody-shall-see-4711"
# The service's report, replaced in the page by what replace.report makes of it.
REPLACE = """
    const replace = {};
    const ask = window.fetch;
    window.fetch = async (url, ...rest) => {
        const answer = await ask(url, ...rest);
        if (new URL(url, location.href).pathname !== "/v1/status" || !replace.report || !answer.ok) return answer;
        return new Response(JSON.stringify(replace.report(await answer.json())));
    };
"""


class Page(Browser):
    """The status page."""

    @property
    def shown(self) -> str:
        return self.text("main") + self.text("#notice")

    def text(self, selector: str) -> str:
        """What a person reads there, "" when it is not shown."""
        script = """
            const one = document.querySelector(arguments[0]);
            return one?.checkVisibility() ? one.innerText : "";
        """
        found: str = self.run(script, selector)
        return found

    def number(self, selector: str) -> float:
        """The first number of a text; NaN for none."""
        found = re.search(r"[\d.]+", self.text(selector).replace(",", ""))
        return float(found.group()) if found else float("nan")


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open the page of a service; `before` is run in it before its own scripts."""
    pages: list[tuple[Page, str]] = []

    def start(url: str, *, size: tuple[int, int] = (1280, 900), before: str = "") -> Page:
        driver = chromium(tmp_path / f"profile-{len(pages)}", size, before=before)
        page = Page(driver)
        pages.append((page, url))
        driver.get("about:blank")
        driver.get_log("performance")  # what the browser's own start page loads is not asked about
        driver.get(f"{url}/status")
        page.wait(lambda: page.text("#facts") or page.text("#notice"), "the figures are there")
        return page

    yield start
    try:
        for page, url in pages:
            assert page.run("return violations") == []
            assert outside_requests(page.driver, url) == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    finally:
        for page, _ in pages:
            page.driver.quit()


def metrics(url: str) -> dict[str, float]:
    """The series of /metrics by name and labels."""
    with urllib.request.urlopen(f"{url}/metrics") as answer:
        lines = [line for line in answer.read().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


async def speak(url: str, recording: Path) -> int:
    """Say a recording at the speed of speech; how many finals came."""
    source = wav_file(recording)
    async with connect(url.replace("http", "ws"), rate=source.rate) as session:
        return sum([isinstance(event, Final) async for event in session.transcribe(source)])


async def never(settings: Settings) -> Any:
    await asyncio.Event().wait()


@contextmanager
def served(settings: Settings) -> Iterator[tuple[str, Callable[[], None]]]:
    """A service whose models load for ever: its URL, and what ends it."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> TestServer:
        server = TestServer(build_app(settings, never))
        await server.start_server()
        return server

    def wait(work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, loop).result(30)

    server = wait(start())
    try:
        yield str(server.make_url("")).rstrip("/"), lambda: wait(server.close())
    finally:
        wait(server.close())
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_its_numbers_are_those_of_metrics_while_somebody_speaks(
    service: str, open_page: Callable[..., Page], data: Path
) -> None:
    page = open_page(service)
    assert page.text("#connection") == "Live"
    assert page.number("#sessions-live") == 0
    with ThreadPoolExecutor(1) as threads:
        speaking = threads.submit(asyncio.run, speak(service, data / "austen-0870.wav"))
        page.wait(lambda: page.number("#sessions-live") == 1, "the session is shown")
        page.wait(lambda: page.run("return document.querySelectorAll('.places .taken').length") == 1, "it has a place")
        assert "OpenAI Realtime" in page.text("#protocols")
        assert "1 stream, " in page.text("[data-device=cpu] h4")
        assert "Listening" in page.text("#headline") or "Full" in page.text("#headline")
        reserved = metrics(service)['speechlane_device_reserved{device="cpu"}']
        assert reserved > 0
        assert f"{round(reserved * 100)} %" in page.text("[data-device=cpu] .legend").split("Reserved")[1]
        assert speaking.result(60) > 0
    page.wait(lambda: page.number("#sessions-live") == 0, "the session has ended")
    figures = metrics(service)

    def same() -> bool:
        finals = page.number("[data-wait=final] h4 small")
        partials = page.number("[data-wait=round_trip] h4 small")
        return (
            finals == figures["speechlane_final_latency_seconds_count"] > 0
            and partials == figures["speechlane_chunk_round_trip_seconds_count"] > 0
        )

    page.wait(same, "all that was measured is counted")
    assert f"{figures['speechlane_sessions_admitted_total']:.0f} since the start" in page.text("#sessions-more")
    assert re.fullmatch(r"[\d.]+ (m?s)|≥ 10 s", page.text("[data-wait=final] .p95"))
    models = page.text("#models")
    with urllib.request.urlopen(f"{service}/v1/models") as answer:
        assert all(model["id"] in models for model in json.load(answer)["data"])
    assert re.search(r"\w+/\w+", models), "with their precision"
    assert re.search(r"version \d", page.text("#facts")) and "up for" in page.text("#facts")

    # The charts can be read without a pointer, and by those who do not see them.
    chart = page.driver.find_element(By.CSS_SELECTOR, "#sessions-chart .plot")
    summary = page.wait(lambda: chart.get_attribute("aria-label"), "it is summed up")
    assert re.search(r"from 0 to [1-9]", summary)  # other tests may have had sessions
    chart.send_keys(Keys.HOME)
    first = page.text("#sessions-chart output")
    chart.send_keys(Keys.END)
    last = page.text("#sessions-chart output")
    assert re.search(r"\d:\d\d.* sessions \d", first) and re.search(r"\d:\d\d.* sessions 0", last) and first != last
    assert "sessions 0" in (chart.get_attribute("aria-valuetext") or "")
    chart.send_keys(Keys.ESCAPE)
    assert page.text("#sessions-chart output") == ""
    assert page.complaints() == []


def test_trouble_is_shown_as_what_it_is_also_on_a_phone(service: str, open_page: Callable[..., Page]) -> None:
    report = """
        replace.report = (real) => ({
            ...real,
            ...(window.draining ? { state: "draining" } : {}),
            sessions: { ...real.sessions, live: 4, parked: 1, protocols: { realtime: 3, wyoming: 1, "<b>": 0 } },
            devices: [
                { ...real.devices[0], name: "<i>cuda:0</i>", streams: 190, free_streams: 10 },
                { ...real.devices[0], name: "cuda:1", streams: 3, free_streams: 0 },
                ...real.devices.slice(1),
            ],
            refused: [{ kind: "session", reason: "overloaded", count: 1200, lately: 7 }],
            voices: { ...real.voices, underruns: 5, lately: 2 },
            jobs: { ...real.jobs, detail: "The queue <b> is away.", now: {}, ended: { failed: 2 }, audio: 7300 },
        });
    """
    page = open_page(service, size=(390, 800), before=REPLACE + report)
    page.wait(lambda: page.text("#refused-lately") == "7", "it is shown")
    assert "1,200 since the start" in page.text("#refused-more")
    assert "<i>cuda:0</i>" in page.text("#devices") and "3 streams, full" in page.text("#devices")
    dots = "return document.querySelectorAll('#devices > li')[0].querySelectorAll('.places i:not(.many)').length"
    assert page.run(dots) == 48 and "190 of 200" in page.text("#devices")
    assert "Wyoming" in page.text("#protocols") and "<b>" not in page.text("#protocols")
    assert "<b> is away" in page.text("#jobs-detail") and "2 h 1 min" in page.text("#jobs")
    assert page.run("return document.querySelectorAll('.bad').length") >= 2
    page.run("window.draining = true")
    page.wait(lambda: "Going down" in page.text("#headline"), "it says that it goes down")
    assert page.run("return document.getElementById('announcer').textContent") == "The service is going down."
    names = [link.text for link in page.driver.find_elements(By.CSS_SELECTOR, ".pages a")]
    assert names[:5] == ["Live", "Recordings", "Voice", "Vision", "Status"]


def test_a_key_opens_it_and_is_never_shown(open_page: Callable[..., Page]) -> None:
    with served(load_settings(api_keys=KEY)) as (url, stop):
        page = open_page(url)
        assert "asks for an API key" in page.text("#notice")
        assert page.text("#figures") == ""
        enter_key(page, "wrong")
        page.wait(lambda: "not accepted" in page.text("#notice"), "the key is refused")
        enter_key(page, KEY)
        page.wait(lambda: page.text("#facts"), "the figures are there")
        assert page.text("#notice") == "" and page.text("#connection") == "Live"
        assert page.text("#headline") == "The models are loading."
        assert KEY not in page.run("return document.documentElement.outerHTML + document.body.innerText")
        assert KEY not in page.run("return location.href + JSON.stringify({...localStorage})")

        # The pages know each other, and the key goes along in this tab.
        page.click(".pages a[href=voice]")
        page.click(".pages a[href=status]")
        page.wait(lambda: page.text("#facts"), "it is not asked for again")

        stop()
        page.wait(lambda: page.text("#connection") == "Reconnecting", "the server is missed")
        assert "cannot be reached" in page.text("#notice")
