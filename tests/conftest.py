"""What tests of every package share."""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from hypothesis import settings

from estimator.scenario import catalog
from tests import chromium, warm
from tests import slurm as slurm_here

if TYPE_CHECKING:
    from playwright.sync_api import BrowserContext


# What is imported and collected stays to the end: the garbage collector need not look through it, now or later.
gc.disable()

# Else each process that compiles keeps others ready for it, which import torch and then wait.
os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")
# The processor is believed as to its instruction sets: else a compiler is asked about each of them, for seconds.
os.environ.setdefault("TORCHINDUCTOR_VEC_ISA_OK", "1")

# The same examples in every run, so that only a change can turn a test red; `make explore` draws others.
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("random", derandomize=False, deadline=None)
settings.load_profile("repeatable")


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)
    gc.enable()


def pytest_unconfigure() -> None:
    warm.end()


@pytest.fixture
def warm_python(monkeypatch: pytest.MonkeyPatch) -> str:
    """What a test starts by ``sys.executable`` has imported what it needs (tests/warm)."""
    monkeypatch.setattr(sys, "executable", warm.python())
    return sys.executable


WAIT_MS = 120_000
"""What a page is given to do or to show something: on a busy machine all of it takes longer."""


@pytest.fixture
def catalogue_as_before() -> Iterator[None]:
    """What a test adds to the catalogue goes with it."""
    before = dict(catalog._added)
    yield
    catalog._added.clear()
    catalog._added.update(before)
    catalog.entries.cache_clear()
    catalog._by_alias.cache_clear()


@pytest.fixture(scope="session")
def one_thread() -> Iterator[None]:
    """One thread for the small models of tests: two that wait for each other are slower where others compute too."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_NUM_THREADS", "1")
        yield
    torch.set_num_threads(before)


@pytest.fixture(scope="session")
def chromium_path() -> str:
    """Path of the browser; a missing one fails the test and says what to do."""
    return chromium.find()


@pytest.fixture(scope="session")
def browser(chromium_path: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrowserContext]:
    """One Chromium for all tests; playwright allows one at a time in a process.

    It has a profile on disk, as a person's has: from a page's third visit on its scripts are there compiled.
    """
    from playwright.sync_api import expect, sync_playwright

    from tests.browser.looking import JS

    with sync_playwright() as playwright:
        found = playwright.chromium.launch_persistent_context(
            tmp_path_factory.mktemp("profile"),
            executable_path=chromium_path,
            args=[
                "--no-sandbox",
                "--renderer-process-limit=1",
                # no page lives so long that what compiles its scripts once more is worth its time
                "--js-flags=--no-opt --no-maglev --single-threaded-gc",
            ],
            accept_downloads=True,
            permissions=["clipboard-read", "clipboard-write"],
            reduced_motion="reduce",  # a page that waits would be drawn sixty times a second, without a GPU
        )
        found.add_init_script(JS)
        found.set_default_timeout(WAIT_MS)
        expect.set_options(timeout=WAIT_MS)
        yield found
        found.close()


@pytest.fixture(scope="session")
def _slurm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[slurm_here.Slurm]:
    absent = slurm_here.missing()
    if absent:
        pytest.skip(f"no Slurm here: {', '.join(absent)} missing; run `make slurm` as root")
    found = slurm_here.Slurm(tmp_path_factory.mktemp("slurm"))
    found.start()
    yield found
    found.stop()


@pytest.fixture
def slurm(_slurm: slurm_here.Slurm, monkeypatch: pytest.MonkeyPatch) -> Iterator[slurm_here.Slurm]:
    """A real Slurm of two nodes with two fake GPUs each, one for all tests; its commands talk to it."""
    for name, value in _slurm.environment.items():
        monkeypatch.setenv(name, value)
    _slurm.wait_for_nodes()
    yield _slurm
    _slurm.clear()


@pytest.fixture
def slurm_with_accounting(
    tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> Iterator[slurm_here.Slurm]:
    """Another one, with slurmdbd on a private MariaDB, so that sacct answers."""
    absent = slurm_here.missing(slurm_here.PROGRAMS + slurm_here.ACCOUNTING)
    if absent:
        pytest.skip(f"no Slurm with accounting here: {', '.join(absent)} missing; run `make slurm` as root")
    found = slurm_here.Slurm(tmp_path_factory.mktemp("accounting"), accounting=True)
    found.start()
    for name, value in found.environment.items():
        monkeypatch.setenv(name, value)
    yield found
    found.stop()
