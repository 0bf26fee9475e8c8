"""The page for recordings in headless Chromium, on the real service with its own queue."""

from __future__ import annotations

import json
import shutil
import struct
import time
import urllib.request
import wave
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from selenium.common.exceptions import NoAlertPresentException
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By

from batch_jobs.transcript import Account, Hole, Repair, Segment, Suspicion, Transcript
from batch_jobs.writers.document import document
from speech.events import Word
from tests.gateway.browser import WORD_ERRORS, Browser, chromium, messages, needs_browser, word_errors

if TYPE_CHECKING:
    from tests.conftest import RunningService

RECORDING = "austen-0930.wav"
HOSTILE = "<img src=x onerror=violations.push('ran')>.wav"

pytestmark = needs_browser


class Page(Browser):
    """The page for recordings."""

    patience: ClassVar[float] = 40.0

    @property
    def shown(self) -> str:
        return f"{self.texts('main')} {self.texts('#notice')}"

    def texts(self, selector: str) -> list[str]:
        """The text of all matching elements that are shown, read at one moment."""
        script = """
            const found = Array.from(document.querySelectorAll(arguments[0])).filter((one) => !one.closest("[hidden]"));
            return found.map((one) => one.textContent);
        """
        found: list[str] = self.run(script, selector)
        return found

    def wait_for_state(self, name: str, *states: str) -> None:
        """Wait until the job of that name is in one of the states."""
        script = """
            const rows = Array.from(document.querySelectorAll("#jobs > li"));
            return rows.find((row) => row.querySelector(".name").textContent === arguments[0])?.dataset.state;
        """
        self.wait(lambda: self.run(script, name) in states, f"{name} is {' or '.join(states)}")

    def open(self, name: str) -> None:
        """Open the job of that name and wait for its transcript."""
        script = """
            const names = Array.from(document.querySelectorAll("#jobs .name"));
            names.find((one) => one.textContent === arguments[0]).click();
        """
        self.run(script, name)
        self.wait(lambda: self.texts("#transcript .text"), "the transcript is shown")


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open the jobs page of a service; `before` is run in it before its own scripts."""
    pages: list[Page] = []

    def start(url: str, *, size: tuple[int, int] = (1280, 800), before: str = "") -> Page:
        driver = chromium(tmp_path / f"profile-{len(pages)}", size, before=before)
        page = Page(driver)
        pages.append(page)
        driver.get(f"{url}/jobs")
        page.wait(
            lambda: page.texts("#connection") == ["Connected"] or page.texts("#notice strong"), "the list is there"
        )
        return page

    yield start
    try:
        for page in pages:
            assert page.run("return violations") == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
    finally:
        for page in pages:
            page.driver.quit()


def heard(page: Page) -> str:
    """The word that is marked, "" for none."""
    return next(iter(page.texts("#transcript .heard")), "")


def requests(page: Page, method: str) -> list[dict[str, Any]]:
    """What was requested by a method since the last call."""
    sent = [one["params"]["request"] for one in messages(page.driver) if one["method"] == "Network.requestWillBeSent"]
    return [request for request in sent if request["method"] == method]


def test_a_dropped_recording_is_transcribed_and_read_along(
    service: str, open_page: Callable[..., Page], data: Path, references: dict[str, str], tmp_path: Path
) -> None:
    hostile = tmp_path / HOSTILE
    shutil.copy(data / RECORDING, hostile)
    page = open_page(service)
    page.drop(hostile, data / "references.tsv")
    page.wait_for_state(HOSTILE, "done")
    page.wait_for_state("references.tsv", "failed")
    assert page.texts("#uploads li") == []
    assert page.run("return document.querySelectorAll('#jobs img').length") == 0

    page.open(HOSTILE)
    assert page.texts("#job-title") == [HOSTILE]
    text = " ".join(page.texts("#transcript .speech .text"))
    assert word_errors(references[RECORDING], text) <= WORD_ERRORS

    # It plays, and the mark goes from word to word.
    page.press(Keys.SPACE)
    first = page.wait(lambda: heard(page), "a word is heard")
    page.wait(lambda: heard(page) not in ("", first), "another word is heard")
    page.press(Keys.SPACE)
    page.wait(lambda: page.run("return document.getElementById('audio').paused"), "it is paused")

    # A press on a word goes there.
    words = page.driver.find_elements(By.CSS_SELECTOR, "#transcript .word")
    target = words[len(words) // 2]
    target.click()
    page.wait(lambda: "heard" in (target.get_attribute("class") or ""), "the word is marked")
    page.click("#play")

    downloads = tmp_path / "downloads"
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    page.click("[data-format=srt]")
    [saved] = page.wait(lambda: list(downloads.glob("*.srt")), "the subtitles are saved")
    assert "-->" in saved.read_text("utf-8")

    # Deleting can be taken back for a while, and then it is done.
    page.click("#job-actions [title=Delete]")
    page.wait(lambda: page.texts("#jobs .undo"), "it can be undone")
    page.press(Keys.ENTER)
    assert page.texts("#jobs .undo") == []
    page.wait_for_state(HOSTILE, "done")
    page.click("#jobs [title='Delete references.tsv']")
    page.wait(lambda: "references.tsv" not in page.texts("#jobs .name"), "it is gone")
    assert page.complaints() == []


def crafted() -> Transcript:
    """Two repairs, one that changed the text and one that took it away, a gap and a doubt."""

    def segment(start: float, text: str, confidence: float = 0.9) -> Segment:
        words = text.split()
        timed = [Word(f" {word}", start + n * 0.3, start + n * 0.3 + 0.25, confidence) for n, word in enumerate(words)]
        return Segment(start, timed[-1].end, text, tuple(timed), language="en")

    def suspicion(rule: str, start: float, end: float) -> Suspicion:
        return Suspicion(rule, start, end, 0, 8.0, 3.0, "<b>detail</b>")

    loop, silent = suspicion("loop", 1.0, 2.0), suspicion("no voice", 2.2, 2.8)
    once = segment(1.0, "said <i>once</i>")
    return Transcript(
        segments=(segment(0.0, "one two"), once, segment(3.0, "sure of nothing", 0.2)),
        account=Account(4.5, 4.5, 4.0, 3.5, (Hole(4.0, 4.5, 0, "a worker died"),)),
        language="en",
        repairs=(
            Repair(1.0, 2.0, 0, (loop,), (segment(1.0, "said said said"),), (once,), -2.0, 0.5, True, "beam 5", 2),
            Repair(2.2, 2.8, 0, (silent,), (segment(2.2, "Thank you."),), (), -1.0, 0.0, True, "beam 5"),
        ),
        suspicions=(suspicion("rate", 3.0, 3.9),),
        warnings=("The left channel is silent.",),
    )


# The service's answer to a request of the page, replaced in the page: result(json) makes the transcript, list(json) the
# page of jobs.
REPLACE = """
    const replace = {};
    const ask = window.fetch;
    window.fetch = async (url, ...rest) => {
        const path = new URL(url, location.href).pathname;
        const made = path.endsWith("/results/json") ? replace.result : path === "/v1/batch/jobs" ? replace.list : null;
        if (!made || rest[0]?.method === "POST") return ask(url, ...rest);
        const real = await (await ask(path, ...rest)).json();
        return new Response(JSON.stringify(made(real, new URL(url, location.href))));
    };
"""


@pytest.fixture(scope="module")
def finished(service: str, data: Path) -> str:
    """A job on the service that is done; its name."""
    name = "finished.wav"
    boundary = "boundary"
    head = f'--{boundary}\r\nContent-Disposition: form-data; name="file"; filename="{name}"\r\n\r\n'
    body = head.encode() + (data / RECORDING).read_bytes() + f"\r\n--{boundary}--\r\n".encode()
    kind = f"multipart/form-data; boundary={boundary}"
    request = urllib.request.Request(f"{service}/v1/batch/jobs", body, {"Content-Type": kind})
    with urllib.request.urlopen(request) as answer:
        job = json.load(answer)
    deadline = time.monotonic() + Page.patience
    while job["state"] not in ("done", "partial"):
        assert time.monotonic() < deadline and job["state"] != "failed", job
        time.sleep(0.2)
        with urllib.request.urlopen(f"{service}{job['urls']['self']}") as answer:
            job = json.load(answer)
    return name


def test_what_was_repaired_is_marked_with_before_and_after_and_why(
    service: str, finished: str, open_page: Callable[..., Page]
) -> None:
    page = open_page(
        service, size=(390, 800), before=REPLACE + f"replace.result = () => ({document(crafted()).strip()});"
    )
    page.open(finished)
    assert page.texts("#transcript > li .text") == [
        "one two",
        "said <i>once</i>",
        "Words that nobody said were taken out here.",
        "sure of nothing",
        "A worker died, 0:04.0–0:04.5",
    ]
    assert page.texts("#transcript .mended") == ["said", "<i>once</i>"]
    assert page.texts("#transcript .doubt-3") == ["sure", "of", "nothing"]
    assert page.texts("#marks button") == ["2repairs", "1doubt", "1gap"]
    assert page.texts("#job-warnings li") == ["The left channel is silent."]

    first = page.driver.find_element(By.CSS_SELECTOR, ".finding.repair")
    assert not first.find_element(By.CSS_SELECTOR, ".before").is_displayed()
    first.find_element(By.TAG_NAME, "summary").click()
    assert first.find_element(By.CSS_SELECTOR, ".before").text == "said said said"
    assert first.find_element(By.CSS_SELECTOR, ".after").text == "said <i>once</i>"
    assert "The same words again and again" in first.text
    assert "<b>detail</b>" in first.text
    assert [text for text in page.texts(".finding.suspicion") if "More words than anybody can say" in text]

    # From mark to mark by keys, and the strip shows them in their colours.
    # The last mark lies behind the end of the recording, where the player stops at 3.3 s.
    for key, places in zip("nnnnp", (("0:01",), ("0:02",), ("0:03",), ("0:03", "0:04"), ("0:02",)), strict=True):
        page.press(key)
        page.wait(lambda at=places: page.texts("#position")[0].split(" / ")[0] in at, f"the player at {places}")
    colours = page.run("""
        const {width, height} = document.getElementById("strip");
        const {data} = document.getElementById("strip").getContext("2d").getImageData(0, 0, width, height);
        const seen = new Set();
        for (let at = 0; at < data.length; at += 4) if (data[at + 3] === 255) seen.add(data.slice(at, at + 3).join());
        const style = getComputedStyle(document.documentElement);
        const wanted = ["--accent", "--stop", "--warn"].map((name) => style.getPropertyValue(name).trim());
        const parts = (colour) => [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16)).join();
        return wanted.map((colour) => seen.has(parts(colour)));
    """)
    assert colours == [True, True, True]
    assert page.complaints() == []


@pytest.mark.long
def test_a_thousand_jobs_and_three_hours_of_words_are_not_all_drawn(
    service: str, finished: str, open_page: Callable[..., Page]
) -> None:
    before = """
        // The recording is not as long as that, so it is not loaded.
        Object.defineProperty(HTMLMediaElement.prototype, "src", {set() {}});
        replace.list = ({data}, url) => {
            const from = Number((url.searchParams.get("before") ?? "made-0").slice(5));
            const [one] = data.filter(({name}) => name === "finished.wav");
            const made = (n) => ({...one, id: `made-${n}`, name: `take ${n}.wav`, created: one.created - n});
            const jobs = Array.from({length: 200}, (_, n) => made(from + n + 1));
            return {object: "list", data: from === 0 ? [one, ...jobs.slice(0, 199)] : jobs, has_more: from < 799};
        };
        replace.result = (result) => {
            const word = (at) => ({text: " word", start: at, end: at + 0.3, confidence: 0.9});
            const segment = (n) => {
                const words = Array.from({length: 10}, (_, at) => word(n * 3.6 + at * 0.36));
                const text = `word${" word".repeat(9)}`;
                return {id: n, start: n * 3.6, end: n * 3.6 + 3.54, channel: 0, text, words};
            };
            const segments = Array.from({length: 3000}, (_, n) => segment(n));
            return {...result, segments, account: {...result.account, decoded: 10800}};
        };
    """
    page = open_page(service, before=REPLACE + before)
    page.wait(lambda: page.run("return document.querySelectorAll('#jobs > li').length") == 1000, "all are listed")
    assert page.texts("#filters [data-filter=all] span") == ["1,000"]
    page.driver.find_element(By.ID, "search").send_keys("TAKE 77")
    assert len(page.texts("#jobs > li")) == 11  # 77, 770 ... 779
    page.driver.find_element(By.ID, "search").send_keys(Keys.ESCAPE)
    page.click("[data-filter=failed]")
    assert page.texts("#none") == ["None of them is like that."]
    page.click("[data-filter=done]")

    page.open(finished)
    page.wait(lambda: len(page.texts("#transcript > li")) == 3000, "all rows are there")
    drawn = "return document.querySelectorAll('#transcript .word').length"
    page.wait(lambda: 0 < page.run(drawn) < 1500, "only words near the view are elements")
    page.driver.find_element(By.ID, "strip").send_keys(Keys.END, Keys.PAGE_DOWN)
    page.wait(lambda: heard(page), "a word near the end is marked")
    box = page.run("return document.querySelector('.heard').getBoundingClientRect().toJSON()")
    assert 40 < box["top"] < page.run("return innerHeight - document.querySelector('.dock').offsetHeight")
    assert page.texts("#position") == ["2:59:30 / 3:00:00"]
    page.wait(lambda: 0 < page.run(drawn) < 1500, "words that went out of view are elements no more")

    # Whoever scrolls away is left alone, and finds back.
    page.run("document.activeElement.blur()")
    page.press(Keys.PAGE_UP)
    page.wait(lambda: page.texts("#latest"), "it is not followed")
    page.click("#latest")
    page.press(Keys.ESCAPE)
    page.wait(lambda: len(page.texts("#jobs > li")) == 1000, "back at the list")
    assert page.complaints() == []


def large_recording(path: Path, recording: Path, filling: int) -> None:
    """A WAV file with `filling` bytes of nothing in it before the sound."""
    with wave.open(str(recording)) as source:
        rate, sound = source.getframerate(), source.readframes(source.getnframes())
    form = struct.pack("<4sIHHIIHH", b"fmt ", 16, 1, 1, rate, 2 * rate, 2, 16)
    body = (
        form + struct.pack("<4sI", b"JUNK", filling) + bytes(filling) + struct.pack("<4sI", b"data", len(sound)) + sound
    )
    path.write_bytes(struct.pack("<4sI4s", b"RIFF", 4 + len(body), b"WAVE") + body)


@pytest.mark.long
def test_an_upload_goes_on_where_it_was_after_a_reload(
    service: str, open_page: Callable[..., Page], data: Path, tmp_path: Path
) -> None:
    large = tmp_path / "large.wav"
    large_recording(large, data / RECORDING, 30_000_000)
    page = open_page(service)
    page.driver.execute_cdp_cmd("Network.enable", {})
    slow = {"offline": False, "latency": 0, "downloadThroughput": -1, "uploadThroughput": 6_000_000}
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
    page.driver.find_element(By.ID, "files").send_keys(str(large))
    stored = "return JSON.parse(Object.entries(localStorage).find(([key]) => key.includes('large.wav'))?.[1] ?? '{}')"
    page.wait(lambda: page.run(stored).get("sent", 0) > 0, "a piece was sent")
    assert "Uploading" in page.texts("#uploads .line")[0]

    # Offline for a moment: it waits and goes on by itself.
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow | {"offline": True})
    page.wait(lambda: "No connection" in page.texts("#uploads .line")[0], "the network is missed")
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow)
    page.wait(lambda: "Uploading" in page.texts("#uploads .line")[0], "it goes on")

    page.driver.refresh()
    with suppress(NoAlertPresentException):
        page.driver.switch_to.alert.accept()
    page.wait(lambda: page.texts("#uploads .interrupted"), "the interrupted upload is named")
    assert page.texts("#uploads .line")[0].startswith("Interrupted at ")
    requests(page, "PATCH")
    page.driver.execute_cdp_cmd("Network.emulateNetworkConditions", slow | {"uploadThroughput": -1})
    page.driver.find_element(By.ID, "files").send_keys(str(large))
    page.wait_for_state("large.wav", "done")
    assert int(requests(page, "PATCH")[0]["headers"]["Upload-Offset"]) >= 8 * 1024 * 1024
    assert page.run(stored) == {}


@pytest.mark.long
def test_with_a_key_jobs_are_listed_and_recordings_played(
    launch_service: Callable[..., RunningService], open_page: Callable[..., Page], data: Path
) -> None:
    page = open_page(launch_service(SPEECHLANE_API_KEYS="right-key").url)
    shown = "return document.getElementById('notice').dataset.problem ?? null"
    for key, problem in (("wrong-key", "keyWrong"), ("right-key", None)):
        page.click("#notice .act")
        field = page.driver.find_element(By.NAME, "key")
        field.clear()
        field.send_keys(key)
        page.click("dialog .primary")
        page.wait(lambda problem=problem: page.run(shown) == problem, f"the problem is {problem}")
    page.wait(lambda: page.texts("#empty"), "it is said what to do first")
    page.drop(data / RECORDING)
    page.wait_for_state(RECORDING, "done")
    page.open(RECORDING)
    page.press(Keys.SPACE)
    played = "return document.getElementById('audio').currentTime"
    page.wait(lambda: page.run(played) > 0.3, "the recording plays though a player cannot send a key")
    assert page.texts("#silence") == [""]
    with wave.open(str(data / RECORDING)) as recording:
        seconds = recording.getnframes() / recording.getframerate()
    assert page.run("return document.getElementById('audio').duration") == pytest.approx(seconds, abs=0.1)
    assert page.run("return JSON.stringify(localStorage)").count("right-key") == 0
