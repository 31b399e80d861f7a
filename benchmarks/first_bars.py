"""How long the page takes from an empty browser to the first bars, by the plotly.js that it loads.

Run ``python benchmarks/first_bars.py [ROUNDS]``. Real servers and headless Chromium without cache; the bundle that the
page takes and the whole plotly.js of the installed wheel take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import os
import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from app.pages import BASIC_BUNDLE, plotly_file  # noqa: E402
from benchmarks.slider import start_server  # noqa: E402
from tests.chromium import find  # noqa: E402

ROUNDS = 9

# A message sent in the frame that makes the first bar comes once that frame is painted; the next frame may be late, as
# other figures are drawn before it.
RECORD = """() => {
    window.evaluated_ms = 0;
    new PerformanceObserver((list) => {
        const scripts = list.getEntries().flatMap((frame) => frame.scripts);
        for (const { sourceURL, duration } of scripts.filter(({ invokerType }) => invokerType === "classic-script"))
            if (sourceURL.includes("/plotly-")) window.evaluated_ms += duration;
    }).observe({ type: "long-animation-frame", buffered: true });
    const { port1, port2 } = new MessageChannel();
    port1.onmessage = () => (window.bars_ms = performance.now());
    const changes = new MutationObserver(() => {
        if (!document.querySelector("#step-time .barlayer .point path")) return;
        changes.disconnect();
        port2.postMessage("");
    });
    changes.observe(document, { childList: true, subtree: true });
}"""


def without_bundle(place: Path) -> Path:
    """Return a copy of the page's files whose bundle is of no wheel's version, so that the wheel's own is served."""
    copy = shutil.copytree(ROOT / "static", place / "static")
    bundle = copy / BASIC_BUNDLE
    bundle.write_text("/* plotly.js v0.0.0 */")
    return copy


def load(browser: Browser, url: str) -> tuple[float, float]:
    """Open the page in a context of its own; return milliseconds to the first bars, and of evaluating plotly.js."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})
    page = context.new_page()
    page.add_init_script(f"({RECORD})()")
    page.goto(url)
    page.wait_for_function("() => window.bars_ms > 0")
    page.wait_for_timeout(200)
    found = page.evaluate("[window.bars_ms, window.evaluated_ms]")
    context.close()
    return found[0], found[1]


def main() -> None:
    """Measure and print one table."""
    rounds = int(sys.argv[1]) if len(sys.argv) > 1 else ROUNDS
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folders = {"basic bundle": ROOT / "static", "the wheel's": without_bundle(Path(place))}
        servers = {name: start_server(Path(place) / name, static) for name, static in folders.items()}
        found: dict[str, list[tuple[float, float]]] = {name: [] for name in folders}
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            for turn in range(rounds + 1):
                for name, (_, url) in servers.items():
                    times = load(browser, url)
                    if turn:  # the first warms server and browser
                        found[name].append(times)
        finally:
            browser.close()
            for server, _ in servers.values():
                server.terminate()
                server.wait()
        sizes = {name: plotly_file(static).stat().st_size for name, static in folders.items()}
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; milliseconds, {rounds} loads each")
    print(f"{'plotly.js':20}{'kB':>8}{'first bars: min':>18}{'median':>8}{'evaluating: min':>18}{'median':>8}")
    for name, times in found.items():
        bars, evaluated = zip(*times, strict=True)
        print(
            f"{name:20}{sizes[name] / 1e3:>8.0f}{min(bars):>18.0f}{statistics.median(bars):>8.0f}"
            f"{min(evaluated):>18.0f}{statistics.median(evaluated):>8.0f}"
        )


if __name__ == "__main__":
    main()
