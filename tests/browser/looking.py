"""What the browser tests read off the page."""

from __future__ import annotations

import re
import time

from playwright.sync_api import Locator, Page, expect

EIGHT_GPUS = (
    "/?model=llama3-8b&chip=h200-sxm&chips_per_node=8&nodes=1&link=&network=&dp=8&tp=1&pp=1&micro_batch=1&sharding=fsdp"
    "&recompute=none&schedule=1f1b&sequence_parallel=false&seq_len=4096&global_batch=64&precision=bf16-amp&attention=sdpa"
    "&framework=pytorch-eager&compile=false"
)
"""Llama-3 8B on a node of H200: tensor parallelism has several legal degrees."""

JS = """
    globalThis.js = (name) => {
        const main = document.querySelector("script[type=module]")?.src ?? `${location.origin}/static/any/js/main.js`;
        return main.replace(/main\\.js$/, `${name}.js`);
    };
    const { setTimeout } = globalThis;
    globalThis.setTimeout = (then, after_ms, ...rest) =>
        setTimeout(then, after_ms >= 2500 ? 100 * after_ms : after_ms, ...rest);
"""
"""What every page begins with: ``js("state")`` is the address of ``static/js/state.js`` that the page itself has, and
what is said for seconds stays for minutes, so that no slow machine misses it: toasts, "Delete for good?".
"""

SETTLED_S = 120
BARS = "#step-time .barlayer .point path"


_RESTS = """async (drawn) => {
    const [{ idle }, { state }] = await Promise.all([import(js("views/common/queue")), import(js("state"))]);
    const rests = () => !state.busy && (!drawn || idle());
    if (!rests()) return false;
    // what changed is told in the next frame: only then is its estimate asked for, or what was asked for shown
    await new Promise((told) => requestAnimationFrame(told));
    return rests();
}"""


def _rest(page: Page, *, drawn: bool) -> None:
    end = time.monotonic() + SETTLED_S
    # a function to wait for must not be async: the promise itself would already be true
    while not page.evaluate(_RESTS, drawn):
        assert time.monotonic() < end, "the page never rests"
        page.wait_for_timeout(40)


def wait_for_figures(page: Page) -> None:
    """Wait until the headline and the step time stand, and are those of the present scenario."""
    page.wait_for_selector("#tile-step-time dd:not(:empty)")
    page.wait_for_selector(BARS, state="attached")
    page.wait_for_selector("dl.strip:not(.skeleton)", state="attached")
    _rest(page, drawn=False)


def wait_for_axis(page: Page, path: str) -> None:
    """Wait until a slider has its whole axis."""
    page.wait_for_function(
        """(path) => {
            const field = document.querySelector(`[data-field="${path}"]`);
            return Number(field.querySelector("input[type=range]").max) > 0 && !field.classList.contains("stale");
        }""",
        arg=path,
    )


def unfold(page: Page) -> None:
    """Show the controls of the panel that are folded, where nobody did yet."""
    if page.locator(".more:not([open])").count():
        page.locator(".more summary").click()


def headline(page: Page) -> list[str]:
    """Number and unit of the first four tiles, of the side that the panel edits."""
    tiles = [page.locator(f"#tile-{tile}") for tile in ("step-time", "tokens", "mfu", "peak-memory")]
    return [f"{one.locator('.own').inner_text()} {one.locator('small').first.inner_text()}".strip() for one in tiles]


def bars(page: Page) -> list[str]:
    """Outlines of the bars of the step time."""
    return page.locator(BARS).evaluate_all("paths => paths.map((path) => path.getAttribute('d'))")


def query(page: Page, name: str) -> str | None:
    """One parameter of the page's address."""
    return page.evaluate("(name) => new URLSearchParams(location.search).get(name)", name)


def points(page: Page, trace: str) -> list[float]:
    """Heights of a trace of the roofline, as drawn; of B where both sides have it."""
    return page.evaluate(
        """(name) => {
            const { data = [] } = document.querySelector("#roofline .plot");
            return [...(data.findLast((one) => one.name === name)?.y ?? [])];
        }""",
        trace,
    )


def number(text: str) -> float:
    """The first number in a text of the page."""
    found = re.search(r"[−-]?\d[\d\s]*(?:\.\d+)?", text)
    assert found, text
    return float(re.sub(r"\s", "", found[0]).replace("−", "-"))


def settled(page: Page) -> None:
    """Wait until the scenario is estimated, nothing waits to be drawn, and what cannot be seen has its place."""
    page.wait_for_timeout(250)
    _rest(page, drawn=True)


def bring_into_view(page: Page, selector: str) -> None:
    """Scroll to an element, and once more after what stands above it was drawn and has pushed it down."""
    for _ in range(2):
        page.locator(selector).scroll_into_view_if_needed()
        settled(page)


def wait_for_points(page: Page, trace: str) -> None:
    """Bring the roofline into view and wait until it has points of a trace."""
    page.locator("#roofline").scroll_into_view_if_needed()
    page.wait_for_function(
        """(name) => {
            const { data = [] } = document.querySelector("#roofline .plot");
            return data.findLast((one) => one.name === name)?.y.length > 0;
        }""",
        arg=trace,
    )


def wait_for_measured_points(page: Page) -> None:
    """Wait until the roofline has measured points."""
    wait_for_points(page, "measured")


def wait_for_change(page: Page, old: str) -> None:
    """Wait until the step time is another than ``old``."""
    page.wait_for_function(
        """(old) => {
            const tile = document.querySelector("#tile-step-time");
            return `${tile.querySelector(".own").innerText} ${tile.querySelector("small").innerText}`.trim() !== old;
        }""",
        arg=old,
    )


def wait_for_other_bars(page: Page, old: tuple[str, ...]) -> None:
    """Wait until the bars of the step time are drawn otherwise than ``old``."""
    page.wait_for_function(
        """([bars, old]) => {
            const now = [...document.querySelectorAll(bars)].map((path) => path.getAttribute("d"));
            return now.join() !== old.join();
        }""",
        arg=[BARS, list(old)],
    )


def turn(page: Page, look: tuple[int, str], height: int = 900) -> None:
    """Give the page another width and scheme, as a window that is resized; it must look as one that was opened so."""
    width, scheme = look
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size({"width": width, "height": height})


def at_last(page: Page, told: str, given: object = None) -> list[object]:
    """What a function of the page finds wrong once figures have followed the window, which takes them a moment."""
    end = time.monotonic() + SETTLED_S
    while (found := page.evaluate(told, given)) and time.monotonic() < end:
        page.wait_for_timeout(100)
    return list(found)


def side(page: Page, letter: str) -> Locator:
    """A or B in the bar."""
    return page.locator(f"#ab .side-{letter.lower()}")


def wait_until(page: Page, told: str, given: object = None) -> None:
    """Wait until an async function says yes, which the page itself cannot wait for."""
    end = time.monotonic() + SETTLED_S
    while not page.evaluate(told, given):
        assert time.monotonic() < end, told
        page.wait_for_timeout(40)


def wait_for_causes(page: Page) -> None:
    """Wait until the waterfall is of the present pair."""
    wait_until(page, "async () => (await import(js('pair'))).isCurrent()")
    page.wait_for_selector("#step-time .causes li")


def marked(page: Page, figure: str) -> set[str]:
    """Which kinds of points or blocks a figure has: bright ones, and faint ones that a selected cause is not about."""
    settled(page)
    opacities = page.evaluate(
        """(figure) => document.querySelector(`${figure} .plot`).data
            .flatMap(({ opacity, marker }) => [...[marker?.opacity ?? opacity ?? []].flat()])""",
        figure,
    )
    return {"faint" if one < 0.3 else "bright" for one in opacities}


def expect_view(page: Page, name: str) -> None:
    """The page of that name is the one shown."""
    title = "#ab" if name == "explore" else f'.tabs [aria-current="page"][data-view="{name}"]'
    expect(page.locator(title)).to_be_visible()
    expect(page.locator(f"#{name}")).to_be_visible()
