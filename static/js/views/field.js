// @ts-check
/**
 * One number of the plan: slider over its legal values, number box, curve of its whole axis, and what is wrong with
 * it.
 */
import { grab, preview, release, reset, setField } from "../actions.js";
import { fetchAxis, lastAxis, validAxis } from "../axes.js";
import { curve } from "../figures/curve.js";
import { count, plural, said } from "../format.js";
import { canonical, get, same } from "../scenario.js";
import { state } from "../state.js";
import { h, put } from "./dom.js";

/**
 * @param {{path: string, label: string, unit: string, help: string, minimum?: number, words?: Record<number, string>}}
 *   options  `words` says what special values mean
 */
export function createField({ path, label, unit, help, minimum = 1, words = {} }) {
  const id = `field-${path.replace(".", "-")}`;
  const range = h("input", { type: "range", id, min: 0, max: 0, step: 1, value: 0, disabled: true, title: help });
  const number = h("input", {
    type: "number",
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
  svg.append(line);
  const shade = h("div", { "aria-hidden": true });
  const knob = h("i", { class: "knob", hidden: true });
  const refusedButton = h("button", {
    type: "button",
    class: "refused",
    hidden: true,
    "aria-expanded": "false",
    onclick: () => toggleRefused(),
  });
  const refusals = h("div", { class: "refusals", hidden: true });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const element = h(
    "div",
    { class: "field", "data-field": path },
    h("label", {
      for: id,
      text: label,
      title: `${help}. Double-click: back to the default.`,
      ondblclick: () => reset(path),
    }),
    refusedButton,
    number,
    h("div", { class: "track" }, shade, svg, knob, range),
    refusals,
    problem,
  );
  /** @type {import("../axes.js").Axis | null} */
  let axis = null;
  let refused = ""; // a value that the person typed and that the axis refuses
  let box = ""; // the drawn curve
  /** @type {{points: [number, number][]}} */
  let drawn = { points: [] };

  const here = () => get(state.scenario, path);
  const index = () => axis?.legal.findIndex((point) => same(point.value, here())) ?? -1;
  const fetchNow = () => void fetchAxis(path);

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
    refused = "";
    preview(path, point, Boolean(validAxis(path, canonical(state.scenario))));
  });
  range.addEventListener("change", release);
  range.addEventListener("pointerup", () => state.drag && release());
  range.addEventListener("pointercancel", () => state.drag && release());
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
    const next = axis.legal[Math.max(0, Math.min(axis.legal.length - 1, index() + way))];
    if (next) {
      refused = "";
      setField(path, next.value);
    }
  });
  number.addEventListener("change", () => {
    typed = false;
    const value = number.valueAsNumber;
    const point = axis?.refused.find((one) => one.value === value);
    refused = point ? point.problems.map(said).join(" ") : "";
    if (!Number.isInteger(value) || value < minimum) refused = `A whole number of at least ${minimum} is needed.`;
    if (refused) update();
    else if (value !== here()) setField(path, value);
  });

  function toggleRefused() {
    refusals.hidden = !refusals.hidden;
    refusedButton.setAttribute("aria-expanded", String(!refusals.hidden));
  }

  function drawAxis() {
    const key = `${state.axes} ${axis?.legal.length}`;
    if (!axis || key === box) return;
    box = key;
    const { points, no_fit } = curve(axis.legal.map(({ estimate }) => estimate));
    drawn = { points };
    line.setAttribute("points", points.map((pair) => pair.join()).join(" "));
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
    refusedButton.hidden = !axis.refused.length;
    put(refusedButton, `${plural(axis.refused.length, "value")} refused`);
    refusals.replaceChildren(
      ...reasons(axis.refused).map(([reason, values]) =>
        h("div", {}, h("b", { text: `${values.map(count).join(", ")}: ` }), reason),
      ),
    );
    if (!axis.refused.length) refusals.hidden = true;
  }

  function update() {
    const fresh = validAxis(path);
    axis = fresh ?? lastAxis(path);
    element.classList.toggle("stale", !fresh);
    drawAxis();
    const at = index();
    range.disabled = !axis || axis.legal.length < 2;
    range.max = String(Math.max(0, (axis?.legal.length ?? 1) - 1));
    if (at >= 0) range.value = String(at);
    range.style.setProperty("--fill", `${(100 * Math.max(0, at)) / Math.max(1, Number(range.max))}%`);
    range.setAttribute("aria-valuetext", `${label} ${words[here()] ?? `${count(here())}${unit && ` ${unit}`}`}`);
    if (!typed && (document.activeElement !== number || !refused))
      number.value = refused && document.activeElement === number ? number.value : String(here());
    const point = drawn.points[at];
    knob.hidden = !point;
    if (point) {
      knob.style.left = `calc(8px + ${point[0] / 100} * (100% - 16px))`;
      knob.style.top = `${2 + 0.18 * point[1]}px`;
    }
    showProblem();
  }

  function showProblem() {
    const wrong = state.problems.filter(({ field }) => field === path);
    const mild = state.problems.length ? [] : (state.estimate?.problems.filter(({ field }) => field === path) ?? []);
    const texts = refused ? [refused] : [...wrong, ...mild].map(said);
    problem.hidden = !texts.length;
    problem.classList.toggle("mild", !refused && !wrong.length);
    element.classList.toggle("wrong", Boolean(refused || wrong.length));
    if (texts.length)
      problem.replaceChildren(
        h("b", { text: refused ? "Refused: " : wrong.length ? "Not possible: " : "Note: " }),
        texts.join(" "),
      );
  }
  return { element, update, path };
}

/**
 * Refused values by their reason, so that equal reasons are read once; a number in which they differ becomes "…".
 * @param {import("../axes.js").AxisPoint[]} points @returns {[string, number[]][]}
 */
function reasons(points) {
  /** @type {Map<string, {values: number[], parts: string[]}>} */
  const found = new Map();
  for (const { value, problems } of points) {
    const parts = problems
      .map(({ message }) => message)
      .join("; ")
      .split(/(\d+(?:\.\d+)?)/); // every second part is a number
    const key = parts.filter((_, at) => at % 2 === 0).join("#");
    const one = found.get(key) ?? { values: [], parts };
    one.values.push(value);
    one.parts = one.parts.map((part, at) => (part === parts[at] ? part : "…"));
    found.set(key, one);
  }
  return [...found.values()].map(({ values, parts }) => [parts.join(""), values]);
}
