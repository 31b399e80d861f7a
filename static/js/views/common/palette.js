/** What one dialog finds: commands (actions, plans, models, chips, measurements), a model, and what stands at A or B. */
import { setChip, setModel, setSides, setSweep, show } from "../../actions.js";
import { partOf, sweepable } from "../../fieldSweep.js";
import { count, plural, quantity, short, when } from "../../format.js";
import { isTable, isTraced, wasTraced } from "../../measured.js";
import { openMeasurement } from "../../measurements.js";
import { clusterChips, complete, describe, get, resized, same, shortLabel } from "../../scenario.js";
import { chosenSides } from "../../sides.js";
import { state } from "../../state.js";
import { pinned, pinOf } from "../../url.js";
import { createFinder } from "./finder.js";
import { byId } from "./dom.js";
import { trying } from "./toast.js";

/** @typedef {import("./finder.js").Offer} Offer */

const NONE = "Nothing of that name.";

/** @param {import("../../types.js").Entry} entry */
const modelFacts = ({ value, parameters }) =>
  [
    parameters && `${short(parameters)} parameters`,
    `${count(value.layers)} layers`,
    `${count(value.hidden)} wide`,
    value.experts > 0 && `${count(value.experts)} experts (MoE)`,
    value.kv_lora_rank > 0 && "MLA",
    value.sliding_window > 0 && "sliding window",
  ]
    .filter(Boolean)
    .join(" · ");

/** Models of the catalogue. @param {(key: string) => void} take @returns {Offer[]} */
const models = (take) =>
  state.catalog.models.map((entry) => ({
    title: entry.label,
    facts: modelFacts(entry),
    words: ["model", entry.key, ...entry.aliases].join(" "),
    current: entry.key === state.scenario.model,
    act: () => take(entry.key),
  }));

/**
 * @param {import("../../keys.js").Shortcut[]} shortcuts
 * @param {{found: () => void, reveal: (path: string) => void}} acts  `found`: after a model was taken; `reveal` shows the
 *   control of a field
 */
export function createPalette(shortcuts, { found, reveal }) {
  const finder = createFinder();

  /** Where a command changes the scenario, the page that shows it. @param {() => void} act */
  const inExplore = (act) => () => {
    if (!["explore", "search"].includes(state.view)) show("explore");
    act();
  };

  /** @returns {Offer[]} */
  function commands() {
    const { catalog, measurements, scenario } = state;
    const actions = shortcuts.flatMap(({ keys, does, words, act }) =>
      act ? [{ title: does, facts: keys.join(" "), words, act }] : [],
    );
    const fields = sweepable();
    const settings = fields
      .filter(({ path }) => !partOf(path) && hasControl(path))
      .map(({ path, label }) => ({
        title: label,
        facts: `setting · ${get(scenario, path)}`,
        words: [path, catalog.fields[path]?.help, ...(catalog.fields[path]?.choices ?? [])].join(" "),
        act: () => reveal(path),
      }));
    const parts = fields.flatMap(({ path, label }) => {
      const part = partOf(path);
      const words = `hardware multiple faster slower half halved twice doubled ${part === "link" ? "nvlink pcie" : part === "network" ? "infiniband ethernet" : ""}`;
      return part
        ? [
            {
              title: `What if ${label} were another`,
              facts: "multiple of the catalogue's",
              words,
              act: () => reveal(path),
            },
          ]
        : [];
    });
    const sweeps = fields.map(({ path, label }) => ({
      title: `Sweep ${label}`,
      facts: "all its values: figure, table, CSV",
      words: `${path} table export`,
      act: inExplore(() => setSweep(path)),
    }));
    const chips = catalog.chips.map(({ key, label }) => ({
      title: label,
      facts: "chip",
      act: inExplore(() => setChip(key)),
    }));
    const measured = (measurements ?? []).flatMap((one) => {
      const title = one.label || one.id;
      const what = wasTraced(one) ? "traced program" : "measurement";
      const facts = [what, one.device_name, one.step_time_s && quantity(one.step_time_s, "s")]
        .filter(Boolean)
        .join(" · ");
      const open = {
        title: `Open ${title}`,
        facts,
        act: () => void trying(openMeasurement(one.id)),
      };
      const [a] = chosenSides(state);
      const beside = () => setSides(a || "plan", `m:${one.id}`);
      return isTable(one) ? [open] : [open, { title: `B is ${title}`, facts, act: inExplore(beside) }];
    });
    const plans = pinnedPlans().map(({ pin, title, facts }) => ({
      title: `B is ${title}`,
      facts,
      act: inExplore(() => setSides(chosenSides(state)[0] || "plan", pin)),
    }));
    const offered = models((key) => inExplore(() => setModel(key))());
    const calibrate = {
      title: "Calibrate",
      facts: "predict by measurements of your own machine",
      words: "calibrated calibration efficiencies probes",
      act: () => reveal("calibration"),
    };
    return [...actions, calibrate, ...plans, ...offered, ...chips, ...settings, ...parts, ...sweeps, ...measured];
  }

  return {
    open: () =>
      finder.open({
        title: "Commands",
        placeholder: "An action, setting, sweep, plan, model, chip or measurement",
        none: NONE,
        offered: commands,
      }),
    /** Find a model. */
    model: () =>
      finder.open({
        title: "Find model",
        placeholder: "Name, family or size, as in qwen 8b",
        none: "No model of the catalogue has that name; a config.json can be taken in Explore.",
        offered: () =>
          models((key) => {
            setModel(key);
            found();
          }),
      }),
    /** Choose what stands at A or B. @param {"A" | "B"} letter */
    side: (letter) =>
      finder.open({
        title: `Choose ${letter}`,
        placeholder: "A plan, run, upload, model or chip",
        none: NONE,
        offered: () => sides(letter),
      }),
  };
}

/** Whether the panel has a control for a field, as far as it has been made. @param {string} path */
function hasControl(path) {
  const made = byId("explore").querySelector("[data-field]");
  return !made || Boolean(byId("explore").querySelector(`[data-field="${path}"]`));
}

/** Plans that were pinned, by what tells them from the one in the panel. */
function pinnedPlans() {
  const { scenario, catalog, pins, base } = state;
  return pins
    .filter((pin) => pin.startsWith("s:"))
    .map((pin) => {
      const its = pinned(pin, base);
      const all = describe(its, catalog);
      const title = same(its.model, scenario.model) ? shortLabel(its, scenario, catalog) : all;
      return { pin, title, facts: `pinned plan · ${all}` };
    });
}

/** What tells traces of one program apart. @param {import("../../types.js").Summary} summary */
function tracedFacts({ predicted }) {
  const { tokens: many = 0, samples = 0 } = predicted ?? {};
  const tokens = many ? ` for ${plural(many, "token")}` : samples ? ` for ${plural(samples, "sample")}` : "";
  return predicted
    ? `traced, ${quantity(predicted.step_time_s, "s")} predicted from its own ops${tokens}`
    : "traced, predicted from its own ops";
}

/** What may stand at a side: the plan, pinned plans, measurements, and the plan on another model or chip. @param {"A" | "B"} letter @returns {Offer[]} */
function sides(letter) {
  const { scenario, catalog, base, measurements, measurement } = state;
  const now = chosenSides(state)[letter === "A" ? 0 : 1];
  const offer = (/** @type {string} */ key, /** @type {string} */ title, /** @type {string} */ facts, words = "") => ({
    title,
    facts,
    words,
    current: key === now,
    act: () => take(letter, key),
  });
  const plans = pinnedPlans().map(({ pin, title, facts }) => offer(pin, title, facts));
  const measured = (measurements ?? [])
    .filter((one) => !isTable(one))
    .map((one) =>
      offer(
        `m:${one.id}`,
        one.label || one.id,
        [
          one.bundled ? "bundled" : wasTraced(one) ? tracedFacts(one) : one.origin?.kind,
          one.device_name,
          one.step_time_s && quantity(one.step_time_s, "s"),
          !one.bundled && when(one.created_s),
        ]
          .filter(Boolean)
          .join(" · "),
      ),
    );
  const entries = [
    ...catalog.models.map(({ key, label, aliases }) => ({
      key,
      label,
      words: aliases.join(" "),
      what: "model",
      its: { ...scenario, model: key },
    })),
    ...catalog.chips.map(({ key, label, value }) => ({
      key,
      label,
      words: "",
      what: "chip",
      its: { ...scenario, cluster: resized({ chip: key }, clusterChips(scenario.cluster), value.chips_per_node ?? 8) },
    })),
  ].filter(({ key }) => key !== scenario.model && key !== scenario.cluster.chip);
  return [
    offer("plan", "The plan in the panel", `predicted · ${describe(scenario, catalog)}`),
    ...(measurement?.expected && !isTraced(measurement)
      ? [offer("own", "Its own ops, predicted", measurement.label || measurement.id)]
      : []),
    ...plans,
    ...measured,
    ...entries.map(({ key, label, words, what, its }) =>
      offer(pinOf(complete(its, catalog), base), label, `the same plan on this ${what}`, `${key} ${words}`),
    ),
  ];
}

/** @param {"A" | "B"} letter @param {string} key */
function take(letter, key) {
  const [a, b] = chosenSides(state);
  const [first, second] = letter === "A" ? [key, b === key ? a : b] : [a === key ? b : a, key];
  setSides(first, second);
}
