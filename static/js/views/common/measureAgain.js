/** The button beside predictions of a CPU that was busy when it was measured: it is measured again. */
import { api } from "../../api.js";
import { set, state, subscribe } from "../../state.js";
import { h, put } from "./dom.js";
import { toast, trying } from "./toast.js";

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
    set({ catalog: { ...state.catalog, measuring } });
  }

  /** @param {string} [doubt]  why predictions say nothing, "" where they do */
  function update(doubt = why) {
    why = doubt;
    const { doubts = {}, measuring = false } = state.catalog;
    element.hidden = !why || !Object.values(doubts).includes(why);
    element.disabled = measuring;
    put(element, measuring ? "Measuring this CPU again …" : "Measure this CPU again");
  }
  subscribe(["catalog"], () => update());
  return { element, update };
}
