"""The page of another commit beside this one: first bars, and from a slider's input to its painted step time.

Run ``python benchmarks/page_versions.py COMMIT [ROUNDS]``. Two real servers, each with its commit's page and estimator;
they take turns, so that what else the machine does meets both.
"""

from __future__ import annotations

import io
import os
import statistics
import subprocess
import sys
import tarfile
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from benchmarks.first_bars import load  # noqa: E402
from benchmarks.slider import SCENARIOS, Drags, drag, open_scenario, start_server  # noqa: E402
from tests.browser.looking import JS  # noqa: E402
from tests.chromium import find  # noqa: E402

ROUNDS = 5
SLIDERS = ("field-plan-tp", "field-plan-micro_batch", "field-training-seq_len")


def checked_out(commit: str, place: Path) -> Path:
    """Files of a commit, without its tests' data."""
    files = subprocess.run(["git", "archive", commit], cwd=ROOT, check=True, capture_output=True).stdout
    with tarfile.open(fileobj=io.BytesIO(files)) as archive:
        archive.extractall(place, filter="data")
    return place


@dataclass
class Seen:
    """Of one version: milliseconds to the first bars, of each input, and of the processor for each input."""

    bars_ms: list[float] = field(default_factory=list)
    took_ms: list[float] = field(default_factory=list)
    processor_ms: list[float] = field(default_factory=list)


def slide(browser: Browser, url: str, into: Seen) -> None:
    """Drag each slider to and fro, after once that warms it."""
    page = browser.new_page(viewport={"width": 1440, "height": 900})
    page.add_init_script(JS)
    there = open_scenario(page, url + SCENARIOS[0])
    page.evaluate("async () => { window.begun = (await import(js('state'))).state.scenario; }")
    tools = page.context.new_cdp_session(page)
    tools.send("Performance.enable", {"timeDomain": "threadTicks"})

    def processor_s() -> float:
        metrics = tools.send("Performance.getMetrics")["metrics"]
        return next(one["value"] for one in metrics if one["name"] == "TaskDuration")

    for slider in (one for one in SLIDERS if one in there):
        drag(page, slider, 2, True, Drags())
        found, before_s = Drags(), processor_s()
        drag(page, slider, 4, True, found)
        into.took_ms += found.took_ms
        into.processor_ms.append((processor_s() - before_s) * 1e3 / len(found.took_ms))
    page.close()


def main() -> None:
    """Measure and print one table."""
    commit = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else ROUNDS
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        folder = Path(place)
        versions = {commit: checked_out(commit, folder / "then"), "now": ROOT}
        servers = {
            name: start_server(folder / f"data {name}", root / "static", root) for name, root in versions.items()
        }
        seen = {name: Seen() for name in versions}
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            for turn in range(rounds + 1):
                for name, (_, url) in servers.items():
                    first, _ = load(browser, url)
                    if turn:  # the first warms server and browser
                        seen[name].bars_ms.append(first)
                        slide(browser, url, seen[name])
        finally:
            browser.close()
            for server, _ in servers.values():
                server.terminate()
                server.wait()
    print(f"{os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, {time.strftime('%Y-%m-%d')}")
    print(f"{'page':12}{'first bars: min':>18}{'median':>8}{'input p50':>11}{'p95':>8}{'processor each':>16}")
    for name, one in seen.items():
        cuts = statistics.quantiles(one.took_ms, n=20, method="inclusive")
        print(
            f"{name:12}{min(one.bars_ms):>18.0f}{statistics.median(one.bars_ms):>8.0f}"
            f"{statistics.median(one.took_ms):>11.1f}{cuts[-1]:>8.1f}{statistics.median(one.processor_ms):>16.1f}"
        )


if __name__ == "__main__":
    main()
