"""How long the page takes from moving the tensor parallel slider to the painted step time, in headless Chromium.

Run ``python benchmarks/slider.py [PASSES]``. A real server, a real mouse dragging to and fro over the whole slider. Two
ways take turns: the axis fetched once when the slider is grabbed (as the page does), and a request at every step.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import Page, Request, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.chromium import find  # noqa: E402

PASSES = 12
MOVES_PER_PASS = 40
ROUNDS = 3
TARGET_P95_MS = 50
SCENARIO = (
    "/?model=llama3-8b&chip=h200-sxm&chips_per_node=8&nodes=1&link=&network=&dp=8&tp=1&pp=1&micro_batch=1&sharding=fsdp"
    "&seq_len=4096&global_batch=64&precision=bf16-amp"
)

# An input counts as painted in the first frame whose step time is for it or for a newer one.
RECORD = """async () => {
    const { state, subscribe } = await import("/js/state.js");
    window.took = [];
    let pending = [];
    document.addEventListener("input", (event) => pending.push(event.timeStamp), true);
    subscribe(["estimate", "estimated"], () => {
        if (state.estimated !== state.scenario) return;
        const painted = pending;
        pending = [];
        const after = new MessageChannel();
        after.port1.onmessage = () => window.took.push(...painted.map((at) => performance.now() - at));
        after.port2.postMessage(null);
    });
}"""


def start_server(data: Path) -> tuple[subprocess.Popen, str]:
    """Start the project's own server on a free port; return it and its URL."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", "0", "--data", str(data)]
    server = subprocess.Popen(
        command,
        cwd=ROOT,
        env=os.environ | {"HEADROOM_PROBE_CPU": "0", "HEADROOM_NO_TOKEN": "1"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert server.stdout is not None
    return server, server.stdout.readline().rsplit(" ", 1)[1].strip()


def drag(page: Page, passes: int, prefetch: bool) -> tuple[list[float], int]:
    """Drag to and fro; return the milliseconds of every input and the number of requests."""
    page.evaluate(
        "async (on) => { (await import('/js/axes.js')).settings.prefetch = on; window.took.length = 0; }", prefetch
    )
    slider = page.locator("#field-plan-tp")
    box = slider.bounding_box()
    assert box is not None
    left, width, middle = box["x"] + 8, box["width"] - 16, box["y"] + box["height"] / 2
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/estimate" in request.url:
            asked.append(request.url)

    page.on("request", note)
    page.mouse.move(left, middle)
    page.mouse.down()
    for number in range(passes):
        for move in range(MOVES_PER_PASS):
            part = move / (MOVES_PER_PASS - 1)
            page.mouse.move(left + (part if number % 2 == 0 else 1 - part) * width, middle)
    page.wait_for_timeout(500)
    requests = len(asked)
    page.mouse.up()
    page.remove_listener("request", note)
    page.wait_for_timeout(1500)
    return page.evaluate("window.took"), requests


def main() -> None:
    """Measure and print one table."""
    passes = int(sys.argv[1]) if len(sys.argv) > 1 else PASSES
    ways: dict[str, tuple[bool, list[float], list[int]]] = {
        "axis fetched once": (True, [], []),
        "asked at every step": (False, [], []),
    }
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        server, url = start_server(Path(data))
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.goto(url + SCENARIO)
            page.wait_for_selector("#step-time .barlayer .point", state="attached")
            page.wait_for_function("() => Number(document.querySelector('#field-plan-tp').max) > 1")
            page.wait_for_timeout(2500)
            page.evaluate(RECORD)
            drag(page, 4, prefetch=True)  # warms code and caches
            for _ in range(ROUNDS):
                for prefetch, took, requests in ways.values():
                    found, asked = drag(page, passes, prefetch)
                    took += found
                    requests.append(asked)
        finally:
            browser.close()
            server.terminate()
            server.wait()
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; milliseconds from input to paint of the step time")
    print(f"{'':22}{'inputs':>8}{'requests':>10}{'p50':>8}{'p95':>8}{'max':>8}")
    for name, (_, took, requests) in ways.items():
        p95 = statistics.quantiles(took, n=20)[-1]
        row = f"{name:22}{len(took):>8}{sum(requests):>10}{statistics.median(took):>8.1f}{p95:>8.1f}{max(took):>8.1f}"
        print(row + (f"   target {TARGET_P95_MS}" if name == "axis fetched once" else ""))


if __name__ == "__main__":
    main()
