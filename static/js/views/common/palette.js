/** The command palette: actions, models, chips and measurements by any of their words; Enter takes the first. */
import { setChip, setModel, setSides, show } from "../../actions.js";
import { quantity } from "../../format.js";
import { isTable } from "../../measured.js";
import { openMeasurement } from "../../measurements.js";
import { chosenSides } from "../../sides.js";
import { state } from "../../state.js";
import { createDialog } from "./dialogs.js";
import { h } from "./dom.js";
import { trying } from "./toast.js";

/** @typedef {{title: string, facts: string, act: () => void}} Command */

const MOST = 40;

/** @param {import("../../keys.js").Shortcut[]} shortcuts */
export function createPalette(shortcuts) {
  const list = h("ul", { class: "found-models" });
  const search = h("input", {
    type: "text",
    id: "command",
    placeholder: "An action, model, chip or measurement",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => fill(),
  });
  const element = createDialog("Commands", [
    h("label", { class: "sr", for: "command", text: "Command" }),
    search,
    list,
  ]);

  /** @returns {Command[]} */
  function commands() {
    const { catalog, measurements } = state;
    const inExplore = (/** @type {() => void} */ act) => () => {
      if (!["explore", "search"].includes(state.view)) show("explore");
      act();
    };
    const actions = shortcuts.flatMap(({ keys, does, act }) =>
      act ? [{ title: does, facts: keys.join(" "), act }] : [],
    );
    const models = catalog.models.map(({ key, label }) => ({
      title: label,
      facts: "model",
      act: inExplore(() => setModel(key)),
    }));
    const chips = catalog.chips.map(({ key, label }) => ({
      title: label,
      facts: "chip",
      act: inExplore(() => setChip(key)),
    }));
    const measured = (measurements ?? []).flatMap((one) => {
      const title = one.label || one.id;
      const facts = [one.device_name, one.step_time_s && quantity(one.step_time_s, "s")].filter(Boolean).join(" · ");
      const open = {
        title: `Open ${title}`,
        facts: `measurement · ${facts}`,
        act: () => void trying(openMeasurement(one.id)),
      };
      const [a] = chosenSides(state);
      const beside = () => setSides(a || "plan", `m:${one.id}`);
      return isTable(one)
        ? [open]
        : [open, { title: `B is ${title}`, facts: `measurement · ${facts}`, act: inExplore(beside) }];
    });
    return [...actions, ...models, ...chips, ...measured];
  }

  function fill() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const found = commands().filter(({ title, facts }) =>
      words.every((word) => `${title} ${facts}`.toLowerCase().includes(word)),
    );
    list.replaceChildren(
      ...found.slice(0, MOST).map(({ title, facts, act }) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              onclick: () => {
                element.close();
                act();
              },
            },
            h("b", { text: title }),
            h("small", { text: facts }),
          ),
        ),
      ),
      ...(found.length ? [] : [h("li", { class: "empty", text: "Nothing of that name." })]),
    );
  }

  element.addEventListener("keydown", (event) => {
    const buttons = [...list.querySelectorAll("button")];
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (document.activeElement));
    if (event.key === "Enter" && document.activeElement === search) {
      event.preventDefault();
      buttons[0]?.click();
    }
    const way = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!way) return;
    event.preventDefault();
    if (at + way < 0) search.focus();
    else buttons[Math.min(buttons.length - 1, at + way)]?.focus();
  });
  return {
    open: () => {
      search.value = "";
      fill();
      element.showModal();
      search.focus();
    },
  };
}
