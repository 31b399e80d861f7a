/**
 * What is wrong with a field: why the last choice was refused, else what the server finds impossible or worth a note,
 * and that it followed another field.
 */
import { changeText, alsoChanged } from "../../changes.js";
import { saidTogether } from "../../format.js";
import { onPage } from "../../problemWords.js";
import { state } from "../../state.js";
import { h } from "./dom.js";

/** What followed the last move, as long as the scenario is the one that it led to. */
const followed = () => (state.adapted?.scenario === state.scenario ? state.adapted.changes : []);

/** @param {string} path */
export function createFieldProblem(path) {
  const element = h("div", { class: "problem", role: "alert", hidden: true });
  const own = (/** @type {import("../../types.js").Problem[]} */ problems) =>
    saidTogether(problems.filter(({ field }) => field === path).map((one) => ({ ...one, remedy: onPage(one).remedy })));

  /**
   * @param {string} refused  why, or nothing
   * @param {{text: string, take: () => void} | null} [offer]  what would make it possible
   * @returns {boolean} whether the field's value cannot be
   */
  function update(refused, offer = null) {
    const wrong = own(state.problems);
    const notes = state.problems.length ? "" : own(state.estimate?.problems ?? []);
    const adapted = followed().filter((one) => one.path === path);
    // what followed is said where the eye is: at the field that was moved, and at the one that followed
    const also = state.adapted?.path === path ? alsoChanged(followed()) : "";
    const text = refused || [wrong, notes, ...adapted.map(changeText), also].filter(Boolean).join(" ");
    const bad = Boolean(refused || wrong);
    element.hidden = !text;
    element.classList.toggle("mild", !bad);
    if (text) {
      const title = refused
        ? "Refused: "
        : bad
          ? "Not possible: "
          : adapted.length
            ? "Adapted: "
            : notes
              ? "Note: "
              : "";
      const button = offer && h("button", { type: "button", class: "link", text: offer.text, onclick: offer.take });
      element.replaceChildren(h("b", { text: title }), text, ...(button ? [" ", button] : []));
    }
    return bad;
  }
  return { element, update };
}
