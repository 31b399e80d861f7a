/** Plans that a search found, one line each; its first cell opens the plan in Explore. */
import { exploreScenario } from "../../actions.js";
import { bytes, percent, plural, seconds, short, significant } from "../../format.js";
import { planLabel } from "../../planLabel.js";
import { chipHoursWord } from "../../scenario.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { grid } from "../common/table.js";

/** GPU-hours, which go with the step time, have no room on a narrow page. */
const WIDE = [5];
const HEADS = ["plan", "step time", "tokens/s", "MFU", "peak memory"];

/** Hours of chips that 10⁹ tokens take. @param {import("../../types.js").Found} found */
const chipHours = ({ cost_chip_s, step_time_s, tokens_per_s }) =>
  ((cost_chip_s / (step_time_s * tokens_per_s)) * 1e9) / 3600;

/** How many plans have the same numbers. @param {number} [ties] */
const tied = (ties = 0) =>
  ties > 0 &&
  h("small", {
    class: "ties",
    text: `+ ${plural(ties, "other")} that tie${ties === 1 ? "s" : ""}`,
    title: "Same time and memory; this plan is the simplest of them",
  });

/** @param {import("../../types.js").Found[]} plans */
export function planTable(plans) {
  const { fields } = state.catalog;
  return grid(
    [...HEADS, `${chipHoursWord(state.scenario, state.catalog)} per 10⁹ tokens`],
    plans.map((found) => {
      const { degrees, rest } = planLabel(found.scenario.plan, fields);
      const open = h("button", {
        type: "button",
        class: "link",
        text: degrees,
        title: "Open in Explore",
        onclick: () => exploreScenario(found.scenario),
      });
      return h(
        "tr",
        {
          class: "opens",
          onclick: (/** @type {Event} */ event) => event.target !== open && exploreScenario(found.scenario),
        },
        h("td", { class: "wrap" }, open, h("small", { text: rest }), tied(found.ties)),
        h("td", { text: seconds(found.step_time_s) }),
        h("td", { text: short(found.tokens_per_s) }),
        h("td", { text: percent(found.mfu) }),
        h("td", { text: bytes(found.peak_bytes) }),
        h("td", { class: "wide", text: significant(chipHours(found)) }),
      );
    }),
    { wide: WIDE },
  );
}
