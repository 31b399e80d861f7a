"""Runs of these tests start by an interpreter that has torch already."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def _warm(warm_python: str) -> None:
    pass
