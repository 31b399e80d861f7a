// @ts-check
/** What is wrong with the scenario as a whole, and what its estimate warns of. */
import { setScenario } from "../actions.js";
import { said } from "../format.js";
import { state } from "../state.js";
import { h } from "./dom.js";

/** @param {() => import("../types.js").Problem[]} unplaced  problems that no field of the panel shows */
export function createNotices(unplaced) {
  const element = h("div", { class: "notices", "aria-live": "polite" });
  const notice = (
    /** @type {string} */ title,
    /** @type {string} */ text,
    /** @type {HTMLElement | null} */ more = null,
  ) => h("div", { class: "notice" }, h("b", { text: title }), h("span", { text }), more);

  function update() {
    const { problems, estimate } = state;
    if (!problems.length) {
      const warned = estimate?.problems ?? [];
      element.replaceChildren(...warned.map(({ message, remedy }) => notice(message, remedy)));
      return;
    }
    const title = problems[0].field === "server" ? "The estimate failed." : "This scenario cannot be estimated.";
    const which = unplaced().length ? unplaced() : problems;
    const back = h("button", { type: "button", class: "link", text: "Back to the sample" });
    back.onclick = () => setScenario(state.base);
    const kept = h("span", { text: "The figures still show the last one that could." });
    element.replaceChildren(notice(title, which.map(said).join(" "), estimate ? kept : back));
  }
  return { element, update };
}
