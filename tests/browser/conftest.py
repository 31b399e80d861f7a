"""The browser, a real server, and pages that must not write one error to the console."""

from __future__ import annotations

import base64
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page

from tests.browser.server import Server

WIDTHS = (1440, 390)
SCHEMES = ("light", "dark")
LOOKS = tuple(zip(WIDTHS, SCHEMES, strict=True))
"""Each width and each scheme once, where one does not change what the other does."""

KEPT = "cookies,local_storage,session_storage,indexeddb"


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """One server for all tests, with an empty data folder and this CPU measured."""
    found = Server(tmp_path_factory.mktemp("data"))
    try:
        yield found
    finally:
        found.stop()


OpenPage = Callable[..., Page]


class Watched:
    """A page whose console errors and failed requests are noted; the statuses of ``refusals`` are provoked on purpose.

    The browser says each of them in its console: to be told of every response of a page costs more.
    """

    def __init__(self, browser: BrowserContext) -> None:
        self.page = browser.new_page()
        self.found: list[str] = []
        self.refusals: tuple[int, ...] = ()
        self.page.on("console", self._console)
        self.page.on("pageerror", lambda error: self.found.append(f"exception: {error}"))

    def look(self, width: int, scheme: str) -> None:
        self.page.set_viewport_size({"width": width, "height": 900 if width > 600 else 844})
        self.page.emulate_media(color_scheme=scheme)

    def _console(self, message: ConsoleMessage) -> None:
        if message.text.startswith("Failed to load resource"):
            status = re.search(r"responded with a status of (\d+)", message.text)
            if status and int(status[1]) not in self.refusals:
                self.found.append(f"{status[1]} {message.location['url']}")
        elif message.type in ("error", "warning", "trace"):  # Plotly warns by traces
            self.found.append(f"{message.type}: {message.text}")


@pytest.fixture
def open_page(browser: BrowserContext, server: Server) -> Iterator[OpenPage]:
    """Open ``path`` in a profile that keeps nothing of other pages but its cache; the test fails on what is noted."""
    pages: list[Watched] = []
    before = list(browser.pages)

    def opened(
        path: str = "/", *, width: int = 1440, scheme: str = "light", refusals: tuple[int, ...] = (), url: str = ""
    ) -> Page:
        watched = Watched(browser)
        watched.refusals = refusals
        watched.look(width, scheme)
        pages.append(watched)
        _forget(browser, watched.page, url or server.url)
        watched.page.goto((url or server.url) + path)
        return watched.page

    yield opened
    for page in browser.pages:
        if page not in before:
            page.close()
    assert [(one.page.url, one.found) for one in pages if one.found] == []


@pytest.fixture(scope="module")
def _kept(browser: BrowserContext) -> Iterator[list[Watched]]:
    kept: list[Watched] = []
    yield kept
    for one in kept:
        one.page.close()


@pytest.fixture
def visit(
    browser: BrowserContext, server: Server, _kept: list[Watched], request: pytest.FixtureRequest
) -> Iterator[OpenPage]:
    """Go to ``path`` on the one page that the tests of a file share, as by a link in it: it is loaded once.

    Notices of earlier tests are closed. What else the address does not say stays: cards shown as tables, what is
    unfolded. After a test that failed it is loaded anew. The test fails on what is noted, as with ``open_page``.
    """

    def visited(path: str = "/", *, width: int = 1440, scheme: str = "light", refusals: tuple[int, ...] = ()) -> Page:
        loads = not _kept
        if loads:
            _kept.append(Watched(browser))
            _forget(browser, _kept[0].page, server.url)
        (one,) = _kept
        one.refusals = refusals
        one.look(width, scheme)
        if loads:
            one.page.goto(server.url + path)
        else:
            one.page.evaluate(_GO, path)
        return one.page

    yield visited
    found = [one.found for one in _kept if one.found]
    if found or request.node.stash.get(_FAILED, False):
        for one in _kept:
            one.page.close()
        _kept.clear()
    assert found == []


_GO = """(path) => {
    document.querySelectorAll(":is(#kept, #tray) .dismiss").forEach((notice) => notice.click());
    history.pushState(null, "", path);
    dispatchEvent(new PopStateEvent("popstate"));
}"""
_FAILED = pytest.StashKey[bool]()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Iterator[None]:
    report = yield
    item.stash[_FAILED] = report.failed or item.stash.get(_FAILED, False)
    return report


def _forget(browser: BrowserContext, page: Page, origin: str) -> None:
    tools = browser.new_cdp_session(page)
    tools.send("Storage.clearDataForOrigin", {"origin": origin, "storageTypes": KEPT})
    tools.detach()


_DROP = """(files) => {
    const dataTransfer = new DataTransfer();
    for (const [name, content] of files) {
        const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
        dataTransfer.items.add(new File([bytes], name));
    }
    for (const type of ["dragenter", "dragover", "drop"]) {
        const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
        document.querySelector("main").dispatchEvent(event);
    }
}"""


@pytest.fixture
def drop() -> Callable[..., None]:
    """Drop files on the page as a person does with a mouse."""

    def dropped(page: Page, *paths: Path) -> None:
        page.wait_for_selector("main", state="attached")
        page.evaluate(_DROP, [[path.name, base64.b64encode(path.read_bytes()).decode()] for path in paths])

    return dropped


@pytest.fixture(scope="module")
def call(browser: BrowserContext, server: Server) -> Iterator[Callable[..., Any]]:
    """Call a function of one of the page's modules, without the page around it."""
    page = browser.new_page()
    page.goto(server.url + "/api/health")

    def called(module: str, name: str, *arguments: Any) -> Any:
        return page.evaluate(
            "async ([module, name, args]) => (await import(js(module)))[name](...args)",
            [module, name, list(arguments)],
        )

    yield called
    page.close()
