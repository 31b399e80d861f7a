/** Plans that a search found, those that cannot be told apart in one group; the first cell of each opens it as B. */
import { groups, keyOf } from "../../answers.js";
import { measures, said } from "../../figures/plans.js";
import { bytes, percent, plural, short } from "../../format.js";
import { planLabel } from "../../planLabel.js";
import { chipHoursWord } from "../../scenario.js";
import { state } from "../../state.js";
import { h } from "../common/dom.js";
import { grid } from "../common/table.js";
import { openPlan } from "./planFigures.js";

/** @typedef {import("../../answers.js").Answer} Answer */

/** Lines of a group that are shown before it is opened. */
const SHOWN = 3;

/** How many plans have the same numbers. @param {number} [ties] */
const tied = (ties = 0) =>
  ties > 0 &&
  h("small", {
    class: "ties",
    text: `+ ${plural(ties, "other")} that tie${ties === 1 ? "s" : ""}`,
    title: "Same time and memory; this plan is the simplest of them",
  });

/** @param {Answer[]} sorted @param {import("../../answers.js").Asked} asked */
export function planTable(sorted, asked) {
  const { catalog, scenario, wanted } = state;
  const [time, price, hours] = measures(asked.run_tokens > 0, chipHoursWord(scenario, catalog));
  const priced = asked.usd_per_hour > 0;
  const heads = [
    "plan",
    "chips",
    time.text,
    "at 80 %",
    ...(priced ? [price.text] : []),
    hours.text,
    "peak memory",
    "tokens/s",
    "MFU",
  ];
  const wide = [3, heads.length - 4, heads.length - 2, heads.length - 1];
  const line = (/** @type {Answer} */ one) => {
    const { found, late } = one;
    const { degrees, rest } = planLabel(found.scenario.plan, catalog.fields);
    const act = () => openPlan(found.scenario);
    const open = h("button", { type: "button", class: "link", text: degrees, title: "Make it B", onclick: act });
    const [low, high] = one.range_s.map((time_s) => said(time, { ...one, time_s }));
    return h(
      "tr",
      { class: late ? "opens late" : "opens", onclick: (/** @type {Event} */ event) => event.target !== open && act() },
      h("td", { class: "wrap" }, open, h("small", { text: rest }), tied(found.ties)),
      h("td", { text: String(one.chips) }),
      h("td", { text: said(time, one) }, late && h("small", { class: "ties", text: `over ${asked.days} days` })),
      h("td", { class: "wide quiet", text: `${low} – ${high}` }),
      priced && h("td", { text: said(price, one) }),
      h("td", { class: "wide", text: said(hours, one) }),
      h("td", { text: bytes(one.peak_bytes) }),
      h("td", { class: "wide", text: short(found.tokens_per_s) }),
      h("td", { class: "wide", text: percent(found.mfu) }),
    );
  };
  const columns = heads.length;
  const objective = sorted.every(({ late }) => late) ? "step_time" : wanted.objective;
  const found = groups(sorted, objective);
  const rows = found.flatMap(({ plans: some }, at) => {
    const lines = some.map(line);
    const hidden = lines.slice(SHOWN);
    for (const one of hidden) one.hidden = true;
    const spread = keyOf(some[some.length - 1], objective) / keyOf(some[0], objective) - 1;
    // a plan behind a group is not one of it
    const behind = some.length === 1 && at > 0 && found[at - 1].plans.length > 1;
    const words = behind
      ? "Behind these"
      : `${plural(some.length, "plan")} whose intervals overlap, ${percent(spread, 2)} apart`;
    const more =
      hidden.length > 0 &&
      h("button", {
        type: "button",
        class: "link",
        text: `show ${hidden.length} more`,
        onclick: (/** @type {Event} */ event) => {
          for (const one of hidden) one.hidden = false;
          /** @type {HTMLElement} */ (event.target).remove();
        },
      });
    const head = h("tr", { class: "group" }, h("th", { colspan: columns, scope: "rowgroup" }, words, " ", more));
    return some.length === 1 && !behind ? lines : [head, ...lines];
  });
  return grid(heads, rows, { wide });
}
