/** What a search looks for: chips, objective, limits, and fields of the plan that are locked. */
import { setChips, setWanted } from "../../actions.js";
import { bytes, said } from "../../format.js";
import { chipOf, describe } from "../../scenario.js";
import { state } from "../../state.js";
import { h, icon, put } from "../common/dom.js";
import { tellFollowed } from "../common/fieldProblem.js";

/** Not GPU-hours: the number of chips is given, so that they sort as the step time does. */
const OBJECTIVES = /** @type {[string, string][]} */ ([
  ["step_time", "step time"],
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

const words = (/** @type {string} */ name) => name.replaceAll("_", " ");

export function createSearchForm() {
  const what = h("p", { class: "hint" });
  const chips = h("input", { type: "number", id: "search-chips", min: 1, step: 1, inputmode: "numeric" });
  chips.addEventListener("change", () => {
    if (!Number.isInteger(chips.valueAsNumber) || chips.valueAsNumber < 1) return update();
    setChips(chips.valueAsNumber, { batch: true });
    tellFollowed();
    return undefined;
  });
  const limit = (/** @type {string} */ id, /** @type {"memory_gb" | "slowest_s"} */ name) => {
    const box = h("input", { type: "number", id, min: 0, step: "any", inputmode: "decimal" });
    box.addEventListener("change", () => setWanted({ [name]: Math.max(0, box.valueAsNumber || 0) }));
    return box;
  };
  const memory = limit("search-memory", "memory_gb");
  const slowest = limit("search-slowest", "slowest_s");
  const objectives = OBJECTIVES.map(([value, text]) => {
    const input = h("input", {
      type: "radio",
      name: "objective",
      value,
      onchange: () => setWanted({ objective: value }),
    });
    return { value, input, element: h("label", {}, input, h("span", { text })) };
  });
  const locked = h("div", { class: "locked" });
  const field = h("select", { id: "search-lock", onchange: () => offer() });
  const value = h("span", { class: "lock-value" });
  const add = h("button", { type: "button", class: "ghost", text: "Lock", onclick: () => lock() });
  /** @type {HTMLInputElement | HTMLSelectElement} */
  let box = h("input", { type: "number" });
  const problem = h("div", { class: "problem", role: "alert", hidden: true });
  const element = h(
    "section",
    {},
    h("h2", { text: "Search" }),
    what,
    h(
      "div",
      { class: "form search-form" },
      h("label", { for: "search-chips", text: "Chips" }),
      chips,
      h("label", { for: "search-memory", text: "Memory per chip, GB" }),
      memory,
      h("label", { for: "search-slowest", text: "Slowest step, s" }),
      slowest,
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

  /** A control for the value of the chosen field, beginning with what the present plan has. */
  function offer() {
    const name = field.value;
    const { choices, type } = state.catalog.fields[`plan.${name}`];
    const options = choices ?? (type === "boolean" ? ["false", "true"] : null);
    const label = { "aria-label": `Value of ${words(name)}` };
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
    const { scenario, catalog, wanted } = state;
    const { chips_per_node, nodes } = scenario.cluster;
    const { seq_len, global_batch, precision } = scenario.training;
    const [model, on] = describe(scenario, catalog).split(" · ");
    put(what, `${model} on ${on}, ${global_batch} sequences of ${seq_len}, ${precision}, as in Explore`);
    if (document.activeElement !== chips) chips.value = String(chips_per_node * nodes);
    const capacity = chipOf(scenario, catalog).memory_bytes;
    memory.placeholder = capacity ? bytes(capacity) : "";
    slowest.placeholder = "any";
    if (document.activeElement !== memory) memory.value = wanted.memory_gb ? String(wanted.memory_gb) : "";
    if (document.activeElement !== slowest) slowest.value = wanted.slowest_s ? String(wanted.slowest_s) : "";
    for (const one of objectives) {
      one.input.checked = one.value === wanted.objective;
      one.element.classList.toggle("on", one.input.checked);
    }
    if (!field.options.length) {
      field.append(...LOCKABLE.map((name) => h("option", { value: name, text: words(name) })));
      offer();
    }
    locked.replaceChildren(
      ...Object.entries(wanted.locked).map(([name, its]) =>
        h(
          "span",
          { class: "chip" },
          words(name),
          h("b", { text: its }),
          h(
            "button",
            { type: "button", "aria-label": `Unlock ${words(name)} ${its}`, onclick: () => unlock(name) },
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
