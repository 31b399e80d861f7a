/** A dialog that finds a model by any part of its name, family or size; Enter takes the first. */
import { setModel } from "../../actions.js";
import { count, short } from "../../format.js";
import { state } from "../../state.js";
import { createDialog } from "../common/dialogs.js";
import { h } from "../common/dom.js";

const MOST = 60;

/** @param {() => void} found  after a model was taken */
export function createFindModel(found) {
  const list = h("ul", { class: "found-models" });
  const search = h("input", {
    type: "text",
    id: "find-model",
    placeholder: "Name, family or size, as in qwen 8b",
    autocomplete: "off",
    spellcheck: "false",
    oninput: () => fill(),
  });
  const element = createDialog("Find model", [
    h("label", { class: "sr", for: "find-model", text: "Find model" }),
    search,
    list,
  ]);

  /** @param {import("../../types.js").Entry} entry */
  function facts({ value, parameters }) {
    return [
      parameters && `${short(parameters)} parameters`,
      `${count(value.layers)} layers`,
      `${count(value.hidden)} wide`,
      value.experts > 0 && `${count(value.experts)} experts (MoE)`,
      value.kv_lora_rank > 0 && "MLA",
      value.sliding_window > 0 && "sliding window",
    ]
      .filter(Boolean)
      .join(" · ");
  }

  function matches() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    return state.catalog.models.filter((entry) => {
      const text = [entry.key, entry.label, ...entry.aliases, facts(entry)].join(" ").toLowerCase();
      return words.every((word) => text.includes(word));
    });
  }

  /** @param {string} key */
  function take(key) {
    element.close();
    setModel(key);
    found();
  }

  function fill() {
    const some = matches();
    list.replaceChildren(
      ...some.slice(0, MOST).map((entry) =>
        h(
          "li",
          {},
          h(
            "button",
            {
              type: "button",
              "aria-current": entry.key === state.scenario.model && "true",
              onclick: () => take(entry.key),
            },
            h("b", { text: entry.label }),
            h("small", { text: facts(entry) }),
          ),
        ),
      ),
      ...(some.length
        ? []
        : [
            h("li", {
              class: "empty",
              text: "No model of the catalogue has that name; a config.json can be taken in Explore.",
            }),
          ]),
    );
  }

  /** Arrow keys walk through the list. @param {KeyboardEvent} event */
  function walk(event) {
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
  }
  element.addEventListener("keydown", walk);
  return {
    open: () => {
      search.value = "";
      fill();
      element.showModal();
      search.focus();
    },
  };
}
