/** What a search looks for: model, chips, the run, objective, limits, and fields of the plan that are locked. */
import { setChip, setField, setModel, setPrice, setRunTokens, setWanted, show } from "../../actions.js";
import { axisOf } from "../../fieldLabels.js";
import { count, said, short, significant, wholeNeeded } from "../../format.js";
import { trainingWords } from "../../planLabel.js";
import { clusterChips, chipOf, same } from "../../scenario.js";
import { state } from "../../state.js";
import { tokensIn } from "../../tokenCount.js";
import { h, icon, put } from "../common/dom.js";
import { options, selectOr } from "../common/entries.js";
import { inBothUnits } from "../explore/specs.js";
import { priceMissing, priceRefused, usdPerHour } from "../explore/strip.js";

const OBJECTIVES = /** @type {[string, string][]} */ ([
  ["step_time", "time"],
  ["cost", "price"],
  ["memory", "memory"],
]);
/** Fields that a search moves; only these can be locked. */
const LOCKABLE = [
  "dp",
  "tp",
  "tp_kind",
  "sequence_parallel",
  "cp",
  "cp_kind",
  "pp",
  "virtual_stages",
  "schedule",
  "ep",
  "expert_tp",
  "sharding",
  "shard_ranks",
  "micro_batch",
  "recompute",
  "placement",
  "offload",
  "recompute_every",
];

/** Tokens of a step below which a batch is small for a run that says how long it is. */
const USUAL_TOKENS = 5e5;
/** What a large run of today takes in a step. */
const LARGE_TOKENS = 4e6;
const LARGE_SOURCE =
  "Llama 2 70B took 4 M (arXiv 2307.09288, section 2.2), Llama 3 405B 4 M to 16 M (arXiv 2407.21783, section 3.4.1)";
/** Tokens of a step for each chip that keep it busy beside what it exchanges. */
const CHIP_TOKENS = 16_384;

/** Whether the batch is small for the tokens of the run, so that it asks for more chips than one of its size does. */
export const hasSmallBatch = () =>
  state.run_tokens > 0 && state.scenario.training.seq_len * state.scenario.training.global_batch < USUAL_TOKENS;
/** Take as many tokens a step as a large run does. */
export const takeLargeBatch = () => setField("training.global_batch", largeBatch());
/** Sequences of such a step. */
export const largeBatch = () => 2 ** Math.round(Math.log2(LARGE_TOKENS / state.scenario.training.seq_len));

/** The most chips that are looked at. */
const mostChips = () => state.wanted.most_chips || clusterChips(state.scenario.cluster);

/** Sequences of a step that give as many chips something to divide. */
function usualBatch() {
  const tokens = Math.min(Math.max(CHIP_TOKENS * mostChips(), USUAL_TOKENS), LARGE_TOKENS);
  const [even, each] = [tokens / state.scenario.training.seq_len, mostChips()].map((some) => Math.log2(some));
  return 2 ** Math.max(Math.round(even), Math.ceil(each));
}

/** Why the range of chips holds no number; "" where it holds one. */
export function emptyRange() {
  const { least_chips } = state.wanted;
  const most = mostChips();
  if (least_chips <= most) return "";
  return `At least ${count(least_chips)} and at most ${count(most)} chips leave no number of them: raise the most or lower the least.`;
}

export function createSearchForm() {
  const { catalog: all } = state;
  const model = h("select", { id: "search-model", onchange: () => model.value && setModel(model.value) });
  model.append(...options(all.models));
  const chip = h("select", { id: "search-chip", onchange: () => chip.value && setChip(chip.value) });
  chip.append(...options(all.chips));
  /** What is typed and cannot be is refused where it was typed, with its reason. @type {Map<HTMLInputElement, HTMLElement>} */
  const refusals = new Map();
  /** @param {HTMLInputElement} box @param {string} why  nothing: it is right */
  function refuse(box, why) {
    const element = refusals.get(box);
    if (!element) return;
    element.replaceChildren(h("b", { text: `Refused: ${box.value || "no number"}. ` }), why);
    if (why) box.after(element);
    else element.remove();
    box.setAttribute("aria-invalid", String(Boolean(why)));
  }
  /** @param {HTMLInputElement} box */
  function mayRefuse(box) {
    refusals.set(box, h("div", { class: "problem", role: "alert" }));
    box.addEventListener("input", () => refuse(box, ""));
  }
  /** @param {HTMLInputElement} box @param {(value: number) => string} wrong  why a value cannot be @param {(value: number) => void} act */
  function listen(box, wrong, act) {
    mayRefuse(box);
    box.addEventListener("change", () => {
      // what a browser takes for no number at all is no empty box
      const value = box.value === "" && !box.validity.badInput ? 0 : box.valueAsNumber;
      const why = wrong(value);
      refuse(box, why);
      if (!why) act(value);
    });
    return box;
  }
  const input = (/** @type {string} */ id) =>
    h("input", { type: "number", id, min: 0, step: "any", inputmode: "decimal" });
  const number = (/** @type {string} */ id, /** @type {(value: number) => void} */ act) =>
    listen(input(id), (value) => (value >= 0 ? "" : "A number above 0 is needed, or none."), act);
  const whole = (/** @type {string} */ id, /** @type {(value: number) => void} */ act) =>
    listen(input(id), (value) => (Number.isInteger(value) && value >= 1 ? "" : wholeNeeded(1)), act);
  const least = listen(
    input("search-least"),
    (value) => {
      // an empty box is any number
      if (least.value === "" && !least.validity.badInput) return "";
      return Number.isInteger(value) && value >= 1 ? "" : wholeNeeded(1);
    },
    (least_chips) => setWanted({ least_chips, most_chips: state.wanted.most_chips || usualMost() }),
  );
  const most = whole("search-chips", (most_chips) => setWanted({ most_chips }));
  const sequence = whole("search-sequence", (value) => setField("training.seq_len", value));
  const batch = whole("search-batch", (value) => setField("training.global_batch", value));
  const stepWords = h("span");
  const larger = h("button", { type: "button", class: "link" });
  const step = h("p", { class: "hint" }, stepWords, larger);
  const capacityWords = h("p", { class: "hint" });
  const fixedWords = h("span");
  const fixed = h(
    "p",
    { class: "hint" },
    fixedWords,
    h("button", { type: "button", class: "link", text: "change", onclick: () => show("explore") }),
  );
  const tokens = h("input", { type: "text", id: "search-tokens", inputmode: "text", placeholder: "e.g. 1 T" });
  mayRefuse(tokens);
  tokens.addEventListener("change", () => {
    const value = tokensIn(tokens.value);
    refuse(tokens, value || !tokens.value.trim() ? "" : "A number of tokens is needed, as in 300 B or 1 T.");
    if (value || !tokens.value.trim()) setRunTokens(value);
  });
  const days = number("search-days", (value) => setWanted({ days: value }));
  const usd = listen(input("search-usd"), priceRefused, setPrice);
  const memory = number("search-memory", (memory_gb) => setWanted({ memory_gb }));
  const slowest = number("search-slowest", (slowest_s) => setWanted({ slowest_s }));
  const objectives = OBJECTIVES.map(([value, text]) => {
    const input = h("input", {
      type: "radio",
      name: "objective",
      value,
      onchange: () => setWanted({ objective: value }),
    });
    return { value, input, element: h("label", {}, input, h("span", { text })) };
  });
  let outOfRange = "";
  const locked = h("div", { class: "locked" });
  const field = h("select", { id: "search-lock", onchange: () => offer() });
  const value = h("span", { class: "lock-value" });
  const add = h("button", { type: "button", class: "ghost", text: "Lock", onclick: () => lock() });
  /** @type {HTMLInputElement | HTMLSelectElement} */
  let box = h("input", { type: "number" });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const line = (/** @type {HTMLInputElement} */ box, /** @type {string} */ text) => [
    h("label", { for: box.id, text }),
    box,
  ];
  const element = h(
    "section",
    {},
    h("h2", { text: "Search" }),
    h("label", { for: "search-model", class: "sr", text: "Model" }),
    model,
    h("label", { for: "search-chip", class: "sr", text: "Chip" }),
    chip,
    h(
      "div",
      { class: "form search-form" },
      line(least, "Chips, at least"),
      line(most, "Chips, at most"),
      line(sequence, "Sequence, tokens"),
      line(batch, "Batch, sequences"),
      step,
      line(tokens, "Tokens of the run"),
      line(days, "Within, days"),
      line(usd, "Chip-hour, $"),
      line(memory, "Memory per chip, GB"),
      capacityWords,
      line(slowest, "Slowest step, s"),
      fixed,
    ),
    h(
      "fieldset",
      { class: "choice" },
      h("legend", {}, h("span", { text: "Best by" })),
      h(
        "div",
        { class: "segments" },
        objectives.map((one) => one.element),
      ),
    ),
    h(
      "div",
      { class: "choice" },
      h("label", { for: "search-lock", text: "Lock a field of the plan" }),
      h("div", { class: "lock" }, field, value, add),
      locked,
      problem,
    ),
  );

  /** The scenario's number of chips. */
  const usualMost = () => clusterChips(state.scenario.cluster);

  /** A control for the value of the chosen field, beginning with what the present plan has. */
  function offer() {
    const name = field.value;
    const { choices, type } = state.catalog.fields[`plan.${name}`];
    const options = choices ?? (type === "boolean" ? ["false", "true"] : null);
    const label = { "aria-label": `Value of ${axisOf(name)}` };
    box = options
      ? h(
          "select",
          label,
          options.map((/** @type {string} */ one) => h("option", { value: one, text: one })),
        )
      : h("input", { ...label, type: "number", min: 0, step: 1 });
    box.value = String(state.scenario.plan[name]);
    box.addEventListener("keydown", (event) => /** @type {KeyboardEvent} */ (event).key === "Enter" && lock());
    value.replaceChildren(box);
  }

  function lock() {
    if (box.value !== "") setWanted({ locked: { ...state.wanted.locked, [field.value]: box.value } });
  }

  /** @param {string} name */
  function unlock(name) {
    const { [name]: _, ...rest } = state.wanted.locked;
    setWanted({ locked: rest });
  }

  /** @param {import("../../types.js").Problem[]} [problems]  that the server has with what is wanted */
  function update(problems = []) {
    const { scenario, base, catalog, wanted, run_tokens, usd_per_hour } = state;
    selectOr(model, scenario.model);
    selectOr(chip, scenario.cluster.chip);
    const fill = (/** @type {HTMLInputElement} */ input, /** @type {string | number} */ its) => {
      // what is refused stays until it is corrected
      if (document.activeElement !== input && !refusals.get(input)?.isConnected) input.value = its ? String(its) : "";
    };
    const capacity = state.estimate?.memory.capacity_bytes;
    // it may be the other end that was wrong
    if (outOfRange) refuse(least, "");
    fill(least, wanted.least_chips);
    const fewer = wanted.objective === "cost";
    least.placeholder = fewer ? "any" : "as at most";
    least.title = fewer
      ? "The cheapest plan is looked for on fewer chips too, down to this number."
      : "Left empty, all of them work: plans on fewer are not looked at.";
    fill(most, wanted.most_chips || usualMost());
    outOfRange = least.value === String(wanted.least_chips) ? emptyRange() : "";
    if (outOfRange) refuse(least, outOfRange);
    fill(sequence, scenario.training.seq_len);
    fill(batch, scenario.training.global_batch);
    const each = scenario.training.seq_len * scenario.training.global_batch;
    put(fixedWords, `Every plan: ${trainingWords(scenario.training, catalog.fields)}. `);
    const small = hasSmallBatch();
    const few = !small && (each < USUAL_TOKENS || scenario.training.global_batch < mostChips());
    // what nobody set is not called theirs
    const untouched = same(scenario.training.global_batch, base.training.global_batch);
    const kept = `${short(each)} tokens a step, the batch of ${untouched ? "the sample" : "Explore"}`;
    put(stepWords, small ? `${kept}; large runs take 1 M to 16 M: ` : few ? `${kept}: ` : kept);
    step.title = small ? LARGE_SOURCE : "";
    larger.hidden = !small && !few;
    const many = small ? largeBatch() : usualBatch();
    put(larger, `take ${count(many)} sequences`);
    larger.onclick = () => setField("training.global_batch", many);
    fill(tokens, run_tokens ? short(run_tokens) : "");
    fill(days, wanted.days);
    days.placeholder = "any";
    fill(usd, usd_per_hour);
    const price = usdPerHour();
    usd.placeholder = price.usd ? price.usd.toFixed(2) : "not known";
    usd.title = price.usd ? price.source : priceMissing(chipOf(scenario, catalog));
    memory.placeholder = capacity ? significant(capacity / 1e9) : "";
    put(capacityWords, capacity ? `it has ${inBothUnits(capacity)}` : "");
    slowest.placeholder = "any";
    fill(memory, wanted.memory_gb);
    fill(slowest, wanted.slowest_s);
    for (const one of objectives) {
      one.input.checked = one.value === wanted.objective;
      one.element.classList.toggle("on", one.input.checked);
    }
    if (!field.options.length) {
      field.append(...LOCKABLE.map((name) => h("option", { value: name, text: axisOf(name) })));
      offer();
    }
    locked.replaceChildren(
      ...Object.entries(wanted.locked).map(([name, its]) =>
        h(
          "span",
          { class: "chip" },
          axisOf(name),
          h("b", { text: its }),
          h(
            "button",
            { type: "button", "aria-label": `Unlock ${axisOf(name)} ${its}`, onclick: () => unlock(name) },
            icon("close"),
          ),
        ),
      ),
    );
    problem.hidden = !problems.length;
    put(problem, problems.map((one) => `${one.field.replace(/^(locked|limits)\./, "")}: ${said(one)}`).join(" "));
  }
  return { element, update };
}
