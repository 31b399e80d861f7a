"""Five tasks of a new user through the page alone, in a real Chromium: what is pressed, what is read, and how long.

    python -m benchmarks.five_tasks [1 2 3 4 5]

A real server with an empty data folder; every task begins at the start page, and nobody stops to think. Prints each
step with the second at which it was done, and the words of the page that answer the question. Exits with 1 where an
answer is not on the page, a task takes more than two minutes, or the browser's console holds an error.
"""

from __future__ import annotations

import re
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import Browser, Error, Locator, Page, expect, sync_playwright

from benchmarks.slider import start_server
from tests.chromium import find

REFERENCE = Path(__file__).parent.parent / "tests" / "reference"
MOST_S = 120
SEARCH_MS = 110_000
WAIT_MS = 30_000


class User:
    """Presses and reads, and says so."""

    def __init__(self, browser: Browser, url: str, folder: Path) -> None:
        self.folder = folder
        self.page = browser.new_page(viewport={"width": 1440, "height": 900})
        self.page.set_default_timeout(WAIT_MS)
        self.errors: list[str] = []
        self.page.on("console", lambda said: self.errors.append(said.text) if said.type == "error" else None)
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.begun = time.perf_counter()
        self.page.goto(url)
        self.did("opens the start page")

    def did(self, what: str) -> None:
        """Print one step."""
        print(f"  {time.perf_counter() - self.begun:5.1f} s  {what}", flush=True)

    def press(self, what: Locator) -> None:
        """Click what a user sees by its words."""
        words = " ".join((what.get_attribute("aria-label") or what.inner_text()).split())
        what.click()
        self.did(f"presses “{words}”")

    def fill(self, label: str, value: str) -> None:
        """Write into a field, and leave it."""
        field = self.page.get_by_label(label).locator("visible=true")
        field.fill(value)
        field.press("Tab")
        self.did(f"writes {value} into “{label}”")

    def bring(self, file: Path, name: str) -> None:
        """Import a file under a name that says nothing of it."""
        copy = shutil.copy(file, self.folder / name)
        self.press(self.page.get_by_role("button", name="Import files or text"))
        self.page.locator("dialog[open] input[type=file]").set_input_files(copy)
        self.did(f"gives the file {name}")

    def reads(self, where: Locator, pattern: str) -> re.Match[str]:
        """Wait until words stand in sight, and print them."""
        end = time.perf_counter() + WAIT_MS / 1e3
        while True:
            text = " ".join(" ".join(one.inner_text().split()) for one in where.all())
            found = re.search(pattern, text)
            if found:
                self.did(f"reads “{found[0]}”")
                return found
            assert time.perf_counter() < end, f"“{pattern}” in “{text[:300]}”"
            self.page.wait_for_timeout(100)


def plan(user: User) -> None:
    """The cheapest plan for Llama-3 70B on at most 64 H100 within 20 days for 1 T tokens."""
    page = user.page
    user.press(page.get_by_role("link", name="Search"))
    page.locator("#search-model").select_option(label="Llama 3 70B")
    page.locator("#search-chip").select_option(label="NVIDIA H100 SXM 80 GB")
    user.did("chooses Llama 3 70B and H100 SXM")
    user.fill("Chips, at most", "64")
    user.fill("Tokens of the run", "1 T")
    user.fill("Within, days", "20")
    page.get_by_role("radio", name="price").check(force=True)
    user.did("wants the best by price")
    searched(page)
    notice = page.locator("#search .notice")
    first = user.reads(notice, r"The quickest takes ([\d ]+) days\. A step of .* little to divide")
    user.press(notice.get_by_role("button", name=re.compile("^Take .* sequences$")))
    page.wait_for_function(
        "(before) => !document.querySelector('#search .notice')?.innerText.includes(before)",
        arg=first[0],
        timeout=SEARCH_MS,
    )
    searched(page)
    user.reads(notice, r"No plan takes 20 days or less")
    second = user.reads(notice, r"The quickest takes ([\d ]+) days; about (\d+) chips would do")
    assert 20 < float(second[1]) < float(first[1]), "a larger batch is quicker, and still not quick enough"
    assert int(second[2]) > 64
    user.reads(page.locator("#search-status .answer"), r"price \$[\d ]+")
    user.press(page.locator("#search-status").get_by_role("button", name="Open as B"))
    user.reads(page.locator("#ab .side-b"), "dp 64|dp 32|dp 16|dp 8|FSDP")


def searched(page: Page) -> None:
    """Wait until a search has ended."""
    page.wait_for_timeout(500)  # the page waits for more words before it searches
    expect(page.get_by_role("button", name="Search again")).to_be_visible(timeout=SEARCH_MS)


def ddp(user: User) -> None:
    """Why a data-parallel run is slower than predicted."""
    page = user.page
    user.bring(REFERENCE / "kineto" / "h200_ddp_amp.json.gz", "my_run.json.gz")
    user.reads(page.locator("#explore .whose"), "Proposed from the shapes of my_run, not confirmed")
    user.press(page.locator("#explore .whose").get_by_role("button", name="Confirm"))
    expect(page.locator("#ab .side-a")).to_contain_text("dp 2")
    title = user.reads(page.locator("#step-time header"), r"A → B \+([\d.]+) ms")
    causes = page.locator("#step-time .causes li")
    user.reads(causes.filter(has_text="communication").first, r"communication .*\d [mµ]s")
    user.reads(causes.filter(has_text="host").first, r"host .*\d [mµ]s")
    assert float(title[1]) > 0


def link(user: User) -> None:
    """What dropping the bandwidth of NVLink by half costs."""
    page = user.page
    user.press(page.locator("summary", has_text="What if"))
    slider = page.get_by_label("link", exact=True)
    for _ in range(20):
        if (slider.get_attribute("aria-valuetext") or "").endswith("×0.5"):
            break
        slider.press("ArrowLeft")
    user.did(f"moves the slider “link” to {slider.get_attribute('aria-valuetext')}")
    user.reads(page.locator("#ab .side-b"), r"link ×0\.5")
    user.reads(page.locator("#step-time .causes"), r"communication, dp slower link [\d.]+ → [\d.]+ [\d.]+ ms")
    user.reads(page.locator("#tile-step-time"), r"\+[\d.]+ %")
    user.reads(page.locator("#tile-price"), r"\+[\d.]+ %")


def report(user: User) -> None:
    """A table of a CS336 report reproduced and plotted."""
    page = user.page
    user.bring(REFERENCE / "cs336_steps" / "report.txt", "report.txt")
    details = page.locator("#details")
    user.reads(details, r"Predicted over measured \d+ of \d+ inside ±15 %")
    user.reads(details, r"half of the \d+ predictions of forward are within [\d.]+ %")
    user.reads(details, "As its own chart")
    for name in ("points of predicted over measured", "marks of its own chart"):
        at = 0 if name.startswith("points") else 1
        marks = details.locator(".plot").nth(at).locator(".scatterlayer path, .barlayer path")
        expect(marks.first).to_be_visible()
        user.did(f"sees {marks.count()} {name}")
    rows = details.locator("table tbody tr")
    user.did(f"sees {rows.count()} rows, measured beside predicted")
    assert rows.count() > 10


def unknown(user: User) -> None:
    """A profile of an unknown model understood."""
    page = user.page
    user.bring(REFERENCE / "h200" / "trace-short-2.trace.json.gz", "unknown.json.gz")
    user.reads(page.locator("#ab .side-a"), "its own ops")
    user.reads(page.locator("#explore .whose"), "Proposed from the shapes of unknown, not confirmed")
    user.reads(page.locator("#explore .panel"), r"2 layers · 2 048 wide · GQA 32/8 · vocabulary 128 256")
    user.reads(page.locator("#proposal header"), r"31 fields sure, 2 guessed")
    user.press(page.locator("#explore .whose").get_by_role("button", name="Confirm"))
    user.reads(page.locator("#proposal"), "This profile is of unknown · 2 × H200 SXM 141 GB · dp 2")
    user.reads(page.locator("#step-time header"), r"A → B [+−][\d.]+ ms inside the 80 % interval of A")
    user.reads(page.locator("#step-time .causes"), r"host longer waits [\d.]+ → [\d.]+ [\d.]+ ms")


TASKS: dict[str, Callable[[User], None]] = {"1": plan, "2": ddp, "3": link, "4": report, "5": unknown}


def main() -> int:
    """Do the tasks that are asked for, all by default."""
    wanted = sys.argv[1:] or list(TASKS)
    failed = []
    with tempfile.TemporaryDirectory() as place, sync_playwright() as playwright:
        server, url = start_server(Path(place) / "data")
        browser = playwright.chromium.launch(executable_path=find(), args=["--no-sandbox"])
        try:
            for number in wanted:
                task = TASKS[number]
                print(f"{number}. {(task.__doc__ or '').strip()}")
                user = User(browser, url, Path(place))
                try:
                    task(user)
                except (AssertionError, Error) as error:
                    failed.append(number)
                    print(f"  not on the page: {error}")
                took_s = time.perf_counter() - user.begun
                if took_s > MOST_S or user.errors:
                    failed.append(number)
                print(f"  {took_s:5.1f} s in all; console: {user.errors or 'no error'}", flush=True)
                user.page.close()
        finally:
            browser.close()
            server.terminate()
            server.wait()
    print(f"failed: {', '.join(sorted(set(failed)))}" if failed else f"{len(wanted)} of {len(wanted)} answered")
    return int(bool(failed))


if __name__ == "__main__":
    sys.exit(main())
