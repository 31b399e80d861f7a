/** The scenario panel: model, hardware, plan, training; every field of it is one line in the lists below. */
import { reset, setChip, setChips, setModel } from "../../actions.js";
import { count, plural, saidTogether } from "../../format.js";
import { chipOf, chips, chipWord, describe } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { h, put } from "../common/dom.js";
import { capacityHint, chipSpecs, modelSpecs } from "./specs.js";
import { tellFollowed } from "../common/fieldProblem.js";
import { createModelFile } from "./modelFile.js";
import { choiceOf, createPlan, numberOf } from "./plan.js";
import { createSheet } from "../common/sheet.js";
import { copy } from "../common/toast.js";

const BATCH = /** @type {[string, string, string][]} */ ([
  ["training.seq_len", "Sequence length", "tokens"],
  ["training.global_batch", "Global batch", "sequences"],
]);
const TRAINING_CHOICES = /** @type {[string, string][]} */ ([
  ["training.precision", "Precision"],
  ["training.attention", "Attention"],
  ["training.framework", "Framework"],
]);

/** @param {import("../../types.js").Entry[]} entries */
function options(entries) {
  /** @type {Map<string, HTMLOptionElement[]>} */
  const families = new Map();
  for (const { key, label } of entries) {
    const family = label.split(/[\s\-\d]/)[0];
    families.set(family, [...(families.get(family) ?? []), h("option", { value: key, text: label })]);
  }
  return [...families].flatMap(([family, some]) =>
    some.length > 1 && families.size > 1 ? [h("optgroup", { label: family }, some)] : some,
  );
}

export function createPanel() {
  const model = h(
    "select",
    {
      id: "model",
      "aria-keyshortcuts": "/",
      onchange: () => {
        file.clear();
        setModel(model.value);
      },
    },
    options(state.catalog.models),
  );
  const file = createModelFile();
  const chip = h("select", { id: "chip", onchange: () => setChip(chip.value) });
  const total = h("input", { type: "number", id: "chips", min: 1, step: 1, inputmode: "numeric" });
  total.addEventListener("change", () => {
    if (!Number.isInteger(total.valueAsNumber) || total.valueAsNumber < 1) return update();
    setChips(total.valueAsNumber);
    tellFollowed();
    return undefined;
  });
  const totalLabel = h("label", { for: "chips" });
  const modelFacts = h("p", { class: "hint" });
  const chipFacts = h("p", { class: "hint" });
  const modelProblem = h("div", { class: "problem", role: "alert", hidden: true });
  const chipProblem = h("div", { class: "problem", role: "alert", hidden: true });
  const product = h("span", { class: "aside" });
  const plan = createPlan();
  const batch = BATCH.map((one) => numberOf(...one));
  const trainingChoices = TRAINING_CHOICES.map((one) => choiceOf(...one));
  const all = [...batch, ...trainingChoices];
  const of = (/** @type {{element: HTMLElement}[]} */ some) => some.map(({ element }) => element);
  const sheet = createSheet("Scenario", [
    h(
      "section",
      {},
      h("h2", {}, h("label", { for: "model", text: "Model" })),
      model,
      modelFacts,
      modelProblem,
      file.element,
      file.said,
      file.problem,
    ),
    h(
      "section",
      {},
      h("h2", {}, h("label", { for: "chip", text: "Hardware" })),
      chip,
      chipFacts,
      h("div", { class: "field" }, totalLabel, total),
      chipProblem,
    ),
    h("section", {}, h("h2", {}, "Plan", product), plan.element),
    h("section", {}, h("h2", { text: "Training" }), of(batch), of(trainingChoices)),
    h(
      "section",
      {},
      h(
        "div",
        { class: "row" },
        h("button", {
          type: "button",
          class: "ghost",
          text: "Copy JSON",
          onclick: () => copy(JSON.stringify(state.scenario, null, 2), "Scenario copied as JSON"),
        }),
        h("button", { type: "button", class: "ghost", text: "Back to the sample", onclick: () => reset("all") }),
      ),
    ),
  ]);

  function offerChips() {
    const waiting = (state.catalog.pending ?? []).map(({ label, message }) =>
      h("option", { disabled: true, value: "-", text: label, title: message }),
    );
    chip.replaceChildren(...options(state.catalog.chips), ...waiting);
  }

  /** @param {Set<string>} [changed] */
  function update(changed) {
    const { scenario, catalog } = state;
    if (scenario.model !== model.dataset.last && typeof scenario.model === "string") file.clear();
    model.dataset.last = typeof scenario.model === "string" ? scenario.model : "";
    if (!changed || changed.has("catalog")) offerChips();
    selectOr(model, scenario.model);
    selectOr(chip, scenario.cluster.chip);
    put(modelFacts, modelSpecs());
    put(chipFacts, chipSpecs());
    chipFacts.title = capacityHint();
    const { dp, tp, pp, cp } = scenario.plan;
    const product_of = [dp, tp, pp, ...(cp > 1 ? [cp] : [])].map((degree) => count(degree)).join(" × ");
    put(totalLabel, `${chipWord(chipOf(scenario, catalog))}s`);
    const { chips_per_node, nodes } = scenario.cluster;
    if (document.activeElement !== total) total.value = String(chips_per_node * nodes);
    put(product, `${product_of} = ${plural(chips(scenario), chipWord(chipOf(scenario, catalog)))}`);
    showProblems(modelProblem, "model");
    showProblems(chipProblem, "cluster");
    plan.update();
    for (const one of all) one.update();
    sheet.label(describe(scenario, catalog));
  }
  subscribe(["scenario", "estimate", "problems", "axes", "catalog"], (_, changed) => update(changed));
  update();
  const handled = new Set([...plan.paths, ...all.map(({ path }) => path)]);
  /** Problems that no field of the panel can show. */
  const unplaced = () => state.problems.filter(({ field }) => !handled.has(field) && !/^(model|cluster)\b/.test(field));
  return { ...sheet, model, unplaced };
}

/**
 * Choose a catalogue entry, or show an inline object as one more entry.
 * @param {HTMLSelectElement} select
 * @param {any} value
 */
function selectOr(select, value) {
  const custom =
    typeof value === "object" ||
    ![...select.options].some((option) => option.value === value && !option.dataset.custom);
  select.querySelector("[data-custom]")?.remove();
  if (custom) {
    const text =
      typeof value === "object" ? `${value.label || value.name || "custom"} (as given)` : `${value} (unknown)`;
    select.prepend(h("option", { value: "", "data-custom": true, text }));
  }
  select.value = custom ? "" : value;
}

/** @param {HTMLElement} into @param {string} part */
function showProblems(into, part) {
  const text = saidTogether(state.problems.filter(({ field }) => field === part || field.startsWith(`${part}.`)));
  into.hidden = !text;
  if (text) into.replaceChildren(h("b", { text: "Not possible: " }), text);
}
