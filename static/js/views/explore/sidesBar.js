/** A and B in the bar: the title of the page. Each opens a choice of plans and measurements; swap, pin, undo. */
import { pinScenario, setScenario, setSides, swapSides, undo } from "../../actions.js";
import { apart, isTraced, leftTrace, measuredChip, relationWords, seemsOf } from "../../measured.js";
import { describe, same, shortLabel } from "../../scenario.js";
import { set, state, subscribe } from "../../state.js";
import { h, icon, put } from "../common/dom.js";
import { toast } from "../common/toast.js";

/** @param {string} name @param {string} label @param {() => void} act @param {string} [keys] */
const tool = (name, label, act, keys) =>
  h(
    "button",
    { type: "button", class: "tool", title: label, "aria-label": label, "aria-keyshortcuts": keys, onclick: act },
    icon(name),
  );

/** @param {HTMLElement} root @param {(letter: "A" | "B") => void} choose */
export function createSidesBar(root, choose) {
  const sides = /** @type {const} */ (["A", "B"]).map((letter) => {
    const badge = h("span", { class: "badge", text: letter });
    const kind = h("span", { class: "kind" });
    const name = h("b");
    const extra = h("span", { class: "extra" });
    const refused = h("span", { class: "refused" });
    const element = h(
      "button",
      { type: "button", class: `side side-${letter.toLowerCase()}`, onclick: () => choose(letter) },
      badge,
      kind,
      h("span", { class: "names" }, refused, " ", name, " ", extra),
    );
    return { letter, element, badge, kind, name, extra, refused };
  });
  const pin = () => {
    pinScenario();
    toast("Pinned");
  };
  const back = tool("undo", "Undo", undo, "Control+Z");
  root.append(
    sides[0].element,
    tool("swap", "Swap A and B", swapSides, "x"),
    sides[1].element,
    tool("pin", "Pin this plan", pin, "p"),
    back,
  );

  function update() {
    root.hidden = state.view !== "explore";
    back.disabled = !state.decisions;
    const { pair } = state;
    if (!pair) return;
    for (const { letter, element, badge, kind, name, extra, refused } of sides) {
      const side = letter === "A" ? pair.a : pair.b;
      badge.classList.toggle("hatched", side?.predicted ?? true);
      element.classList.toggle("muted", side?.fits === false);
      element.classList.toggle("none", !side);
      put(kind, side?.kind ?? "");
      put(name, side?.name ?? (letter === "A" ? "choose A" : "choose B"));
      put(extra, side?.extra ?? "");
      put(refused, side && !side.fits ? (side.predicted ? "does not fit" : "out of memory") : "");
      element.title = side
        ? [
            `Choose ${letter}. Now: ${side.name}`,
            side.scenario ? describe(side.scenario, state.catalog) : "",
            side.extra,
            whole(side, letter === "A" ? pair.b : pair.a),
          ]
            .filter(Boolean)
            .join(", ")
        : `Choose ${letter}`;
    }
  }
  subscribe(["pair", "view", "catalog", "decisions"], update);
  update();
}

/**
 * Everything by which a plan differs from the other side, where its name had room for some of it.
 * @param {import("../../sides.js").Side} side @param {import("../../sides.js").Side | null} other
 */
function whole({ scenario }, other) {
  if (!scenario || !other?.scenario || same(scenario, other.scenario)) return "";
  const words = shortLabel(scenario, other.scenario, state.catalog, Infinity);
  return `against ${other.letter}: ${words}`;
}

/** The way from what is shown back to what was measured, where the two are apart. */
export function wayBack() {
  const words = relationWords(state);
  const { measurement, measuredScenario, scenario, catalog } = state;
  if (leftTrace(state)) {
    const its = seemsOf(measurement, catalog);
    const act = () => {
      if (its) set({ scenario: its });
      setSides("", "");
    };
    return { words, back: h("button", { type: "button", class: "link", text: "Back to its own ops", onclick: act }) };
  }
  if (!measurement || !measuredScenario || !words || same(measuredScenario, scenario)) return { words, back: null };
  const chip = apart(state, scenario) === "chip" ? measuredChip(measurement, catalog.chips) : null;
  const before = isTraced(measurement) ? "Back to what was traced" : "Predict what was measured";
  const text = chip ? `Predict for ${chip.label}` : before;
  const act = () => {
    set({ a: "", b: "" });
    setScenario(measuredScenario);
  };
  return { words, back: h("button", { type: "button", class: "link", text, onclick: act }) };
}
