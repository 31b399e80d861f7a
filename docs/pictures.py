"""Pictures of README.md, of bundled data alone: ``make pictures`` writes them to docs/images."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Page, sync_playwright

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT))

from tests import chromium  # noqa: E402 - the repository is no package on its own
from tests.browser.looking import JS, settled, wait_for_causes, wait_for_figures  # noqa: E402
from tests.browser.server import Server  # noqa: E402

SIZE = {"width": 1440, "height": 900}
LLAMA = (
    "model=llama3-8b&chip=h100-sxm&chips_per_node=8&nodes=2&global_batch=64&seq_len=4096&precision=bf16-amp"
    "&attention=sdpa&framework=pytorch-eager&compile=false&sequence_parallel=false"
)
PLAN = f"/?{LLAMA}&dp=16&tp=1&pp=1&micro_batch=1&sharding=fsdp&recompute=full&measured=none"
PAGES = {
    "measured": "/",
    "search": f"/?view=search&{LLAMA}&dp=16&tp=1&sharding=fsdp&measured=none",
    "study": "/?view=studies&study=ulysses-16",
}


def wait_for_curves(page: Page) -> None:
    """Wait until every slider that can be seen has its curve."""
    page.wait_for_function(
        """() => [...document.querySelectorAll(".field.stale")].every(
            (one) => !one.offsetWidth || one.getBoundingClientRect().top > innerHeight)""",
        timeout=120_000,
    )


def main() -> None:
    """Start a server with an empty data folder, open each page, and take its picture."""
    images = ROOT / "docs" / "images"
    images.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        server = Server(Path(data))
        browser = playwright.chromium.launch(executable_path=chromium.find(), args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport=SIZE, color_scheme="light")
            page.add_init_script(JS)
            for name, path in PAGES.items():
                page.goto(server.url + path)
                settled(page)
                if name == "measured":
                    wait_for_figures(page)
                    wait_for_causes(page)
                if name == "search":
                    page.wait_for_selector("#search tbody tr", timeout=120_000)
                settled(page)
                wait_for_curves(page)
                page.screenshot(path=images / f"{name}.png")
            page.goto(server.url + PLAN)
            wait_for_figures(page)
            page.get_by_role("button", name="Try").first.click()
            wait_for_causes(page)
            settled(page)
            wait_for_curves(page)
            page.screenshot(path=images / "plan.png")
        finally:
            browser.close()
            server.stop()


if __name__ == "__main__":
    main()
