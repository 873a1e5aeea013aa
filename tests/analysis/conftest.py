"""The browser of the tests of pages."""

from typing import Iterator

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
