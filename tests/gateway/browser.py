"""What the tests of all pages share: headless Chromium, the page in it, and what it asked and said."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import urlsplit

import jiwer
import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains
from selenium.webdriver.common.by import By
from whisper_normalizer.english import EnglishTextNormalizer

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
CHROMEDRIVER = shutil.which("chromedriver")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--lang=en",
)
WORD_ERRORS = 0.1

# What a person's console would show of violations, kept where the test can read it.
RECORD_VIOLATIONS = """
    window.violations = [];
    addEventListener("securitypolicyviolation", ({violatedDirective, blockedURI}) =>
        violations.push(violatedDirective + " " + blockedURI));
"""

needs_browser = [
    pytest.mark.skipif(
        CHROMIUM is None or CHROMEDRIVER is None,
        reason="needs Chromium and its driver: apt-get install chromium chromium-driver",
    ),
    pytest.mark.timeout(90),
]


@dataclass
class Browser:
    """A page in a browser of its own."""

    driver: webdriver.Chrome
    patience: ClassVar[float] = 30.0

    @property
    def shown(self) -> str:
        """What the page shows, for the report of a test that fails."""
        return ""

    def run(self, script: str, *arguments: Any) -> Any:
        return self.driver.execute_script(script, *arguments)

    def click(self, selector: str) -> None:
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def press(self, *keys: str) -> None:
        """Press keys wherever the focus is."""
        ActionChains(self.driver).send_keys(*keys).perform()

    def drop(self, *paths: Path) -> None:
        """Drop files on the page. Only a file field can be given files from here, so one lends them."""
        lender = self.run("""
            const input = document.createElement("input");
            Object.assign(input, {type: "file", multiple: true});
            document.body.append(input);
            return input;
        """)
        lender.send_keys("\n".join(map(str, paths)))
        script = """
            const [lender] = arguments;
            const dataTransfer = new DataTransfer();
            for (const file of lender.files) dataTransfer.items.add(file);
            lender.remove();
            for (const type of ["dragover", "drop"]) {
                document.body.dispatchEvent(new DragEvent(type, {dataTransfer, bubbles: true, cancelable: true}));
            }
        """
        self.run(script, lender)

    def wait(self, condition: Callable[[], Any], what: str) -> Any:
        deadline = time.monotonic() + self.patience
        while not (met := condition()):
            if time.monotonic() > deadline:
                pytest.fail(f"not in {self.patience:g} s: {what}; shown: {self.shown}")
            time.sleep(0.1)
        return met

    def complaints(self) -> list[str]:
        """Warnings and errors of the page's console."""
        entries = self.driver.get_log("browser")  # type: ignore[no-untyped-call]
        return [entry["message"] for entry in entries if entry["level"] in ("WARNING", "SEVERE")]


def chromium(profile: Path, size: tuple[int, int], flags: Sequence[str] = (), before: str = "") -> webdriver.Chrome:
    """A browser with a window of this size; `before` is run in every page before its own scripts."""
    options = webdriver.ChromeOptions()
    options.binary_location = CHROMIUM or ""
    for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={size[0]},{size[1]}", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = webdriver.Chrome(options=options, service=webdriver.ChromeService(CHROMEDRIVER))
    driver.execute_cdp_cmd("Page.addScriptToEvaluateOnNewDocument", {"source": RECORD_VIOLATIONS + before})
    if size[0] < 500:  # windows cannot be made that narrow, phones are
        phone = {"width": size[0], "height": size[1], "deviceScaleFactor": 2, "mobile": True}
        driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", phone)
    return driver


def messages(driver: webdriver.Chrome) -> list[dict[str, Any]]:
    """What went over the network since the last call, as the browser tells it."""
    return [json.loads(entry["message"])["message"] for entry in driver.get_log("performance")]


def outside_requests(driver: webdriver.Chrome, url: str) -> list[str]:
    """Everything the page asked of anybody but the service."""
    asked = []
    for message in messages(driver):
        if message["method"] == "Network.requestWillBeSent":
            asked.append(message["params"]["request"]["url"])
        elif message["method"] == "Network.webSocketCreated":
            asked.append(message["params"]["url"])
    assert asked, "the browser did not tell what was requested"
    local = ("blob", "data", "about")
    return [one for one in asked if urlsplit(one).scheme not in local and urlsplit(one).netloc != urlsplit(url).netloc]


def enter_key(page: Browser, key: str) -> None:
    """Follow the notice that asks for a key."""
    page.click("#notice .act")
    field = page.driver.find_element(By.NAME, "key")
    field.clear()
    field.send_keys(key)
    page.click("dialog .primary")


def word_errors(reference: str, heard: str) -> float:
    normalise = EnglishTextNormalizer()
    return float(jiwer.wer(normalise(reference), normalise(heard)))
