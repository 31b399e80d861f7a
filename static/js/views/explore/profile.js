/**
 * A profile beside what its own ops should take, without any scenario; and the scenario that it is of: proposed from its
 * shapes, confirmed by one press or corrected.
 */
import { setScenario } from "../../actions.js";
import { api } from "../../api.js";
import { opRows, whatIfRows } from "../../figures/ownOps.js";
import { change, plural, said, seconds } from "../../format.js";
import { deviceName } from "../../measured.js";
import { confirmScenario } from "../../measurements.js";
import { complete, describe } from "../../scenario.js";
import { state } from "../../state.js";
import { breakable, h, put } from "../common/dom.js";
import { createScroller } from "../common/scroller.js";
import { grid, tableView } from "../common/table.js";
import { trying } from "../common/toast.js";

const RANKS = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

/** Whether the measurement says which ops ran. */
const isProfile = () => Boolean(state.measurement?.expected || state.measurement?.proposed);

export function createProfile() {
  const proposal = createProposal();
  const changes = createWhatIf();
  const ops = createOps();
  const summary = h("p", { class: "hint" });
  const open = h("div", { class: "unknown", id: "own-problems", hidden: true });
  ops.element.append(open, summary);
  const right = h("div", { class: "column w12 profile" }, proposal.element, changes.element);
  const elements = [right, ops.element];

  function update() {
    const { measurement } = state;
    const own = measurement?.expected;
    ops.element.hidden = !own;
    // a run's scenario is known; what was imported without one is asked for
    right.hidden = !measurement || (!isProfile() && Boolean(state.measuredScenario));
    if (!measurement) return;
    proposal.update();
    changes.update();
    if (!own) return;
    ops.update(own);
    const unpriced = own.unpriced_s
      ? ` ${seconds(own.unpriced_s)} of kernels without an op are taken as measured.`
      : "";
    put(summary, `${own.notes.join(" ")}${unpriced}`);
    open.replaceChildren(
      ...own.estimate.problems.map((one) => h("p", {}, h("b", { text: one.field }), ` ${said(one)}`)),
    );
    open.hidden = !own.estimate.problems.length;
  }

  return { elements, update };
}

/** The card of all ops, measured beside predicted. */
function createOps() {
  const scroller = createScroller("Ops of the profile", "tall");
  const find = h("input", { type: "text", placeholder: "find an op or shape", "aria-label": "Find an op or shape" });
  const sub = h("span", { class: "sub" });
  const element = h(
    "section",
    { class: "card w12", id: "own-ops" },
    h("header", {}, h("h3", { text: "Its own ops" }), sub, h("span", { class: "acts" }, find)),
    scroller.element,
  );
  /** @type {import("../../types.js").OwnPrediction | null} */
  let shown = null;

  function fill() {
    if (!shown) return;
    const table = opRows(shown.ops, find.value);
    put(sub, `${plural(table.rows.length, "op")} by measured time, inputs and phase; device seconds of one step`);
    scroller.fill(tableView(table));
  }
  find.oninput = fill;

  /** @param {import("../../types.js").OwnPrediction} own */
  function update(own) {
    if (own === shown) return;
    shown = own;
    fill();
  }
  return { element, update };
}

/** The card of what-if switches: the same ops under a compiler, another attention, another chip. */
function createWhatIf() {
  const switches = h("div", { class: "choices" });
  const chip = h("select", { "aria-label": "On the chip" });
  const ranks = h(
    "select",
    { "aria-label": "Data parallel ranks" },
    RANKS.map((count) => h("option", { value: String(count), text: count === 1 ? "1 rank" : `${count} ranks` })),
  );
  const other = h("details", { class: "hint" });
  const said = h("p", { "aria-live": "polite" });
  const scroller = createScroller("What if, by category");
  const element = h(
    "section",
    { class: "card", id: "what-if" },
    h("header", {}, h("h3", { text: "What if" }), h("span", { class: "sub", text: "the same ops, predicted again" })),
    switches,
    h("div", { class: "choices" }, chip, ranks),
    said,
    scroller.element,
    other,
  );
  /** @type {Set<string>} */
  let chosen = new Set();
  let shown = "";
  let asked = 0;

  async function ask() {
    const { measurement, catalog } = state;
    const own = measurement?.expected;
    if (!measurement || !own) return;
    const number = ++asked;
    const found = await api.whatIf(measurement.id, [...chosen], chip.value, ranks.value);
    if (number !== asked || state.measurement?.id !== measurement.id) return;
    switches.replaceChildren(
      ...found.offered.map(({ key, label }) => {
        const one = h("button", {
          type: "button",
          class: "ghost",
          text: label,
          "aria-pressed": String(chosen.has(key)),
        });
        one.onclick = () => {
          if (!chosen.delete(key)) chosen.add(key);
          one.setAttribute("aria-pressed", String(chosen.has(key)));
          void trying(ask());
        };
        return one;
      }),
    );
    ranks.disabled = found.layouts.some(({ key, reason }) => key === "dp" && reason);
    const refused = found.layouts.filter(({ reason }) => reason);
    other.replaceChildren(
      h("summary", { text: `What it cannot be asked: ${refused.map(({ label }) => label).join(", ")}` }),
      ...refused.map(({ label, reason }) => h("p", {}, h("b", { text: `${label}: ` }), reason)),
    );
    const plain = !chosen.size && found.chip === own.chip && found.ranks === 1;
    const { step_time_s, interval_s } = found.estimate;
    const frac = step_time_s / own.estimate.step_time_s - 1;
    const [low, high] = interval_s;
    put(
      said,
      plain
        ? `As it is: ${seconds(own.estimate.step_time_s)} predicted.`
        : `${seconds(step_time_s)}, ${change(frac)} against ${seconds(own.estimate.step_time_s)}; ${seconds(low)} to ${seconds(high)} at 80 %.`,
    );
    scroller.element.hidden = plain;
    if (!plain) scroller.fill(tableView(whatIfRows(own.estimate, found.estimate, catalog.categories), { total: true }));
  }
  chip.onchange = ranks.onchange = () => void trying(ask());

  function update() {
    const { measurement, catalog } = state;
    const own = measurement?.expected;
    element.hidden = !own;
    if (!measurement || !own || shown === measurement.id) return;
    shown = measurement.id;
    chosen = new Set();
    const chips = catalog.chips.filter(({ value }) => value.kind !== "cpu");
    chip.replaceChildren(...chips.map(({ key, label }) => h("option", { value: key, text: label })));
    chip.value = own.chip;
    ranks.value = "1";
    void trying(ask());
  }
  return { element, update };
}

/** The card that says of which scenario a measurement is, and asks where that is not known. */
function createProposal() {
  const sub = h("span", { class: "sub" });
  const acts = h("div", { class: "choices" });
  const words = h("div", {});
  const scroller = createScroller("Proposed scenario", "tall");
  const element = h(
    "section",
    { class: "card", id: "proposal" },
    h("header", {}, h("h3", { text: "Its scenario" }), sub),
    words,
    acts,
    scroller.element,
  );

  /** @param {string} text @param {string} kind @param {() => void} act */
  const button = (text, kind, act) => h("button", { type: "button", class: kind, text, onclick: act });

  function update() {
    const { measurement, measuredScenario, scenario, catalog } = state;
    if (!measurement) return;
    const found = measurement.proposed;
    if (measuredScenario) {
      put(sub, "confirmed");
      words.replaceChildren(h("p", { text: `This profile is of ${describe(measuredScenario, catalog)}.` }));
      acts.replaceChildren(button("Show it", "ghost", () => setScenario(measuredScenario)));
      scroller.element.hidden = true;
      return;
    }
    const fields = Object.entries(found?.fields ?? {});
    const sure = fields.filter(([, one]) => one.sure).length;
    put(
      sub,
      fields.length ? `read from its shapes: ${sure} fields sure, ${fields.length - sure} guessed` : "not known",
    );
    const reason = found ? found.reason : `It does not say what ran on ${deviceName(measurement) || "its device"}.`;
    words.replaceChildren(
      ...[reason, ...(found?.notes ?? [])].filter(Boolean).map((text) => h("p", { class: "hint", text })),
    );
    const proposed = found?.scenario ? complete(found.scenario, catalog) : null;
    acts.replaceChildren(
      ...[
        proposed && found?.whole && button("Confirm", "primary", () => void trying(confirmScenario(proposed))),
        proposed &&
          button(found?.whole ? "Correct it first" : "Open it as a training step", "ghost", () =>
            setScenario(proposed),
          ),
        (found?.whole ?? true) && button("It is the one shown", "ghost", () => void trying(confirmScenario(scenario))),
      ].filter((one) => one instanceof HTMLElement),
    );
    scroller.element.hidden = !fields.length;
    const rows = fields.map(([path, one]) =>
      h(
        "tr",
        { class: !one.sure && "guessed" },
        h("td", { class: "text" }, breakable(path.split(".").slice(1).join("."))),
        h("td", { class: "text", text: String(one.value) }),
        h("td", { class: "text wrap", text: one.sure ? one.evidence : `guessed: ${one.evidence}` }),
      ),
    );
    scroller.fill(grid(["field", "value", "by"], rows, { texts: [0, 1, 2] }));
  }
  return { element, update };
}
