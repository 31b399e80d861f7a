"""Every test of the runners computes on one thread."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session", autouse=True)
def _one_thread(one_thread) -> None:
    pass
