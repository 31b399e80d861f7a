"""What tests of every package share."""

from __future__ import annotations

import pytest

from tests import chromium


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the browser; a missing one fails the test and says what to do."""
    return chromium.find()
