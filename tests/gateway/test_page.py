"""The browser page in headless Chromium, on the real service, with a recording as its microphone."""

from __future__ import annotations

import json
import socket
import threading
import time
import wave
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest
from selenium.webdriver import Keys
from selenium.webdriver.common.by import By
from websockets.sync.client import connect

from tests.gateway.browser import (
    WORD_ERRORS,
    Browser,
    chromium,
    enter_key,
    needs_browser,
    outside_requests,
    word_errors,
)

if TYPE_CHECKING:
    from tests.conftest import RunningService

pytestmark = needs_browser


class Page(Browser):
    """The page for live speech."""

    @property
    def state(self) -> str:
        """What the page is doing: idle, opening, listening, paused, reconnecting, finishing."""
        return self.driver.find_element(By.TAG_NAME, "body").get_attribute("data-state") or ""

    @property
    def problem(self) -> str:
        """Which problem is shown, "" for none."""
        return self.driver.find_element(By.ID, "notice").get_attribute("data-problem") or ""

    def texts(self, selector: str) -> list[str]:
        """The text of all matching elements, read at one moment."""
        script = "return Array.from(document.querySelectorAll(arguments[0]), (element) => element.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    @property
    def shown(self) -> str:
        return f"{self.state} {self.problem}"

    def wait_for_state(self, state: str) -> None:
        self.wait(lambda: self.state == state, f"the page is {state}")


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open the page of a service. `heard`: the recording that its microphone hears, `size`: the window's."""
    pages: list[tuple[Page, str]] = []

    def start(
        url: str, *, heard: Path | None = None, allowed: bool = True, size: tuple[int, int] = (1280, 800)
    ) -> Page:
        flags = ["--use-fake-device-for-media-stream"]
        if allowed:
            flags.append("--use-fake-ui-for-media-stream")
        if heard is not None:
            flags.append(f"--use-file-for-fake-audio-capture={heard}%noloop")
        driver = chromium(tmp_path / f"profile-{len(pages)}", size, flags)
        page = Page(driver)
        pages.append((page, url))
        if not allowed:
            denied = {"permission": {"name": "microphone"}, "setting": "denied", "origin": url}
            driver.execute_cdp_cmd("Browser.setPermission", denied)
        driver.get("about:blank")
        driver.get_log("performance")  # what the browser's own start page loads is not asked about
        driver.get(url)
        page.wait(lambda: page.texts("select[name=model] option") or page.problem, "the models are known")
        return page

    yield start
    try:
        for page, url in pages:
            assert page.driver.execute_script("return violations") == []
            assert outside_requests(page.driver, url) == []
    finally:
        for page, _ in pages:
            page.driver.quit()


class Relay:
    """A wire between the browser and the service that can be cut. `url` is its near end."""

    def __init__(self, service: str) -> None:
        far = urlsplit(service)
        self._far = (far.hostname or "", far.port or 0)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._sockets: list[socket.socket] = []
        self._dead_until = 0.0
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    def __enter__(self) -> Relay:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut(for_seconds=0)

    def cut(self, *, for_seconds: float) -> None:
        """Break what is connected, and whatever tries to connect in the next seconds."""
        self._dead_until = time.monotonic() + for_seconds
        while self._sockets:
            with suppress(OSError):
                self._sockets.pop().shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        with suppress(OSError):  # raised when the listener is closed
            while True:
                near, _ = self._listener.accept()
                if time.monotonic() < self._dead_until:
                    near.close()
                    continue
                far = socket.create_connection(self._far)
                self._sockets += [near, far]
                for source, target in ((near, far), (far, near)):
                    threading.Thread(target=self._pass_on, args=(source, target), daemon=True).start()

    @staticmethod
    def _pass_on(source: socket.socket, target: socket.socket) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                target.sendall(data)
        with suppress(OSError):
            target.shutdown(socket.SHUT_WR)


@pytest.fixture
def microphone(tmp_path: Path, data: Path) -> Callable[[str], Path]:
    """A recording as a microphone hears it: a second of silence before, and as much after as a test may take."""

    def heard(name: str) -> Path:
        path = tmp_path / f"microphone-{name}"
        with wave.open(str(data / name)) as source, wave.open(str(path), "wb") as target:
            target.setparams(source.getparams())
            second = b"\0\0" * source.getframerate()
            target.writeframes(second + source.readframes(source.getnframes()) + 30 * second)
        return path

    return heard


def test_words_appear_while_speaking_and_stay(
    service: str,
    open_page: Callable[..., Page],
    microphone: Callable[[str], Path],
    references: dict[str, str],
    tmp_path: Path,
) -> None:
    page = open_page(service, heard=microphone("austen-0870.wav"))
    page.press(Keys.SPACE)
    page.wait_for_state("listening")

    # While the recording still speaks: stable words that are continued, and a tail told apart from them.
    stable: list[str] = []
    unstable = False
    while not (finals := page.texts("#transcript .final .text")):
        page.wait(lambda: page.texts("#transcript li") or page.state != "listening", "something is heard")
        if now := [text for text in page.texts("#transcript .live .stable") if text.strip()]:
            stable.append(now[0])
        unstable = unstable or any(page.texts("#transcript .live .unstable"))
        assert not any("  " in text for text in page.texts("#transcript .live .text"))
        time.sleep(0.05)
    assert unstable
    assert stable
    assert all(later.startswith(earlier) for earlier, later in pairwise(stable))
    assert word_errors(references["austen-0870.wav"], finals[0]) <= WORD_ERRORS

    assert page.texts("#transcript .final .word")[0] == finals[0].split()[0]
    assert page.texts("#announcer") == [finals[0]]
    begin, end = (float(time.split(":")[1]) for time in page.texts("#transcript .final .time")[0].split("–"))
    assert 0.7 <= begin <= 2.5
    assert end - begin == pytest.approx(6.5, abs=1.0)

    # Hear it again, from the keyboard.
    for _ in range(20):
        page.press(Keys.TAB)
        if "time" in (page.driver.switch_to.active_element.get_attribute("class") or ""):
            break
    page.press(Keys.ENTER)
    page.wait(lambda: page.texts("#transcript .playing .heard"), "the utterance is heard, word by word")
    page.press(Keys.ESCAPE)
    assert not page.texts("#transcript .playing")

    page.driver.execute_script("document.activeElement.blur()")
    page.press(Keys.SPACE)
    page.wait_for_state("idle")
    assert page.texts("#transcript .final .text") == finals
    assert page.complaints() == []

    downloads = tmp_path / "downloads"
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    page.click("[data-do=txt]")
    [saved] = page.wait(lambda: list(downloads.glob("transcript-*.txt")), "the transcript is saved")
    assert saved.read_text("utf-8") == f"{finals[0]}\n"


@pytest.mark.long
def test_a_dropped_recording_is_played_and_written_down(
    service: str, open_page: Callable[..., Page], data: Path, references: dict[str, str]
) -> None:
    page = open_page(service, size=(360, 740))
    page.click("h1")  # sound needs a person's touch
    page.drop(data / "austen-0930.wav")
    page.wait_for_state("listening")
    began = time.monotonic()
    page.press("p")
    page.wait_for_state("paused")
    page.press("p")
    page.wait_for_state("listening")
    page.click("#mute")
    page.wait_for_state("idle")
    assert time.monotonic() - began > 2, "a recording is played at its own pace"
    heard = " ".join(page.texts("#transcript .final .text"))
    assert word_errors(references["austen-0930.wav"], heard) <= WORD_ERRORS
    assert page.driver.execute_script("return document.documentElement.scrollWidth") <= 360
    assert page.complaints() == []

    # A file that is none says so, and the page goes on.
    page.driver.find_element(By.ID, "file").send_keys(str(data / "references.tsv"))
    page.wait(lambda: page.problem == "notAudio", "the problem is shown")
    assert page.state == "idle"


@pytest.mark.long
def test_what_was_said_can_be_taken_away(service: str, open_page: Callable[..., Page], data: Path) -> None:
    """The formats, by the page's own modules: subtitles are cut at words, JSON has their times."""
    page = open_page(service)
    words = [{"word": f"word{n}", "start": n * 0.5, "end": n * 0.5 + 0.4, "confidence": 0.9} for n in range(30)]
    utterance = {"start": 0.0, "end": 14.9, "text": " ".join(str(word["word"]) for word in words), "words": words}
    script = """
        const [utterances, done] = arguments;
        import(new URL("static/formats.js", location.href)).then((formats) => done(
            [formats.toText(utterances), formats.toSrt(utterances), formats.toJson(utterances), formats.clock(3725.06)]
        ));
    """
    text, srt, as_json, clock = page.driver.execute_async_script(script, [utterance])
    assert text == f"{utterance['text']}\n"
    cues = srt.strip().split("\n\n")
    assert cues[0].splitlines()[:2] == ["1", "00:00:00,000 --> 00:00:05,900"]
    assert " ".join(cue.splitlines()[2] for cue in cues) == utterance["text"]
    assert json.loads(as_json)["utterances"][0]["words"][29] == words[29]
    assert clock == "1:02:05.0"


@pytest.mark.long
def test_a_long_session_keeps_the_document_small(service: str, open_page: Callable[..., Page]) -> None:
    """All utterances are kept, but only the latest rows are in the document; old audio is said to be gone."""
    page = open_page(service)
    script = """
        const done = arguments[0];
        const modules = ["view.js", "ring.js"].map((name) => import(new URL(`static/${name}`, location.href)));
        Promise.all(modules).then(([{ View }, { AudioRing }]) => {
        const element = (id) => document.getElementById(id);
        const view = new View({
            list: element("transcript"), earlier: element("earlier"), latest: element("latest"), onplay() {} });
        for (let n = 0; n < 1000; n += 1) {
            view.finished({ start: n * 5, end: n * 5 + 4, text: `Utterance ${n}`, words: [], language: "en" });
        }
        view.forgetAudioBefore(4600);
        const ring = new AudioRing(10, 60);
        for (let n = 0; n < 1000; n += 1) ring.append(Int16Array.of(n, n, n, n, n, n, n));
        done([ring.start, ring.end, ring.slice(6399, 6401), Array.from(ring.slice(6998, 7100)), ring.slice(0, 7)]);
        });
    """
    ring = page.driver.execute_async_script(script)
    assert ring == [6400, 7000, None, [999, 999], None]
    rows = page.texts("#transcript .text")
    assert (len(rows), rows[0], rows[-1]) == (200, "Utterance 800", "Utterance 999")
    assert len(page.texts("#transcript .faded")) == 120
    page.driver.execute_script("document.getElementById('earlier').click()")
    rows = page.texts("#transcript .text")
    assert (len(rows), rows[0], rows[-1]) == (400, "Utterance 600", "Utterance 999")


@pytest.mark.long
def test_a_refusal_says_what_to_do(
    open_page: Callable[..., Page], launch_service: Callable[..., RunningService]
) -> None:
    url = launch_service("--voices", "heart", SPEECHLANE_API_KEYS="right-key", SPEECHLANE_MAX_SESSIONS="1").url
    page = open_page(url)
    assert page.problem == "keyMissing"

    enter_key(page, "wrong-key")
    page.wait(lambda: page.problem == "keyWrong", "the wrong key is refused")
    enter_key(page, "right-key")
    page.wait(lambda: page.problem == "", "the right key is accepted")
    assert page.driver.execute_script("return JSON.stringify(localStorage)").find("right-key") < 0

    # Full: it is said, with the time of the next try.
    headers = {"Authorization": "Bearer right-key"}
    address = f"{url.replace('http', 'ws', 1)}/v1/realtime?intent=transcription"
    with connect(address, additional_headers=headers, subprotocols=None, proxy=None) as other:
        assert json.loads(other.recv())["type"] == "session.created"
        page.click("#toggle")
        page.wait(lambda: page.problem == "full", "the server is full")
        assert page.state == "idle"
        assert page.texts("#notice .wait")[0].startswith("Trying again in")
    page.click("#notice .act")
    page.wait_for_state("listening")
    page.click("#toggle")
    page.wait_for_state("idle")

    # The voice page does the same.
    page.driver.execute_script("sessionStorage.clear()")
    page.driver.get(f"{url}/voice")
    page.wait(lambda: page.problem == "keyMissing", "the voice page asks for the key")
    enter_key(page, "right-key")
    page.wait(lambda: page.problem == "" and page.texts("#voice-name option"), "it knows the voices")
    page.driver.find_element(By.ID, "text").send_keys("Yes.")
    with connect(address, additional_headers=headers, subprotocols=None, proxy=None) as other:
        assert json.loads(other.recv())["type"] == "session.created"
        page.click("#toggle")
        page.wait(lambda: page.problem == "full", "there is no room for a listener")
    page.click("#notice .act")
    page.wait_for_state("speaking")
    page.wait_for_state("idle")


@pytest.mark.long
def test_words_survive_a_broken_connection(
    service: str, open_page: Callable[..., Page], microphone: Callable[[str], Path], references: dict[str, str]
) -> None:
    with Relay(service) as relay:
        page = open_page(relay.url, heard=microphone("austen-0870.wav"))
        page.press(Keys.SPACE)
        page.wait(lambda: any(text.strip() for text in page.texts("#transcript .live .text")), "words appear")
        relay.cut(for_seconds=1.5)
        page.wait_for_state("reconnecting")
        page.wait(lambda: page.problem == "reconnecting", "it is said that words are kept")
        page.wait_for_state("listening")
        assert page.problem == ""
        finals = page.wait(lambda: page.texts("#transcript .final .text"), "the utterance is finished")
        assert word_errors(references["austen-0870.wav"], finals[0]) <= WORD_ERRORS


@pytest.mark.long
def test_a_blocked_microphone_says_how_to_allow_it(service: str, open_page: Callable[..., Page]) -> None:
    page = open_page(service, allowed=False)
    page.click("#toggle")
    page.wait(lambda: page.problem == "microphoneDenied", "the problem is shown")
    assert "address bar" in page.texts("#notice p")[0]
    assert page.state == "idle"
    assert page.complaints() == []
