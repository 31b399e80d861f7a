/**
 * One number of the plan: slider over its legal values, number box, curve of its whole axis, and what is wrong with
 * it.
 */
import { grab, preview, release, reset, setField } from "../../actions.js";
import { fetchAxis, lastAxis, validAxis } from "../../axes.js";
import { curve } from "../../figures/curve.js";
import { bytes, count, saidTogether, wholeNeeded } from "../../format.js";
import { get, same } from "../../scenario.js";
import { set, state } from "../../state.js";
import { h } from "../common/dom.js";
import { createFieldProblem } from "../common/fieldProblem.js";
import { createRefusals } from "./refusals.js";
import { createSweepButton } from "./sweepButton.js";
import { trial } from "./trial.js";

/** @param {import("../../axes.js").AxisPoint[]} points @param {number} value */
const nearest = (points, value) =>
  points.length
    ? points.reduce((best, one) => (Math.abs(one.value - value) < Math.abs(best.value - value) ? one : best))
    : null;

/**
 * @param {{path: string, label: string, unit: string, help: string, minimum?: number, words?: Record<number, string>}}
 *   options  `words` says what special values mean
 */
export function createField({ path, label, unit, help, minimum = 1, words = {} }) {
  const id = `field-${path.replace(".", "-")}`;
  const range = h("input", { type: "range", id, min: 0, max: 0, step: 1, value: 0, disabled: true, title: help });
  const number = h("input", {
    type: "number",
    class: unit === "bytes" && "long",
    min: minimum,
    step: 1,
    "aria-label": `${label}, exact value`,
    inputmode: "numeric",
  });
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", "0 0 100 100");
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  const area = document.createElementNS("http://www.w3.org/2000/svg", "polygon");
  svg.append(area, line);
  const shade = h("div", { "aria-hidden": true });
  const ghost = h("i", { class: "was", hidden: true });
  const knob = h("i", { class: "knob", hidden: true });
  const refusals = createRefusals();
  const problem = createFieldProblem(path);
  const swept = createSweepButton(path, label);
  const element = h(
    "div",
    { class: "field", "data-field": path },
    h(
      "div",
      { class: "named" },
      h("label", {
        for: id,
        text: label,
        title: `${help}. Double-click: back to the default.`,
        ondblclick: () => reset(path),
      }),
      swept.element,
    ),
    refusals.button,
    number,
    h("div", { class: "track" }, shade, svg, ghost, knob, range),
    refusals.list,
    problem.element,
  );
  /** @type {import("../../axes.js").Axis | null} */
  let axis = null;
  let refused = ""; // why a value that the person typed is refused
  /** @type {{text: string, take: () => void} | null} */
  let offer = null; // what would make it possible
  /** @type {import("../../types.js").Scenario | null} */
  let refusedFor = null;
  /** @type {number | null} */
  let wanted = null; // where the slider was moved to before the axis of this scenario was there
  let going = Promise.resolve();
  let box = ""; // the drawn curve
  /** @type {{points: [number, number][]}} */
  let drawn = { points: [] };

  const here = () => get(state.scenario, path);
  const index = () => axis?.legal.findIndex((point) => same(point.value, here())) ?? -1;
  const fetchNow = () => void fetchAxis(path);

  /**
   * Go to a value of the axis. While that is of an older scenario the newest value waits until this scenario's own is
   * there, so that no slider leads to what is not legal.
   * @param {number} value
   */
  function go(value) {
    forget();
    const waits = wanted !== null;
    wanted = value;
    if (!waits) going = arrive();
  }

  async function arrive() {
    if (!validAxis(path)) await fetchAxis(path);
    const valid = validAxis(path);
    const value = /** @type {number} */ (wanted);
    wanted = null;
    const point = nearest((valid ?? axis)?.legal ?? [], value);
    if (point) preview(path, point, Boolean(valid));
  }

  /** One legal value further. @param {number} way */
  async function step(way) {
    if (!validAxis(path)) await fetchAxis(path);
    const legal = lastAxis(path)?.legal ?? [];
    const next = way > 0 ? legal.find(({ value }) => value > here()) : legal.findLast(({ value }) => value < here());
    forget();
    if (next) setField(path, next.value);
    else update();
  }

  const forget = () => {
    refused = "";
    offer = null;
  };
  const letGo = () => void going.then(release);

  range.addEventListener("pointerdown", () => {
    fetchNow();
    grab(path);
  });
  range.addEventListener("pointerenter", fetchNow);
  range.addEventListener("focus", fetchNow);
  range.addEventListener("input", () => {
    const point = axis?.legal[range.valueAsNumber];
    if (!point) return;
    grab(path);
    go(point.value);
  });
  range.addEventListener("change", letGo);
  range.addEventListener("pointerup", letGo);
  range.addEventListener("pointercancel", letGo);
  let typed = false; // what is being typed is not overwritten when the panel is drawn anew
  number.addEventListener("input", () => (typed = true));
  number.addEventListener("blur", () => (typed = false));
  number.addEventListener("focus", () => {
    fetchNow();
    number.select();
  });
  number.addEventListener("keydown", (event) => {
    const way = { ArrowUp: 1, ArrowDown: -1 }[event.key];
    if (!way || !axis) return;
    event.preventDefault(); // one legal value further, not one more
    void step(way);
  });
  number.addEventListener("change", () => void type(number.valueAsNumber));

  /**
   * Take a typed value, once it is known to be possible: nothing moves for one that is refused.
   * @param {number} value
   */
  async function type(value) {
    const point = (validAxis(path) ?? (await fetchAxis(path)))?.points.find((one) => one.value === value);
    const { scenario } = state;
    forget();
    if (!Number.isInteger(value) || value < minimum) refused = wholeNeeded(minimum);
    else if (point) refused = saidTogether(point.problems);
    else if (value !== here()) ({ refused, offer } = await trial(path, value));
    typed = false;
    if (state.scenario !== scenario) return; // moved meanwhile: what was typed is no answer to that
    refusedFor = scenario;
    // what followed the move before is no answer to this one
    if (refused) set({ adapted: null });
    if (refused || value === here()) update();
    else setField(path, value);
  }

  function drawAxis() {
    const key = `${state.axes} ${axis?.legal.length}`;
    if (!axis || key === box) return;
    box = key;
    const { points, memory, no_fit } = curve(axis.legal.map(({ estimate }) => estimate));
    drawn = { points };
    line.setAttribute("points", points.map((pair) => pair.join()).join(" "));
    area.setAttribute("points", ["0,100", ...memory.map((pair) => pair.join()), "100,100"].join(" "));
    shade.replaceChildren(
      ...no_fit.map(([from, to]) =>
        h("div", {
          class: "no-fit",
          title: "does not fit into memory",
          style: {
            left: `calc(8px + ${from / 100} * (100% - 16px))`,
            width: `calc(${(to - from) / 100} * (100% - 16px))`,
          },
        }),
      ),
    );
    refusals.update(axis.refused);
  }

  /** @param {HTMLElement} dot @param {[number, number] | undefined} point  none: it is not on the curve */
  function put(dot, point) {
    dot.hidden = !point;
    if (!point) return;
    dot.style.left = `calc(8px + ${point[0] / 100} * (100% - 16px))`;
    dot.style.top = `${2 + 0.18 * point[1]}px`;
  }

  function update() {
    if (refusedFor !== state.scenario) forget();
    swept.update();
    const fresh = validAxis(path);
    axis = fresh ?? lastAxis(path);
    element.classList.toggle("stale", !fresh);
    drawAxis();
    const at = index();
    // where no value is legal the slider still shows which one this is
    const all = (axis?.legal.length ? axis?.legal : axis?.points) ?? [];
    const shown = at >= 0 ? at : all.findIndex((point) => point === nearest(all, here()));
    range.disabled = !axis?.legal.length || (axis.legal.length < 2 && at >= 0);
    range.max = String(Math.max(0, all.length - 1));
    if (shown >= 0 && wanted === null) range.value = String(shown);
    range.style.setProperty("--fill", `${(100 * Math.max(0, shown)) / Math.max(1, Number(range.max))}%`);
    range.setAttribute("aria-valuetext", `${label} ${words[here()] ?? `${count(here())}${unit && ` ${unit}`}`}`);
    if (!typed && (document.activeElement !== number || !refused))
      number.value = refused && document.activeElement === number ? number.value : String(here());
    if (unit === "bytes") number.title = bytes(here());
    put(knob, drawn.points[at]);
    // where this field stands in the plan that is set against this one
    const { pair } = state;
    const before = pair?.edited === "B" ? pair.a?.scenario : null;
    const was = before ? get(before, path) : undefined;
    const from =
      was === undefined || same(was, here()) ? -1 : (axis?.legal.findIndex(({ value }) => same(value, was)) ?? -1);
    put(ghost, drawn.points[from]);
    ghost.title = `A: ${was}`;
    element.classList.toggle("wrong", problem.update(refused, offer));
  }
  return { element, update, path };
}
