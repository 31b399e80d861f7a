/** What is wrong with the scenario as a whole, and what its estimate warns of. */
import { setScenario } from "../../actions.js";
import { sentences } from "../../format.js";
import { fieldNamed } from "../../ownParts.js";
import { onPage } from "../../problemWords.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";

/** @param {string} title @param {string[]} texts @param {HTMLElement[]} more */
const notice = (title, texts, ...more) =>
  h(
    "div",
    { class: "notice" },
    h("b", { text: title }),
    texts.filter(Boolean).map((text) => h("p", { text })),
    more,
  );

/** @param {() => import("../../types.js").Problem[]} unplaced  problems that no field of the panel shows */
export function createNotices(unplaced) {
  const element = h("div", { class: "notices", "aria-live": "polite" });

  function update() {
    const { problems, estimate, estimated, base } = state;
    if (!problems.length) {
      const warned = estimate?.problems ?? [];
      element.replaceChildren(...warned.map(({ message, remedy }) => notice(message, [remedy])));
      return;
    }
    const title = problems[0].field === "server" ? "The estimate failed." : "This scenario cannot be estimated.";
    const which = unplaced().length ? unplaced() : problems;
    const [to, text] = estimated
      ? [estimated, "Back to the last one that could, which the figures still show"]
      : [base, "Back to the sample"];
    const back = h("button", { type: "button", class: "link", text, onclick: () => setScenario(to) });
    const named = which.map((one) => onPage(fieldNamed(one, state.catalog)));
    element.replaceChildren(notice(title, sentences(named), back));
  }
  return { element, update };
}
