/** The button beside what says that this CPU was busy when it was measured, or could not be: it is measured again. */
import { api } from "../../api.js";
import { set, state, subscribe } from "../../state.js";
import { h, put } from "./dom.js";
import { toast, trying } from "./toast.js";

let asked = false;
/** Whether this page asked for it. */
export const hasAsked = () => asked;

export function createMeasureAgain() {
  const element = h("button", {
    type: "button",
    class: "link",
    hidden: true,
    onclick: () => trying(ask()),
  });
  let why = "";

  async function ask() {
    const { measuring, message } = await api.measureCpu();
    if (message) toast(message);
    asked ||= measuring;
    set({ catalog: { ...state.catalog, measuring } });
  }

  /** @param {string} [doubt]  why predictions say nothing, or there are none; "" where they say something */
  function update(doubt = why) {
    why = doubt;
    const { doubts = {}, pending = [], measuring = false } = state.catalog;
    element.hidden = !why || ![...Object.values(doubts), ...pending.map(({ message }) => message)].includes(why);
    element.disabled = measuring;
    put(element, measuring ? "Measuring this CPU again …" : "Measure this CPU again");
  }
  subscribe(["catalog"], () => update());
  return { element, update };
}
