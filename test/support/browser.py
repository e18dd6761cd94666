"""A headless Chromium that shows pages, for tests and for pictures. Needs selenium."""

import shutil
from collections.abc import Callable
from pathlib import Path

from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

__all__ = ["Chrome", "Keys", "find", "in_colours", "is_there", "opened", "press", "resize", "wait"]

Chrome = webdriver.Chrome

PROGRAMS = ("chromium", "google-chrome", "chromium-browser")
OPTIONS = """
    --headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync
    --disable-background-networking --disable-component-update --disable-dev-shm-usage
    --hide-scrollbars
"""
PATIENCE = 60
"""Seconds within which something that is going to happen must have happened."""


def _program() -> str | None:
    return next(filter(None, map(shutil.which, PROGRAMS)), None)


def is_there() -> bool:
    """Whether there are a browser and its driver."""
    return _program() is not None and shutil.which("chromedriver") is not None


def opened(folder: Path) -> Chrome:
    """A new browser. folder: an empty one for its files."""
    options = webdriver.ChromeOptions()
    options.binary_location = _program()
    for option in (*OPTIONS.split(), f"--user-data-dir={folder}"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return Chrome(options=options, service=webdriver.ChromeService(shutil.which("chromedriver")))


def resize(driver: Chrome, width: int, height: int = 900) -> None:
    """Make the window so many pixels wide and high."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


def in_colours(driver: Chrome, scheme: str) -> None:
    """Say that the user prefers a ``light`` or a ``dark`` page."""
    feature = {"name": "prefers-color-scheme", "value": scheme}
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})


def wait(driver: Chrome, holds: Callable[[], object]) -> None:
    """Wait until a condition holds; fail if it does not for too long."""
    WebDriverWait(driver, PATIENCE, 0.05).until(lambda _: holds())


def find(driver: Chrome, selector: str) -> list[WebElement]:
    """The elements that a CSS selector finds."""
    return driver.find_elements(By.CSS_SELECTOR, selector)


def press(driver: Chrome, *keys: str) -> None:
    """Press keys, whatever has the focus."""
    webdriver.ActionChains(driver).send_keys(*keys).perform()
