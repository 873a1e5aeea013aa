"""The browser of the tests of pages, and how it looks at them."""

from typing import Iterator, Tuple

import browser
import pytest


@pytest.fixture(scope="module")
def pages(tmp_path_factory: pytest.TempPathFactory) -> Iterator[browser.Page]:
    """One browser for all tests of a file."""
    driver = browser.start(tmp_path_factory.mktemp("browser"))
    try:
        yield browser.Page(driver)
    finally:
        driver.quit()


@pytest.fixture(params=browser.VIEWS)
def view(pages: browser.Page, request: pytest.FixtureRequest) -> Iterator[Tuple[int, str]]:
    """Each width and colour scheme in which axe-core looks at pages."""
    browser.script()
    browser.look(pages, *request.param)
    yield request.param
    pages.driver.execute_cdp_cmd("Emulation.clearDeviceMetricsOverride", {})
    pages.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
