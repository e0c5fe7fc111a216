"""What the browser tests do to a page: press keys, wait, look."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

T = TypeVar("T")
PATIENCE = 60.0  # seconds; a busy machine may need many of them


@dataclass(frozen=True)
class Server:
    """A running `labelproof review`."""

    address: str
    process: subprocess.Popen[str]


class Page:
    """The page in the browser."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser

    def open(self, address: str, width: int = 1100, height: int = 900, dark: bool = False) -> Page:
        """Go to an address, as seen on a screen of this size."""
        screen = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.browser.get_log("browser")  # forget what other pages said
        self.browser.get(address)
        return self

    def js(self, expression: str) -> Any:
        """The value of an expression."""
        return self.browser.execute_script(f"return {expression}")

    def text(self, name: str) -> str:
        """The text of the element with this id."""
        return str(self.js(f"document.getElementById('{name}').textContent"))

    def press(self, key: str) -> None:
        """Press a key, wherever the focus is."""
        from selenium.webdriver.common.action_chains import ActionChains

        ActionChains(self.browser).send_keys(key).perform()

    def click(self, selector: str) -> None:
        """Click on the first element of that kind."""
        element = self.browser.find_element("css selector", selector)
        self.browser.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()

    def until(self, look: Callable[[], T]) -> T:
        """Wait for something to become true."""
        from selenium.webdriver.support.ui import WebDriverWait

        waiting = WebDriverWait(self.browser, PATIENCE, poll_frequency=0.05)
        return waiting.until(lambda _: look())

    def until_count(self, text: str) -> None:
        """Wait until the progress says this."""
        self.until(lambda: text in self.text("count"))

    def ready(self) -> Page:
        """Wait until the first label and its picture are there."""
        self.until(lambda: self.js("document.querySelector('#card-title') !== null"))
        self.until(lambda: self.js("document.querySelector('#card img')?.naturalWidth > 0"))
        return self

    def worst_first(self) -> Page:
        """Order the labels by suspicion alone, and wait for the first."""
        self.until(lambda: self.js("document.querySelector('#card-title') !== null"))
        order = "(form => { form.elements.order.value = 'suspicion'; "
        order += "form.dispatchEvent(new Event('change')) })(document.getElementById('filter'))"
        self.js(order)
        self.until(lambda: self.js("work.then(() => true)"))
        return self

    def complaints(self) -> list[str]:
        """What the browser found wrong, such as what the page's policy forbids."""
        return [
            entry["message"]
            for entry in self.browser.get_log("browser")
            if entry["level"] in ("SEVERE", "WARNING")
        ]
