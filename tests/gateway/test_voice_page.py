"""The voice page in headless Chromium, on the real service: a text read aloud, and a conversation."""

from __future__ import annotations

import base64
import io
import json
import struct
import wave
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from selenium.webdriver import ActionChains, Keys
from websockets.sync.client import connect

from tests.gateway.browser import (
    WORD_ERRORS,
    Browser,
    chromium,
    needs_browser,
    outside_requests,
    word_errors,
)
from tests.gateway.realtime.talk import hum

RATE = 24_000
TEXT = "On 3 May, Dr. Moore 😀 paid $29.95\nfor “tea”."
LONG = "Seven old fishermen walked slowly down to the quiet harbour. " * 4
FRAME_SECONDS = 0.08

pytestmark = [*needs_browser, pytest.mark.long]

# Everything that leaves the page's player, recorded as it is on the audio thread, and all that is said on its sockets.
RECORD = """
    window.played = [];
    window.heardSamples = 0;
    window.said = [];
    window.told = [];
    window.marks = [];
    const Node = AudioWorkletNode;
    window.AudioWorkletNode = class extends Node {
        constructor(context, name, options) {
            super(context, name, options);
            if (name !== "playout") return;
            const samples = Math.round(context.sampleRate * 0.08);
            const tap = new Node(context, "capture", { processorOptions: { frameSamples: samples } });
            tap.port.onmessage = ({ data }) => {
                if (!data.samples) return;
                played.push(data.samples);
                heardSamples += data.samples.reduce((sum, sample) => sum + (sample !== 0), 0);
            };
            this.connect(tap).connect(context.destination);
        }
    };
    const Socket = WebSocket;
    window.WebSocket = class extends Socket {
        constructor(...all) {
            super(...all);
            this.addEventListener("message", ({ data }) => {
                if (typeof data !== "string") return;
                const { type } = JSON.parse(data);
                told.push({ type, heard: heardSamples });
            });
        }
        send(data) {
            const message = JSON.parse(data);
            if (message.type !== "input_audio_buffer.append") said.push(message);
            super.send(data);
        }
    };
    addEventListener("DOMContentLoaded", () => {
        const mirror = document.getElementById("mirror");
        if (!mirror) return; // the empty page before
        new MutationObserver(() => {
            const mark = document.querySelector("#mirror mark")?.textContent;
            if (mark && mark !== marks.at(-1)?.word) marks.push({ word: mark, heard: heardSamples });
        }).observe(mirror, { childList: true, subtree: true });
    });
"""

# A microphone that hears what a test tells it to.
MICROPHONE = """
    const listen = async () => {
        window.room = new AudioContext();
        window.ear = room.createMediaStreamDestination();
        return ear.stream;
    };
    if (navigator.mediaDevices) navigator.mediaDevices.getUserMedia = listen;
    window.hear = async (wav) => {
        const bytes = Uint8Array.from(atob(wav), (letter) => letter.charCodeAt(0));
        const node = new AudioBufferSourceNode(room, { buffer: await room.decodeAudioData(bytes.buffer) });
        node.connect(ear);
        node.start();
    };
"""


class Page(Browser):
    """The page for voices."""

    @property
    def state(self) -> str:
        state: str = self.run("return document.body.dataset.state")
        return state

    @property
    def problem(self) -> str:
        """Which problem is shown, "" for none."""
        problem: str = self.run("return document.getElementById('notice').dataset.problem ?? ''")
        return problem

    @property
    def shown(self) -> str:
        return f"{self.state} {self.problem} {self.texts('#turns, #result')} {self.complaints()}"

    def texts(self, selector: str) -> list[str]:
        """The text of all matching elements, read at one moment."""
        script = "return Array.from(document.querySelectorAll(arguments[0]), (element) => element.textContent)"
        found: list[str] = self.run(script, selector)
        return found

    def focused(self) -> str:
        """The id of what has the focus."""
        focused: str = self.run("return document.activeElement.id")
        return focused

    def tab_to(self, name: str) -> None:
        """Press the tabulator until the focus is there."""
        for _ in range(25):
            if self.focused() == name:
                return
            self.press(Keys.TAB)
        pytest.fail(f"{name} cannot be reached with the tabulator")

    def play(self) -> None:
        """Ctrl + Enter."""
        ActionChains(self.driver).key_down(Keys.CONTROL).send_keys(Keys.ENTER).key_up(Keys.CONTROL).perform()

    def doing(self, what: str) -> bool:
        return self.texts("#voice") == [what]

    def said(self, kind: str) -> list[dict[str, Any]]:
        """What the page has told the server, of a type."""
        said: list[dict[str, Any]] = self.run("return said.filter(({type}) => type === arguments[0])", kind)
        return said

    def hear(self, wav: bytes) -> None:
        """Speak into the microphone."""
        self.run("hear(arguments[0])", base64.b64encode(wav).decode())

    def played(self) -> NDArray[np.int16]:
        """What has left the player, as PCM16 give or take a unit, without digital silence."""
        script = """
            const all = new Int16Array(played.reduce((sum, piece) => sum + piece.length, 0));
            let at = 0;
            for (const piece of played) { all.set(piece, at); at += piece.length; }
            const bytes = new Uint8Array(all.buffer);
            let text = "";
            for (let i = 0; i < bytes.length; i += 8192) text += String.fromCharCode(...bytes.subarray(i, i + 8192));
            return btoa(text);
        """
        samples = np.frombuffer(base64.b64decode(self.run(script)), "<i2")
        return samples[samples != 0]


@pytest.fixture
def open_page(tmp_path: Path) -> Iterator[Callable[..., Page]]:
    """Open the voice page of a service. `heard`: the recording that its microphone hears; `before`: run before it."""
    pages: list[tuple[Page, str]] = []

    def start(
        url: str,
        address: str = "",
        *,
        heard: Path | None = None,
        allowed: bool = True,
        size: tuple[int, int] = (1280, 800),
        before: str = "",
    ) -> Page:
        flags = ["--use-fake-device-for-media-stream"]
        if allowed:
            flags.append("--use-fake-ui-for-media-stream")
        if heard is not None:
            flags.append(f"--use-file-for-fake-audio-capture={heard}%noloop")
        driver = chromium(tmp_path / f"profile-{len(pages)}", size, flags, RECORD + before)
        page = Page(driver)
        pages.append((page, url))
        if not allowed:
            denied = {"permission": {"name": "microphone"}, "setting": "denied", "origin": url}
            driver.execute_cdp_cmd("Browser.setPermission", denied)
        driver.get("about:blank")
        driver.get_log("performance")  # what the browser's own start page loads is not asked about
        driver.get(f"{url}/voice{address}")
        page.wait(lambda: page.texts("#voice-name option") or page.problem, "the voices are known")
        return page

    yield start
    try:
        for page, url in pages:
            assert page.run("return violations") == []
            assert page.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth") == 0
            assert outside_requests(page.driver, url) == []
    finally:
        for page, _ in pages:
            page.driver.quit()


def spoken(url: str, text: str) -> tuple[NDArray[np.int16], list[dict[str, Any]]]:
    """What the server itself says to a text: its samples, and its words."""
    sound, words = b"", []
    with connect(f"{url.replace('http', 'ws', 1)}/v1/speak", proxy=None, max_size=None) as socket:
        for message in (
            {"type": "create", "lead": None},
            {"type": "text", "text": text, "end": True},
        ):
            socket.send(json.dumps({"context": "test", **message}))
        while True:
            message = socket.recv()
            if isinstance(message, bytes):
                assert struct.unpack_from("<I", message) == (1,)
                sound += message[16:]
                continue
            event = json.loads(message)
            assert event["type"] in ("ready", "created", "words", "done"), event
            words += event.get("words", [])
            if event["type"] == "done":
                return np.frombuffer(sound, "<i2"), words


def as_wav(pcm: bytes, rate: int = 16_000) -> bytes:
    file = io.BytesIO()
    with wave.open(file, "wb") as writer:
        writer.setnchannels(1)
        writer.setsampwidth(2)
        writer.setframerate(rate)
        writer.writeframes(pcm)
    return file.getvalue()


def test_the_word_that_is_heard_is_marked_and_the_sound_is_the_servers(
    service: str, open_page: Callable[..., Page], tmp_path: Path
) -> None:
    page = open_page(service)
    page.run("const text = document.getElementById('text'); text.value = arguments[0]; text.focus()", TEXT)
    page.run("document.getElementById('text').dispatchEvent(new Event('input', {bubbles: true}))")
    page.play()
    page.wait(lambda: page.state == "speaking", "it speaks")
    page.wait(lambda: page.state == "idle", "it has spoken")

    samples, words = spoken(service, TEXT)
    marks = page.run("return marks")
    assert [mark["word"] for mark in marks] == [TEXT[word["start_char"] : word["end_char"]] for word in words]
    assert any("$29.95" in mark["word"] for mark in marks) and "tea" in marks[-1]["word"]
    # Each on the clock of the sound itself: when its first sample had left the player, give or take a few frames.
    for mark, word in zip(marks, words, strict=True):
        before = int(np.count_nonzero(samples[: round(word["start"] * RATE)]))
        assert abs(mark["heard"] - before) <= 0.3 * RATE, (mark, word)

    heard, expected = page.played(), samples[samples != 0]
    assert len(heard) == len(expected)
    assert np.abs(heard.astype(int) - expected).max() <= 1
    reports = [report["seconds"] for report in page.said("playback")]
    assert len(reports) >= 5
    assert reports == sorted(reports) and reports[-1] <= len(samples) / RATE
    assert (
        page.texts("#result")[0].startswith("first sound after 0.") or "first sound after" in page.texts("#result")[0]
    )
    assert page.texts(".spoken") == TEXT.split("\n")

    # Saved as it was heard, and made anew for other words without being played.
    downloads = tmp_path / "downloads"
    page.driver.execute_cdp_cmd("Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(downloads)})
    page.click("#download")
    [saved] = page.wait(lambda: list(downloads.glob("on-3-may-dr-moore.wav")), "the sound is saved")
    with wave.open(str(saved)) as file:
        assert (file.getframerate(), file.getnchannels()) == (RATE, 1)
        assert np.array_equal(np.frombuffer(file.readframes(file.getnframes()), "<i2"), samples)
    page.run("document.getElementById('text').value = 'Yes.'")
    page.click("#download")
    [made] = page.wait(lambda: list(downloads.glob("yes.wav")), "the sound is made and saved")
    with wave.open(str(made)) as file:
        assert np.array_equal(np.frombuffer(file.readframes(file.getnframes()), "<i2"), spoken(service, "Yes.")[0])
    assert len(page.played()) == len(heard)
    assert page.complaints() == []


def test_by_keyboard_alone(service: str, open_page: Callable[..., Page]) -> None:
    page = open_page(service, allowed=False, size=(390, 844))
    page.tab_to("text")
    page.press(LONG)
    page.play()
    page.wait(lambda: len(page.run("return marks")) >= 3, "words are marked")
    page.press("p")
    page.wait(lambda: page.state == "paused", "it pauses")
    before = page.run("return [marks.length, heardSamples]")
    page.press("p")
    page.wait(lambda: page.run("return marks.length") > before[0], "it goes on")
    assert [message["type"] for kind in ("hold", "resume") for message in page.said(kind)] == ["hold", "resume"]

    page.press(Keys.ESCAPE)
    page.wait(lambda: page.state == "idle", "it stops")
    [read] = page.texts("#mirror .spoken")
    assert read and LONG.startswith(read) and len(read) < 100
    assert page.texts("#result")[0].startswith(f"{len(read)} of {len(LONG)} characters spoken")
    page.tab_to("go-on")
    page.press(Keys.ENTER)
    page.wait(lambda: page.state == "speaking", "it goes on from there")
    page.wait(lambda: page.texts("#mirror mark"), "a word is marked")
    assert page.said("text")[-1]["text"] == LONG[len(read) :]
    assert page.texts("#mirror .spoken")[0].startswith(read)
    page.press(Keys.ESCAPE)
    page.wait(lambda: page.state == "idle", "it stops again")

    page.tab_to("explain")
    page.press(Keys.ENTER)
    page.wait(lambda: page.texts("#explanation tbody tr"), "the text is explained")
    assert page.texts("#explanation tr:nth-child(1) td")[:3] == ["Seven", "Seven", "word"]
    assert len(page.texts("#explanation tbody")) == 4

    page.run("document.activeElement.blur()")
    page.tab_to("tab-speak")
    page.press(Keys.ARROW_RIGHT)
    page.wait(lambda: page.focused() == "tab-talk", "the other tab")
    assert page.run("return [document.getElementById('speak').hidden, document.getElementById('talk').hidden]") == [
        True,
        False,
    ]
    page.tab_to("toggle")
    page.press(Keys.ENTER)
    page.wait(lambda: page.problem == "microphoneDenied", "the microphone is blocked, and the page says so")
    assert page.state == "idle"


@pytest.mark.long
def test_a_recording_at_the_microphone_is_answered(
    service: str, open_page: Callable[..., Page], data: Path, references: dict[str, str], tmp_path: Path
) -> None:
    path = tmp_path / "microphone.wav"
    with wave.open(str(data / "austen-0930.wav")) as source, wave.open(str(path), "wb") as target:
        target.setparams(source.getparams())
        second = b"\0\0" * source.getframerate()
        target.writeframes(second + source.readframes(source.getnframes()) + 30 * second)
    page = open_page(service, "#talk", heard=path)
    page.press(Keys.SPACE)
    page.wait(lambda: page.state == "listening", "it listens")
    page.wait(lambda: page.texts("#turns .assistant .heard-text") and page.doing("Answering"), "it answers")
    page.wait(lambda: page.doing("Listening"), "it has answered")
    [question], [answer] = page.texts("#turns .person .text"), page.texts("#turns .assistant .heard-text")
    assert word_errors(references["austen-0930.wav"], question) <= WORD_ERRORS
    assert answer == f"You said: {question}"
    assert "Echo, the embedded demonstration" in page.texts("#who")[0]
    parts = dict(part.rsplit(" ", 1) for part in page.texts("#turns .legend > span"))
    assert float(parts["pause"]) == 0.5
    assert {"pause", "transcript", "language model", "voice", "player"} >= set(parts)
    total = float(page.texts("#turns .timing strong")[0].split()[0])
    assert total == pytest.approx(sum(map(float, parts.values())), abs=0.05)
    assert page.said("x.output_audio.played")
    page.press(Keys.SPACE)
    page.wait(lambda: page.state == "idle", "it has ended")
    assert page.complaints() == []


@pytest.mark.long
def test_who_speaks_is_given_the_floor_and_a_hum_is_not(
    service: str, open_page: Callable[..., Page], data: Path
) -> None:
    page = open_page(service, "#talk", before=MICROPHONE)
    page.press(Keys.SPACE)
    page.wait(lambda: page.doing("Listening"), "it listens")
    page.hear((data / "austen-0880.wav").read_bytes())
    page.wait(lambda: page.doing("Answering"), "it answers")
    page.hear(as_wav(hum()))
    page.wait(lambda: "x.output_audio.resumed" in told(page), "a hum is no interruption")
    page.wait(lambda: page.doing("Answering"), "the answer goes on")
    page.hear((data / "austen-0930.wav").read_bytes())
    page.wait(lambda: "conversation.item.truncated" in told(page), "it is interrupted")
    page.wait(lambda: len(page.texts("#turns .assistant")) == 2 and page.doing("Answering"), "the next answer")

    [kept], [lost] = page.texts("#turns .cut .heard-text"), page.texts("#turns .cut .unheard")
    assert f"{kept}{lost}" == f"You said: {page.texts('#turns .person .text')[0]}"
    assert len(page.texts("#turns .person")) == 2, "the hum has left nothing"
    # From the first moment of doubt on the speakers are silent, but for what was with the audio thread by then.
    for end in ("x.output_audio.resumed", "conversation.item.truncated"):
        events = page.run("return told")
        last = next(place for place, event in enumerate(events) if event["type"] == end)
        held = max(place for place, event in enumerate(events[:last]) if event["type"] == "x.output_audio.held")
        assert events[last]["heard"] - events[held]["heard"] <= 3 * FRAME_SECONDS * RATE
    page.press(Keys.ESCAPE)
    page.wait(lambda: page.said("conversation.item.truncate"), "no more of this answer")
    page.wait(lambda: len(page.texts("#turns .cut")) == 2, "it is cut there")
    assert page.complaints() == []


def told(page: Page) -> list[str]:
    """The types of what the server has said."""
    types: list[str] = page.run("return told.map(({type}) => type)")
    return types
