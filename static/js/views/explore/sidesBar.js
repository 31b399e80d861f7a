/** A and B in the bar: the title of the page. Each opens a choice of plans and measurements; swap, pin, undo. */
import { pinScenario, setScenario, setSides, swapSides } from "../../actions.js";
import { quantity, when } from "../../format.js";
import { apart, isTable, measuredChip, relationWords } from "../../measured.js";
import { describe, same, shortLabel } from "../../scenario.js";
import { chosenSides } from "../../sides.js";
import { set, state, subscribe } from "../../state.js";
import { pinned } from "../../url.js";
import { createDialog } from "../common/dialogs.js";
import { h, icon, put } from "../common/dom.js";
import { toast } from "../common/toast.js";

const LISTED = 200;

/** @param {string} name @param {string} label @param {() => void} act @param {string} [keys] */
const tool = (name, label, act, keys) =>
  h(
    "button",
    { type: "button", class: "tool", title: label, "aria-label": label, "aria-keyshortcuts": keys, onclick: act },
    icon(name),
  );

/** @param {HTMLElement} root */
export function createSidesBar(root) {
  const chooser = createChooser();
  const sides = /** @type {const} */ (["A", "B"]).map((letter) => {
    const badge = h("span", { class: "badge", text: letter });
    const kind = h("span", { class: "kind" });
    const name = h("b");
    const extra = h("span", { class: "extra" });
    const refused = h("span", { class: "refused" });
    const element = h(
      "button",
      { type: "button", class: `side side-${letter.toLowerCase()}`, onclick: () => chooser.open(letter) },
      badge,
      kind,
      name,
      extra,
      refused,
    );
    return { letter, element, badge, kind, name, extra, refused };
  });
  const pin = () => {
    pinScenario();
    toast("Pinned");
  };
  root.append(
    sides[0].element,
    tool("swap", "Swap A and B", swapSides, "x"),
    sides[1].element,
    tool("pin", "Pin this plan", pin, "p"),
    tool("undo", "Undo", () => history.back(), "Control+Z"),
  );

  function update() {
    root.hidden = state.view !== "explore";
    const { pair } = state;
    if (!pair) return;
    for (const { letter, element, badge, kind, name, extra, refused } of sides) {
      const side = letter === "A" ? pair.a : pair.b;
      badge.classList.toggle("hatched", side?.predicted ?? true);
      element.classList.toggle("muted", side?.fits === false);
      element.classList.toggle("none", !side);
      put(kind, side ? (side.predicted ? "predicted" : "measured") : "");
      put(name, side?.name ?? (letter === "A" ? "choose A" : "choose B"));
      put(extra, side?.extra ?? "");
      put(refused, side && !side.fits ? (side.predicted ? "does not fit" : "out of memory") : "");
      element.title = side
        ? [`Choose ${letter}. Now: ${side.scenario ? describe(side.scenario, state.catalog) : side.name}`, side.extra]
            .filter(Boolean)
            .join(", ")
        : `Choose ${letter}`;
    }
  }
  subscribe(["pair", "view", "catalog"], update);
  update();
  return { choose: chooser.open };
}

/** The dialog in which A or B is chosen: the plan, pinned plans, measurements. */
function createChooser() {
  const list = h("ul", { class: "found-models" });
  const search = h("input", {
    type: "text",
    id: "choose-side",
    placeholder: "Name, model or device",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => fill(),
  });
  const title = h("label", { for: "choose-side" });
  const element = createDialog("Choose what is compared", [title, search, list]);
  /** @type {"A" | "B"} */
  let letter = "A";

  /** @param {string} key */
  function take(key) {
    element.close();
    const [a, b] = chosenSides(state);
    const [first, second] = letter === "A" ? [key, b === key ? a : b] : [a === key ? b : a, key];
    setSides(first, second);
  }

  /** @returns {{key: string, title: string, facts: string}[]} */
  function offered() {
    const { scenario, catalog, pins, base, measurements, measurement } = state;
    const plans = pins
      .filter((pin) => pin.startsWith("s:"))
      .map((pin) => {
        const its = pinned(pin, base);
        const words = same(its.model, scenario.model) ? shortLabel(its, scenario) : describe(its, catalog);
        return { key: pin, title: words, facts: `pinned plan · ${describe(its, catalog)}` };
      });
    const measured = (measurements ?? [])
      .filter((one) => !isTable(one))
      .slice(0, LISTED)
      .map((one) => ({
        key: `m:${one.id}`,
        title: one.label || one.id,
        facts: [
          one.bundled ? "bundled" : one.origin?.kind,
          one.device_name,
          one.step_time_s && quantity(one.step_time_s, "s"),
          !one.bundled && when(one.created_s),
        ]
          .filter(Boolean)
          .join(" · "),
      }));
    return [
      { key: "plan", title: "The plan in the panel", facts: `predicted · ${describe(scenario, catalog)}` },
      ...(measurement?.expected
        ? [{ key: "own", title: "Its own ops, predicted", facts: measurement.label || measurement.id }]
        : []),
      ...plans,
      ...measured,
    ];
  }

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const now = chosenSides(state)[letter === "A" ? 0 : 1];
    const found = offered().filter((one) =>
      words.every((word) => `${one.title} ${one.facts}`.toLowerCase().includes(word)),
    );
    list.replaceChildren(
      ...found.map(({ key, title: text, facts }) =>
        h(
          "li",
          {},
          h(
            "button",
            { type: "button", "aria-current": key === now && "true", onclick: () => take(key) },
            h("b", { text }),
            h("small", { text: facts }),
          ),
        ),
      ),
      ...(found.length ? [] : [h("li", { class: "empty", text: "Nothing of that name." })]),
    );
  }
  return {
    open: (/** @type {"A" | "B"} */ which) => {
      letter = which;
      put(title, `${letter} is`);
      search.value = "";
      fill();
      element.showModal();
      search.focus();
    },
  };
}

/** The way from what is shown back to what was measured, where the two are apart. */
export function wayBack() {
  const words = relationWords(state);
  const { measurement, measuredScenario, scenario, catalog } = state;
  if (!measurement || !measuredScenario || !words || same(measuredScenario, scenario)) return { words, back: null };
  const chip = apart(state, scenario) === "chip" ? measuredChip(measurement, catalog.chips) : null;
  const text = chip ? `Predict for ${chip.label}` : "Predict what was measured";
  const act = () => {
    set({ a: "", b: "" });
    setScenario(measuredScenario);
  };
  return { words, back: h("button", { type: "button", class: "link", text, onclick: act }) };
}
