"""The browser, a real server, and pages that must not write one error to the console."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, ConsoleMessage, Page, Response

from tests.browser.server import ROOT, Server

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
        found.wait_for_cpu()
        yield found
    finally:
        found.stop()


@pytest.fixture(scope="session")
def measured(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder with ``result.json`` and ``trace.json.gz`` of a tiny step, measured here by the project's own runner."""
    folder = tmp_path_factory.mktemp("measured")
    scenario = {
        "model": {"layers": 2, "hidden": 64, "heads": 2, "ffn": 128, "vocab": 256},
        "cluster": {"chip": "h200-sxm", "chips_per_node": 1},
        "training": {"seq_len": 32, "global_batch": 2, "precision": "fp32"},
    }
    (folder / "scenario.json").write_text(json.dumps(scenario))
    command = [sys.executable, "-m", "runners", "step", "--scenario", str(folder / "scenario.json")]
    where = ["--out", str(folder / "result.json"), "--trace", str(folder / "trace.json.gz")]
    sizes = ["--device", "cpu", "--steps", "2", "--warmup", "1", "--label", "tiny step"]
    subprocess.run([*command, *where, *sizes], cwd=ROOT, check=True, capture_output=True, timeout=120)
    return folder


OpenPage = Callable[..., Page]


@pytest.fixture
def open_page(browser: BrowserContext, server: Server) -> Iterator[OpenPage]:
    """Open ``path`` in a profile that keeps nothing of other pages but its cache.

    The test fails on any console error or warning and on any failed request.

    ``refusals`` names the statuses that a test provokes on purpose: the browser notes those in its console by itself.
    """
    pages: list[tuple[Page, list[str]]] = []

    def opened(
        path: str = "/", *, width: int = 1440, scheme: str = "light", refusals: tuple[int, ...] = (), url: str = ""
    ) -> Page:
        page = browser.new_page()
        page.set_viewport_size({"width": width, "height": 900 if width > 600 else 844})
        page.emulate_media(color_scheme=scheme)
        address = url or server.url
        tools = browser.new_cdp_session(page)
        tools.send("Storage.clearDataForOrigin", {"origin": address, "storageTypes": KEPT})
        tools.detach()
        found: list[str] = []

        def console(message: ConsoleMessage) -> None:
            own = message.text.startswith(
                "Failed to load resource"
            )  # the browser's, told by `response` with its address
            if message.type in ("error", "warning") and not own:
                found.append(f"{message.type}: {message.text}")

        def response(answer: Response) -> None:
            if answer.status >= 400 and answer.status not in refusals:
                found.append(f"{answer.status} {answer.request.method} {answer.url}")

        page.on("console", console)
        page.on("response", response)
        page.on("pageerror", lambda error: found.append(f"exception: {error}"))
        pages.append((page, found))
        page.goto(address + path)
        return page

    yield opened
    for page in browser.pages[1:]:
        page.close()
    assert [(page.url, found) for page, found in pages if found] == []


_DROP = """([name, content]) => {
    const bytes = Uint8Array.from(atob(content), (letter) => letter.charCodeAt(0));
    const dataTransfer = new DataTransfer();
    dataTransfer.items.add(new File([bytes], name));
    for (const type of ["dragenter", "dragover", "drop"]) {
        const event = new DragEvent(type, { dataTransfer, bubbles: true, cancelable: true });
        document.querySelector("main").dispatchEvent(event);
    }
}"""


@pytest.fixture
def drop() -> Callable[[Page, Path], None]:
    """Drop a file on the page as a person does with a mouse."""

    def dropped(page: Page, path: Path) -> None:
        page.wait_for_selector("main", state="attached")
        page.evaluate(_DROP, [path.name, base64.b64encode(path.read_bytes()).decode()])

    return dropped
