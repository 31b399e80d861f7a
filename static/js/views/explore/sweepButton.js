/** The button beside a slider that opens its sweep, and closes it again. */
import { setSweep } from "../../actions.js";
import { state } from "../../state.js";
import { h, icon } from "../common/dom.js";

/** @param {string} path @param {string} label */
export function createSweepButton(path, label) {
  const element = h(
    "button",
    {
      type: "button",
      class: "sweep-at",
      "data-sweeps": path,
      title: `Sweep: all values of ${label} as figure, table and CSV`,
      "aria-label": `Sweep ${label}`,
      "aria-pressed": "false",
      onclick: () => setSweep(state.sweep === path ? "" : path),
    },
    icon("sweep"),
  );
  const update = () => element.setAttribute("aria-pressed", String(state.sweep === path));
  return { element, update };
}
