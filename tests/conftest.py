"""What tests of every package share."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the browser; a missing one fails the test and says what to do."""
    return chromium.find()


@pytest.fixture(scope="session")
def browser(chromium_path: str) -> Iterator[Browser]:
    """One Chromium for all tests; playwright allows one at a time in a process."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path=chromium_path, args=["--no-sandbox"])
        yield found
        found.close()
