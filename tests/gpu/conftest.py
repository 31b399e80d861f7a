"""Tests of this folder carry the mark ``gpu``: ``make test`` leaves them out, ``make test-gpu`` runs them."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.gpu)
            # torch says so whenever the thread of a backward calls cuBLAS first
            item.add_marker(pytest.mark.filterwarnings("ignore:Attempting to run cuBLAS:UserWarning"))


@pytest.fixture(scope="session", autouse=True)
def device() -> torch.device:
    """The first GPU; without one every test here is skipped, and the summary says why."""
    if not torch.cuda.is_available():
        pytest.skip("no GPU here")
    return torch.device("cuda", 0)
