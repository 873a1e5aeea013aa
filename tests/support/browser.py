"""Pages in a headless Chromium, driven through selenium; a test that needs one says so loudly where there is none."""

import json
import os
import re
import shutil
from pathlib import Path
from typing import Any, List, Sequence

import pytest

# keys, as WebDriver names them
TAB, ENTER, ESCAPE, END, RIGHT = "\ue004", "\ue007", "\ue00c", "\ue010", "\ue014"
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-background-networking "
    "--disable-component-update --disable-sync --window-size=1280,900"
).split()


def start(folder: Path) -> Any:
    """A driver with a profile of its own in ``folder``; skips the test if there is no browser to drive."""
    try:
        from selenium import webdriver
        from selenium.webdriver.chrome.service import Service
    except ImportError:
        pytest.skip("NO BROWSER TEST: selenium is missing; pip install 'fairseq_attn_plugin[dev]'")
    browser = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    driver = shutil.which("chromedriver")
    if browser is None or driver is None:
        pytest.skip("NO BROWSER TEST: Chromium and chromedriver are missing")
    options = webdriver.ChromeOptions()
    options.binary_location = browser
    for flag in [*FLAGS, f"--user-data-dir={folder}"]:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    return webdriver.Chrome(options=options, service=Service(driver))


# colour and backgrounds of elements, from the element outwards until a background hides what is behind it
COLOURS = """
return [...document.querySelectorAll(arguments[0])].filter((one) => one.getClientRects().length).map((one) => {
  const behind = [];
  for (let node = one; node; node = node.parentElement) behind.push(getComputedStyle(node).backgroundColor);
  return [getComputedStyle(one).color, behind];
});
"""


def rgba(text: str) -> List[float]:
    """The parts of a computed colour, ``rgb(1, 2, 3)`` or ``rgba(1, 2, 3, 0.5)``, opacity included."""
    parts = [float(part) for part in re.findall(r"[\d.]+", text)]
    assert text.startswith("rgb") and len(parts) in (3, 4), text
    return [*parts, 1.0][:4]


def luminance(colour: Sequence[float]) -> float:
    """The relative luminance of WCAG 2.2."""
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in (x / 255 for x in colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(colour: str, behind: Sequence[str]) -> float:
    """The contrast ratio of WCAG 2.2 of a text on its backgrounds, which are given from the nearest on."""
    paper = [255.0, 255.0, 255.0]
    for layer in reversed(behind):
        *parts, opacity = rgba(layer)
        paper = [opacity * part + (1 - opacity) * under for part, under in zip(parts, paper)]
    *parts, opacity = rgba(colour)
    ink = [opacity * part + (1 - opacity) * under for part, under in zip(parts, paper)]
    dark, light = sorted([luminance(ink), luminance(paper)])
    return (light + 0.05) / (dark + 0.05)


class Page:
    """A page that is open, and short ways to ask it."""

    def __init__(self, driver: Any):
        self.driver = driver

    def open(self, address: str) -> None:
        self.driver.get("about:blank")
        self.problems()  # earlier messages do not belong to this page
        self.requests()
        self.driver.get(address)

    def all(self, selector: str) -> List[Any]:
        return self.driver.find_elements("css selector", selector)

    def one(self, selector: str) -> Any:
        return self.driver.find_element("css selector", selector)

    def texts(self, selector: str) -> List[str]:
        return self.script(
            "return [...document.querySelectorAll(arguments[0])].map((one) => one.textContent)", selector
        )

    def shown(self, selector: str) -> List[Any]:
        return [one for one in self.all(selector) if one.is_displayed()]

    def script(self, text: str, *arguments: Any) -> Any:
        return self.driver.execute_script(text, *arguments)

    def wait(self, text: str, seconds: float = 30) -> None:
        """Until a script gives true; fails if it does not."""
        from selenium.webdriver.support.ui import WebDriverWait

        WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda driver: driver.execute_script(text))

    def hover(self, target: Any) -> None:
        self.script("arguments[0].scrollIntoView({block: 'center'})", target)
        self._chain().move_to_element(target).perform()

    def press(self, *keys: str) -> None:
        chain = self._chain()
        for key in keys:
            chain = chain.send_keys(key)
        chain.perform()

    def _chain(self) -> Any:
        from selenium.webdriver import ActionChains

        return ActionChains(self.driver, duration=0)

    def resize(self, width: int, height: int) -> None:
        """The size of the page itself, narrower than any window if need be."""
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)

    def scrolls_sideways(self) -> bool:
        return self.script("return document.documentElement.scrollWidth > document.documentElement.clientWidth")

    def contrasts(self, selector: str) -> List[float]:
        """The contrast ratio of the text of each element that is shown."""
        return [contrast(*colours) for colours in self.script(COLOURS, selector)]

    def problems(self) -> List[str]:
        """What was written to the console as a warning or an error since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("WARNING", "SEVERE")]

    def requests(self) -> List[str]:
        """The addresses that were asked for since the last call, data in the page itself left out."""
        messages = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]
        return [address for address in sent if not address.startswith(("data:", "about:"))]


# --- axe-core on an open page. ``AXE_CORE`` names axe.min.js, or npm has installed axe-core in the repository

_INSTALLED = Path(__file__).parents[2] / "node_modules" / "axe-core" / "axe.min.js"
VIEWS = [(width, mode) for width in (1280, 390) for mode in ("light", "dark")]


def script() -> str:
    """The text of axe-core; skips the test if there is none."""
    path = Path(os.environ.get("AXE_CORE") or _INSTALLED)
    if not path.is_file():
        pytest.skip(f"NO TEST WITH AXE: {path} is missing; AXE_CORE=axe.min.js, or npm install axe-core")
    return path.read_text(encoding="utf-8")


def look(page: Page, width: int, mode: str) -> None:
    """Gives the page this width, and the reader this preference."""
    page.resize(width, 900)
    media = {"features": [{"name": "prefers-color-scheme", "value": mode}]}
    page.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", media)


def violations(page: Page) -> List[str]:
    """The rules that elements of the page violate, and the elements."""
    if not page.script("return window.axe !== undefined"):
        page.script(script())
    page.driver.set_script_timeout(60)
    found: Any = page.driver.execute_async_script(
        "const done = arguments[0]; axe.run().then((result) => done(result.violations), (error) => done(String(error)))"
    )
    assert isinstance(found, list), found
    return [f"{one['id']}: {node['target']} {node['failureSummary']}" for one in found for node in one["nodes"]]
