/**
 * A profile beside what its own ops should take, without any scenario; and the scenario that it is of: proposed from its
 * shapes, confirmed by one press or corrected.
 */
import { setScenario, setSides } from "../../actions.js";
import { api } from "../../api.js";
import { categoryIn } from "../../figures/base.js";
import { areMeasured, leftOutOfForm, opRows, toggled, whatIfRows } from "../../figures/ownOps.js";
import { bytes, change, plural, said, seconds } from "../../format.js";
import { multipliedPart } from "../../hardware.js";
import { deviceName, isTraced } from "../../measured.js";
import { confirmAnswers, confirmDevice, confirmScenario } from "../../measurements.js";
import { complete, describe, same } from "../../scenario.js";
import { state } from "../../state.js";
import { breakable, h, put } from "../common/dom.js";
import { asksDevice, chipMeant, chipOptions, likelyWords } from "../common/questions.js";
import { createScroller } from "../common/scroller.js";
import { grid, tableView } from "../common/table.js";
import { trying } from "../common/toast.js";
import { createHardwareSliders } from "./hardwareSliders.js";
import { createMissing, readWords } from "./missing.js";

/**
 * What lays the ops out: the parameter of the address, the layout that allows it, its label; `short` stands before a
 * number, what has none is one of the layout's own choices.
 * @type {{key: string, of: string, label: string, short?: string}[]}
 */
const LAID = [
  { key: "ranks", of: "dp", label: "Data parallel ranks", short: "data parallel" },
  { key: "sharding", of: "sharding", label: "Sharding of states" },
  { key: "tp", of: "tp", label: "Tensor parallel ranks", short: "tensor parallel" },
  { key: "pp", of: "pp", label: "Pipeline stages", short: "pipeline" },
  { key: "schedule", of: "pp", label: "Pipeline schedule" },
  { key: "micro_batches", of: "pp", label: "Micro-batches of a step", short: "micro-batches" },
];
const CHUNKED = ["interleaved", "zero-bubble-v"];

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
    put(summary, own.notes.join(" "));
    open.replaceChildren(
      ...own.estimate.problems.map((one) => h("p", {}, h("b", { text: one.field }), ` ${said(one)}`)),
    );
    open.hidden = !own.estimate.problems.length;
  }

  return { elements, update };
}

/** The card of all ops, measured beside predicted. */
function createOps() {
  const scroller = createScroller("Its own ops", "tall");
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
    const { selected, catalog } = state;
    const category = categoryIn(selected, catalog.categories);
    const table = opRows(shown.ops, find.value, category);
    const by = areMeasured(shown.ops) ? "measured" : "predicted";
    const of = category ? ` of ${catalog.categories.find(({ key }) => key === category)?.label}` : "";
    put(sub, `${plural(table.rows.length, "op")}${of} by ${by} time, inputs and phase; device seconds of one step`);
    scroller.fill(tableView(table));
  }
  find.oninput = fill;
  let cause = "";

  /** @param {import("../../types.js").OwnPrediction} own */
  function update(own) {
    if (own === shown && cause === state.selected) return;
    shown = own;
    cause = state.selected;
    fill();
  }
  return { element, update };
}

/** The card of what-if switches: the same ops under a compiler, another attention, another chip, spread over ranks. */
function createWhatIf() {
  const switches = h("div", { class: "choices" });
  const chip = h("select", { "aria-label": "On the chip" });
  const link = h("select", { "aria-label": "Link inside a node" });
  const laid = LAID.map((one) => {
    if (!one.short) {
      const select = h("select", { "aria-label": one.label, disabled: true });
      return { ...one, control: select, box: /** @type {HTMLElement} */ (select), select };
    }
    const control = h("input", { type: "number", min: 1, step: 1, value: 1, "aria-label": one.label });
    return { ...one, control, box: h("label", { class: "amount" }, one.short, control), select: null };
  });
  /** Multiples of the chip's and the link's rates. @type {Record<import("../../hardware.js").Part, number>} */
  const times = { flops: 1, memory: 1, link: 1, network: 1 };
  let hasLink = false;
  const multiples = createHardwareSliders({
    of: "its own ops",
    title: "Hardware",
    now: () => times,
    set: (part, value) => {
      times[part] = value;
      multiples.update();
      void trying(ask());
    },
    has: (part) => part !== "network" && (part !== "link" || hasLink),
  });
  const split = h("p", { class: "hint" });
  const other = h("details", { class: "hint" });
  const said = h("p", { "aria-live": "polite" });
  const scroller = createScroller("What if, by category");
  const element = h(
    "section",
    { class: "card", id: "what-if" },
    h("header", {}, h("h3", { text: "What if" }), h("span", { class: "sub", text: "the same ops, predicted again" })),
    switches,
    h("div", { class: "choices" }, chip, link, ...laid.map(({ box }) => box)),
    multiples.element,
    said,
    split,
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
    const plan = Object.fromEntries(laid.map(({ key, control }) => [key, control.value]).filter(([, value]) => value));
    // how something is divided is said of what is divided alone
    if ((plan.ranks ?? "1") === "1") delete plan.sharding;
    if ((plan.pp ?? "1") === "1") delete plan.schedule;
    if (CHUNKED.includes(plan.schedule)) plan.virtual_stages = "2";
    const hardware = multipliedPart(chip.value, link.value, times, catalog);
    if (hardware.link) plan.link = hardware.link;
    const found = await api.whatIf(measurement.id, [...chosen], hardware.chip, plan);
    if (number !== asked || state.measurement?.id !== measurement.id) return;
    const offered = found.offered.map(({ key, label, reason }) => {
      const one = h("button", {
        type: "button",
        class: "ghost",
        text: label,
        title: reason,
        disabled: Boolean(reason),
        "aria-pressed": String(chosen.has(key)),
      });
      one.onclick = () => {
        chosen = toggled(chosen, key);
        for (const { button, key: its } of offered) button.setAttribute("aria-pressed", String(chosen.has(its)));
        void trying(ask());
      };
      return { key, button: one };
    });
    switches.replaceChildren(...offered.map(({ button }) => button));
    for (const { key: name, of, control, box, select } of laid) {
      const way = found.layouts.find(({ key }) => key === of);
      control.disabled = Boolean(way?.reason);
      // what cannot be asked has no field; its reason stands below
      box.hidden = control.disabled;
      if (select && !select.options.length && !way?.reason) {
        select.replaceChildren(...(way?.choices ?? []).map((value) => h("option", { value, text: value })));
        select.value = found.laying.plan[name];
      }
    }
    const { plan: chips, micro_batches } = found.laying;
    // what divides nothing yet has nothing to choose
    for (const { key, box } of laid)
      if ((key === "sharding" && chips.dp === 1) || (key === "schedule" && chips.pp === 1)) box.hidden = true;
    // one rank alone sends nothing
    link.hidden = found.estimate.chips === 1;
    hasLink = !link.hidden;
    multiples.update();
    const moved = chips.dp * chips.tp * chips.pp * micro_batches > 1;
    const named = Object.entries(found.layouts.find(({ key }) => key === "tp")?.split ?? {});
    put(split, chips.tp > 1 ? `Split: ${named.map(([path, how]) => `${path} by ${how}s`).join(", ")}.` : "");
    split.hidden = chips.tp === 1;
    const refused = found.layouts.filter(({ reason }) => reason);
    other.replaceChildren(
      h("summary", { text: `What it cannot be asked: ${refused.map(({ label }) => label).join(", ")}` }),
      ...refused.map(({ label, reason }) => h("p", {}, h("b", { text: `${label}: ` }), reason)),
    );
    const plain = !chosen.size && found.chip === own.chip && !moved && !hardware.link && hardware.chip === chip.value;
    // of one moment with the answer: a CPU may have been measured anew since the page had its own
    const before = found.before ?? own.estimate;
    const { step_time_s, interval_s, memory, tokens_per_s_per_chip } = found.estimate;
    const frac = step_time_s / before.step_time_s - 1;
    const [low, high] = interval_s;
    const rate = before.tokens_per_s_per_chip;
    const perChip = rate ? ` ${change(tokens_per_s_per_chip / rate - 1)} throughput,` : "";
    const each = moved
      ? ` Each of ${plural(found.estimate.chips, "rank")}:${perChip} ${bytes(memory.peak_bytes)} at its peak, which ${memory.fits ? "fits" : "does not fit"}.`
      : "";
    put(
      said,
      plain
        ? `As it is: ${seconds(before.step_time_s)} predicted.`
        : `${seconds(step_time_s)}, ${change(frac)} against ${seconds(before.step_time_s)}; ${seconds(low)} to ${seconds(high)} at 80 %.${memory.peak_bytes ? each : ""}`,
    );
    scroller.element.hidden = plain;
    if (!plain) scroller.fill(tableView(whatIfRows(before, found.estimate, catalog.categories), { total: true }));
  }
  for (const control of [chip, link, ...laid.map((one) => one.control)]) control.onchange = () => void trying(ask());

  function update() {
    const { measurement, catalog } = state;
    const own = measurement?.expected;
    element.hidden = !own;
    if (!measurement || !own || shown === measurement.id) return;
    shown = measurement.id;
    chosen = new Set();
    Object.assign(times, { flops: 1, memory: 1, link: 1 });
    const chips = catalog.chips.filter(({ key, value }) => value.kind !== "cpu" || key === own.chip);
    chip.replaceChildren(...chips.map(({ key, label }) => h("option", { value: key, text: label })));
    if (!chips.some(({ key }) => key === own.chip))
      chip.prepend(
        h("option", {
          value: own.chip,
          text: isTraced(measurement) ? "the chip it was traced for" : "the chip it ran on",
        }),
      );
    chip.value = own.chip;
    link.replaceChildren(
      h("option", { value: "", text: "the chip's own link" }),
      ...catalog.links.map(({ key, label }) => h("option", { value: key, text: label })),
    );
    for (const { control, select } of laid) {
      if (select) select.replaceChildren();
      else control.value = "1";
    }
    void trying(ask());
  }
  return { element, update };
}

/**
 * That a scenario's prediction is another than that of the program's own ops, which it does not replace.
 * @param {import("../../types.js").OwnPrediction} expected @param {import("../../types.js").Estimate} form
 */
function twoPredictions({ estimate: own, ops }, form) {
  const left = leftOutOfForm(ops);
  const of = (/** @type {import("../../types.js").Estimate} */ { step_time_s, memory }) =>
    [seconds(step_time_s), memory.peak_bytes && bytes(memory.peak_bytes)].filter(Boolean).join(" and ");
  return `Its own ops should take ${of(own)}, the catalogue's form of it ${of(form)}; believe the first, whose kernels are those that run; sliders and Search use the form.${left.length ? ` It leaves out what the program runs beside the model: ${left.join("; ")}.` : ""}`;
}

/** The card that says of which scenario a measurement is, and asks where that is not known. */
function createProposal() {
  const sub = h("span", { class: "sub" });
  const missing = createMissing(() => {
    confirm.disabled = !isAnswered();
  });
  const chip = h("select", { onchange: () => answer() });
  const why = h("small", { class: "quiet" });
  const device = h("p", { class: "device" }, h("span", { class: "quiet", text: "On what? " }), chip, " ", why);
  const acts = h("div", { class: "choices" });
  const words = h("div", {});
  const readAs = h("b");
  const what = h("p", {}, h("span", { class: "quiet", text: "What was this? " }), readAs, " ", missing.element);
  const confirm = h("button", { type: "button", class: "primary", text: "Confirm" });
  const scroller = createScroller("Proposed scenario", "tall");
  const element = h(
    "section",
    { class: "card", id: "proposal" },
    h("header", {}, h("h3", { text: "Its scenario" }), sub),
    what,
    words,
    device,
    acts,
    scroller.element,
  );

  const isAnswered = () => Boolean(missing.answers() && chip.value);
  let asking = ""; // the measurement whose chip is chosen

  /** @param {string} text @param {string} kind @param {() => void} act */
  const button = (text, kind, act) => h("button", { type: "button", class: kind, text, onclick: act });

  /** Where the file leaves something out, the chip waits for the rest and for the button. @param {boolean} [confirmed] */
  function answer(confirmed = false) {
    const asked = state.measurement?.proposed?.asked ?? [];
    if (!asked.length) return void trying(confirmDevice(chipMeant(chip.value)));
    const given = missing.answers();
    if (confirmed && given) void trying(confirmAnswers({ ...given, chip: chipMeant(chip.value) }));
    else confirm.disabled = !isAnswered();
    return undefined;
  }

  function update() {
    const { measurement, measuredScenario, scenario, catalog } = state;
    if (!measurement) return;
    const found = measurement.proposed;
    const open = measuredScenario ? [] : (found?.asked ?? []);
    missing.update(measurement, open, found?.fields, found?.parameters);
    const its = measurement.expected ? "profile" : "run";
    device.hidden = Boolean(measuredScenario) || its === "profile" || !(open.length || asksDevice(measurement));
    what.hidden = true;
    if (measuredScenario) {
      put(sub, "confirmed");
      const { expected, prediction, id } = measurement;
      const traced = isTraced(measurement);
      const what = traced ? "program" : its;
      const twice = expected && prediction ? ` ${twoPredictions(expected, prediction)}` : "";
      words.replaceChildren(h("p", { text: `This ${what} is of ${describe(measuredScenario, catalog)}.${twice}` }));
      acts.replaceChildren(
        button("Show it", "ghost", () => {
          setScenario(measuredScenario);
          setSides("", "");
        }),
        ...(expected && !traced ? [button("Its own ops as A", "ghost", () => setSides("own", `m:${id}`))] : []),
      );
      scroller.element.hidden = true;
      return;
    }
    const fields = Object.entries(found?.fields ?? {});
    const sure = fields.filter(([, one]) => one.sure).length;
    const from = measurement.expected ? "read from its shapes" : "read from its file";
    put(sub, fields.length ? `${from}: ${sure} fields sure, ${fields.length - sure} guessed` : "not known");
    const ran = deviceName(measurement);
    const reason = found ? found.reason : `It does not say what ran${ran ? ` on ${ran}` : ", nor on what"}.`;
    const proposed = found?.scenario ? complete(found.scenario, catalog) : null;
    const asked = its === "run" && found ? (proposed ? describe(proposed, catalog) : readWords(found)) : "";
    what.hidden = !asked && !open.length;
    put(readAs, asked);
    words.replaceChildren(
      ...[reason, ...(found?.notes ?? [])].filter(Boolean).map((text) => h("p", { class: "hint", text })),
    );
    if (!device.hidden) {
      const now = String(measurement.device.candidates?.[0]?.chip ?? "");
      const chosen =
        open.length && asking === measurement.id && chip.value ? chip.value : proposed || open.length ? now : "";
      asking = measurement.id;
      chipOptions(chip, measurement, chosen);
      chip.setAttribute("aria-label", `${measurement.label || measurement.id}: ran on`);
      put(why, chosen ? likelyWords(measurement, chosen) : "");
    }
    confirm.onclick = () => (device.hidden && proposed ? void trying(confirmScenario(proposed)) : answer(true));
    confirm.disabled = open.length > 0 && !isAnswered();
    acts.replaceChildren(
      ...[
        (open.length > 0 || (proposed && found?.whole)) && confirm,
        proposed &&
          !same(proposed, scenario) &&
          button(found?.whole ? "Correct it first" : "Open it as a training step", "ghost", () =>
            setScenario(proposed),
          ),
        (found?.whole ?? true) &&
          !(proposed && same(proposed, scenario)) &&
          button("It ran the plan that the controls show", "ghost", () => void trying(confirmScenario(scenario))),
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
