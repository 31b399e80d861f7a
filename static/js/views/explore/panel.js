/** The scenario panel: model, hardware, plan, training; every field of it is one line in the lists below. */
import { onPage } from "../../problemWords.js";
import { reset, setChip, setChips, setModel, setOwnChip, setRunTokens, setScenario } from "../../actions.js";
import { count, plural, saidTogether, short, significant, wholeNeeded } from "../../format.js";
import { labelOf } from "../../fieldLabels.js";
import { createCalibration } from "./calibration.js";
import { createHardwareSliders } from "./hardwareSliders.js";
import { createNetworks } from "./networks.js";
import { createOwnPart } from "./ownPart.js";
import { fieldNamed, savedParts, withPart } from "../../ownParts.js";
import { priceOf } from "../../sides.js";
import { usdPerHour } from "./strip.js";
import { clusterChips, chipOf, chips, chipWord, same } from "../../scenario.js";
import { state, subscribe } from "../../state.js";
import { tokensIn } from "../../tokenCount.js";
import { h, put } from "../common/dom.js";
import { options, OWN, selectOr } from "../common/entries.js";
import { capacityHint, chipSpecs, modelSpecs } from "./specs.js";
import { createFieldProblem } from "../common/fieldProblem.js";
import { createMeasureAgain } from "../common/measureAgain.js";
import { createModelFile } from "./modelFile.js";
import { choiceOf, createPlan, menuOf, numberOf } from "./plan.js";
import { createField } from "./field.js";
import { createSheet } from "../common/sheet.js";
import { createWhose } from "./whose.js";
import { copy } from "../common/toast.js";

const BATCH = /** @type {[string, string][]} */ ([
  ["training.seq_len", "tokens"],
  ["training.global_batch", "sequences"],
]);
const TRAINING_CHOICES = ["training.precision", "training.attention"];

/** @param {string} value */
const ownIn = (value) => (value.startsWith(OWN) ? value.slice(OWN.length) : "");

/** @param {{tour: () => void}} options */
export function createPanel({ tour }) {
  const model = h("select", {
    id: "model",
    "aria-keyshortcuts": "/",
    onchange: () => {
      file.clear();
      const own = savedParts().model[ownIn(model.value)];
      if (own) setScenario(withPart(state.scenario, "model", own, state.catalog));
      else setModel(model.value);
    },
  });
  const file = createModelFile();
  const chip = h("select", {
    id: "chip",
    onchange: () => {
      const own = savedParts().chip[ownIn(chip.value)];
      if (own) setOwnChip(own);
      else setChip(chip.value);
    },
  });
  const total = h("input", { type: "number", id: "chips", min: 1, step: 1, inputmode: "numeric" });
  let totalRefused = "";
  /** @type {import("../../types.js").Scenario | null} */
  let totalRefusedFor = null;
  total.addEventListener("change", () => {
    const value = total.valueAsNumber;
    totalRefused = Number.isInteger(value) && value >= 1 ? "" : wholeNeeded(1);
    totalRefusedFor = state.scenario;
    update();
    if (!totalRefused) setChips(value);
  });
  const totalProblem = createFieldProblem("cluster.chips");
  const multiples = createHardwareSliders();
  const networks = createNetworks();
  multiples.element.append(networks.link);
  const nodes = createField({
    path: "cluster.nodes",
    label: labelOf("cluster.nodes"),
    unit: "nodes",
    help: "nodes of the cluster; data parallelism takes the change",
    minimum: 1,
  });
  const calibration = createCalibration();
  const ownModel = createOwnPart("model", () => update());
  const ownChip = createOwnPart("chip", () => update());
  const runTokens = h("input", {
    type: "text",
    id: "run-tokens",
    placeholder: "e.g. 1 T",
    inputmode: "decimal",
    title: "How many tokens the whole run sees: then the page says days and price.",
  });
  const tokensProblem = createFieldProblem("run_tokens");
  runTokens.addEventListener("change", () => {
    const tokens = tokensIn(runTokens.value);
    const good = tokens > 0 || !runTokens.value.trim();
    tokensProblem.update(good ? "" : "A number of tokens is needed, as 300 B or 1.5 T.");
    if (good) setRunTokens(tokens);
    else runTokens.value = state.run_tokens ? short(state.run_tokens) : "";
  });
  const days = h("span");
  const dollars = h("span");
  const whole = h("p", { class: "whole-run" }, days, dollars);
  const totalLabel = h("label", { for: "chips" });
  const modelFacts = h("p", { class: "hint" });
  const chipFacts = h("p", { class: "hint" });
  const unmeasured = h("p", { class: "hint", hidden: true });
  const again = createMeasureAgain();
  let hasFailed = false;
  const modelProblem = h("div", { class: "problem", role: "alert", hidden: true });
  const chipProblem = h("div", { class: "problem", role: "alert", hidden: true });
  const product = h("span", { class: "aside" });
  const plan = createPlan();
  const batch = BATCH.map((one) => numberOf(...one));
  const trainingChoices = [...TRAINING_CHOICES.map(choiceOf), menuOf("training.framework")];
  const all = [...batch, ...trainingChoices];
  const of = (/** @type {{element: HTMLElement}[]} */ some) => some.map(({ element }) => element);
  const welcome = h(
    "p",
    { class: "welcome", hidden: true },
    "A bundled run, to look around.",
    h("button", { type: "button", class: "link", id: "tour", text: "One-minute tour", onclick: tour }),
  );
  const whose = createWhose();
  const sheet = createSheet("Scenario", [
    welcome,
    whose.element,
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
      ownModel.element,
    ),
    h(
      "section",
      {},
      h("h2", {}, h("label", { for: "chip", text: "Hardware" })),
      chip,
      chipFacts,
      unmeasured,
      again.element,
      h("div", { class: "field" }, totalLabel, total),
      totalProblem.element,
      nodes.element,
      chipProblem,
      networks.network,
      multiples.element,
      ownChip.element,
      calibration.element,
    ),
    h(
      "section",
      {},
      h("h2", { text: "Training" }),
      of(batch),
      h("div", { class: "field" }, h("label", { for: "run-tokens", text: "Tokens of the run" }), runTokens),
      tokensProblem.element,
      whole,
    ),
    h("section", {}, h("h2", {}, "Plan", product), plan.element, of(trainingChoices)),
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

  /** @param {import("../../ownParts.js").Kind} kind */
  const ownOptions = (kind) => {
    const names = Object.keys(savedParts()[kind]);
    return names.length
      ? [
          h(
            "optgroup",
            { label: "Your own" },
            names.map((name) => h("option", { value: OWN + name, text: name })),
          ),
        ]
      : [];
  };

  function offerModels() {
    model.replaceChildren(...ownOptions("model"), ...options(state.catalog.models));
  }
  function offerChips() {
    const waiting = (state.catalog.pending ?? []).map(({ label, message }) =>
      h("option", { disabled: true, value: "-", text: label, title: message }),
    );
    chip.replaceChildren(...ownOptions("chip"), ...options(state.catalog.chips), ...waiting);
  }

  /** Why this CPU could not be measured, and how far the measurement is that somebody asked for since. */
  function tellUnmeasured() {
    const now = state.catalog.pending?.find((one) => one.state === "failed" || (hasFailed && one.state === "probing"));
    hasFailed = Boolean(now);
    put(unmeasured, now?.message ?? "");
    unmeasured.hidden = !now;
    again.update(now?.message ?? "");
  }

  /** @param {Set<string>} [changed] */
  function update(changed) {
    const { scenario, catalog } = state;
    if (scenario.model !== model.dataset.last && typeof scenario.model === "string") file.clear();
    model.dataset.last = typeof scenario.model === "string" ? scenario.model : "";
    if (!changed || changed.has("catalog")) {
      offerChips();
      offerModels();
      tellUnmeasured();
    }
    selectOr(model, scenario.model);
    selectOr(chip, scenario.cluster.chip);
    put(modelFacts, modelSpecs());
    put(chipFacts, chipSpecs());
    chipFacts.title = capacityHint();
    const { dp, tp, pp, cp } = scenario.plan;
    const product_of = [dp, tp, pp, ...(cp > 1 ? [cp] : [])].map((degree) => count(degree)).join(" × ");
    put(totalLabel, `${chipWord(chipOf(scenario, catalog))}s`);
    const cluster = scenario.cluster;
    if (totalRefusedFor !== state.scenario) totalRefused = "";
    totalProblem.update(totalRefused);
    if (document.activeElement !== total) total.value = String(clusterChips(cluster));
    put(product, `${product_of} = ${plural(chips(scenario), chipWord(chipOf(scenario, catalog)))}`);
    // the start state, which nobody has chosen
    const chosen = Boolean(state.a || state.b) || state.measured !== state.sample;
    welcome.hidden = !state.sample || chosen || !same(scenario, state.base);
    showProblems(modelProblem, "model");
    showProblems(chipProblem, "cluster");
    plan.update();
    multiples.update();
    networks.update();
    nodes.element.hidden = cluster.nodes < 2;
    if (!nodes.element.hidden) nodes.update();
    ownModel.update();
    ownChip.update();
    for (const one of all) one.update();
  }
  /** Days and dollars of the whole run, of A and of B. */
  function updateWhole() {
    const { run_tokens, pair } = state;
    if (document.activeElement !== runTokens) runTokens.value = run_tokens ? short(run_tokens) : "";
    const sides = [pair?.a, pair?.b].filter((side) => side?.step_s && side.tokens);
    whole.hidden = !run_tokens || !sides.length;
    if (whole.hidden) return;
    const steps = sides.map((side) => run_tokens / (side?.tokens ?? 1));
    const length = sides.map((side, at) => significant((steps[at] * (side?.step_s ?? 0)) / 86_400));
    const costs = sides.map((side, at) => side && (priceOf(side, usdPerHour(side).usd)?.step_usd ?? 0) * steps[at]);
    put(days, `${length.join(" → ")} days`);
    put(dollars, costs.every(Boolean) ? costs.map((cost) => `$${short(cost ?? 0)}`).join(" → ") : "");
  }
  subscribe(["pair", "run_tokens", "usd_per_hour"], updateWhole);
  subscribe(["pair", "measurement", "scenario", "problems"], whose.update);
  subscribe(["pair"], () => sheet.label(`Scenario ${state.pair?.edited ?? ""}`.trim()));
  subscribe(["scenario", "estimate", "problems", "axes", "catalog", "a", "b", "measured", "sweep"], (_, changed) =>
    update(changed),
  );
  update();
  const handled = new Set([...plan.paths, ...all.map(({ path }) => path)]);
  /** Problems that no field of the panel can show. */
  const unplaced = () => state.problems.filter(({ field }) => !handled.has(field) && !/^(model|cluster)\b/.test(field));
  return { ...sheet, model, unplaced };
}

/** @param {HTMLElement} into @param {string} part */
function showProblems(into, part) {
  const own = state.problems.filter(({ field }) => field === part || field.startsWith(`${part}.`));
  const text = saidTogether(own.map((one) => onPage(fieldNamed(one, state.catalog))));
  into.hidden = !text;
  if (text) into.replaceChildren(h("b", { text: "Not possible: " }), text);
}
