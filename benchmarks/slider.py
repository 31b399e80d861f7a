"""How long the page takes from moving a slider to the painted step time, in headless Chromium, for every slider.

Run ``python benchmarks/slider.py [PASSES]``. A real server, and a real mouse that drags each slider to and fro through
all of its positions. Two ways take turns: the axis fetched once when the slider is grabbed (as the page does), and a
request at every step.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from playwright.sync_api import Page, Request, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from tests.browser.looking import JS, settled  # noqa: E402
from tests.chromium import find  # noqa: E402

PASSES = 4
ROUNDS = 2
TARGET_P95_MS = 50
SCENARIOS = (
    "/?model=llama3-8b&chip=h200-sxm&chips_per_node=8&nodes=1&link=&network=&dp=8&tp=1&pp=1&micro_batch=1&sharding=fsdp"
    "&seq_len=4096&global_batch=64&precision=bf16-amp&measured=none",
    "/?model=mixtral-8x7b&chip=h200-sxm&chips_per_node=8&nodes=4&link=&network=&dp=4&tp=2&pp=4&ep=2&micro_batch=1"
    "&schedule=interleaved&virtual_stages=2&sharding=zero1&seq_len=4096&global_batch=64&precision=bf16-amp&measured=none",
)
"""A dense model, and one with experts and stages, which brings the sliders that the first has not."""

# An input counts as painted in the first frame whose step time is for it or for a newer one.
RECORD = """async () => {
    const { state, subscribe } = await import(js("state"));
    Object.assign(window, { took: [], visited: new Set() });
    let pending = [];
    document.addEventListener("input", (event) => {
        pending.push(event.timeStamp);
        window.visited.add(event.target.value);
    }, true);
    subscribe(["estimate", "estimated"], () => {
        if (state.estimated !== state.scenario) return;
        const painted = pending;
        pending = [];
        const after = new MessageChannel();
        after.port1.onmessage = () => window.took.push(...painted.map((at) => performance.now() - at));
        after.port2.postMessage(null);
    });
}"""


def start_server(data: Path, static: Path = ROOT / "static", root: Path = ROOT) -> tuple[subprocess.Popen, str]:
    """Start the project's own server, or that of other files, on a free port; return it and its URL."""
    command = [sys.executable, "-c", "from app.cli import main; main()", "serve", "--port", "0", "--data", str(data)]
    environment = os.environ | {"HEADROOM_PROBE_CPU": "0", "HEADROOM_NO_TOKEN": "1", "HEADROOM_STATIC": str(static)}
    server = subprocess.Popen(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server, server.stdout.readline().rsplit(" ", 1)[1].strip()


@dataclass
class Drags:
    """What was seen of one slider, or of all."""

    positions: int = 0
    requests: int = 0
    took_ms: list[float] = field(default_factory=list)

    def row(self, name: str) -> str:
        """Return one line of the table."""
        cuts = statistics.quantiles(self.took_ms, n=20, method="inclusive")
        return (
            f"{name:34}{self.positions:>10}{len(self.took_ms):>8}{self.requests:>10}"
            f"{statistics.median(self.took_ms):>8.1f}{cuts[-1]:>8.1f}{max(self.took_ms):>8.1f}"
        )


def open_scenario(page: Page, url: str) -> list[str]:
    """Open a scenario with all of its fields unfolded; return the ids of its sliders that can be moved."""
    page.goto(url)
    page.wait_for_selector("#step-time .barlayer .point", state="attached")
    page.evaluate("() => document.querySelector('#explore details.more').open = true")
    settled(page)
    page.wait_for_function("() => !document.querySelector('#explore .field.stale')", timeout=120_000)
    page.evaluate(RECORD)
    moves = "(one) => !one.disabled && one.offsetWidth && Number(one.max) > 0"
    return page.locator("#explore .field input[type=range]").evaluate_all(
        f"sliders => sliders.filter({moves}).map(({{ id }}) => id)"
    )


def drag(page: Page, slider: str, passes: int, prefetch: bool, into: Drags) -> None:
    """Drag a slider to and fro through all of its positions, and put the scenario back."""
    page.evaluate("async (on) => { (await import(js('axes'))).settings.prefetch = on; }", prefetch)
    page.evaluate("() => { took.length = 0; visited.clear(); }")
    handle = page.locator(f"#{slider}")
    handle.scroll_into_view_if_needed()
    box, last = handle.bounding_box(), int(handle.get_attribute("max") or 0)
    assert box is not None
    left, width, middle = box["x"] + 8, box["width"] - 16, box["y"] + box["height"] / 2
    asked: list[str] = []

    def note(request: Request) -> None:
        if "/api/estimate" in request.url:
            asked.append(request.url)

    page.on("request", note)
    begin = int(handle.input_value())
    page.mouse.move(left + begin / last * width, middle)
    page.mouse.down()
    for number in range(passes):
        for at in range(last + 1):
            page.mouse.move(left + (at if number % 2 else last - at) / last * width, middle)
    page.wait_for_timeout(300)
    into.requests += len(asked)
    page.mouse.up()
    page.remove_listener("request", note)
    into.took_ms += page.evaluate("took")
    into.positions = max(into.positions, last + 1)
    visited = page.evaluate("visited.size")
    assert visited == last + 1, f"{slider}: {visited} of {last + 1} positions were visited"
    page.evaluate("async () => { (await import(js('axes'))).settings.prefetch = true; }")
    page.evaluate("async () => (await import(js('actions'))).setScenario(window.begun)")
    settled(page)


def main() -> None:
    """Measure and print one table."""
    passes = int(sys.argv[1]) if len(sys.argv) > 1 else PASSES
    fetched: dict[str, Drags] = {}
    asked = Drags()
    with tempfile.TemporaryDirectory() as data, sync_playwright() as playwright:
        server, url = start_server(Path(data))
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            page = browser.new_page(viewport={"width": 1440, "height": 900})
            page.add_init_script(JS)
            for scenario in SCENARIOS:
                sliders = [one for one in open_scenario(page, url + scenario) if one not in fetched]
                page.evaluate("async () => { window.begun = (await import(js('state'))).state.scenario; }")
                drag(page, sliders[0], 2, True, Drags())  # warms code and caches
                for slider in sliders:
                    fetched[slider] = Drags()
                    for _ in range(ROUNDS):
                        drag(page, slider, passes, True, fetched[slider])
                        drag(page, slider, passes, False, asked)
        finally:
            browser.close()
            server.terminate()
            server.wait()
    print(f"{os.cpu_count()} cores, {time.strftime('%Y-%m-%d')}; milliseconds from input to paint of the step time")
    print(f"{'axis fetched once':34}{'positions':>10}{'inputs':>8}{'requests':>10}{'p50':>8}{'p95':>8}{'max':>8}")
    for slider, drags in fetched.items():
        print(drags.row(slider.removeprefix("field-").replace("-", ".")))
    every = list(fetched.values())
    total = Drags(
        positions=sum(one.positions for one in every),
        requests=sum(one.requests for one in every),
        took_ms=[one_ms for one in every for one_ms in one.took_ms],
    )
    asked.positions = total.positions
    print(total.row("all sliders") + f"   target {TARGET_P95_MS}")
    print(asked.row("all, asked at every step"))


if __name__ == "__main__":
    main()
